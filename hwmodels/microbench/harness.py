"""Measures the cases of a plan one after the other until the budget is used.

Knows no GPU: a `Device` measures one case. Rows are written as they come, so that an interrupted
run keeps them and a second one goes on.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from hwmodels.microbench.case import Case
from hwmodels.microbench.errors import UnmeasurableError
from hwmodels.microbench.plans import COMPILE_S, PlannedCase
from hwmodels.microbench.row_format import DeviceInfo, Failure, Measurement, Row
from hwmodels.microbench.rows import RowsWriter
from hwmodels.microbench.summary import progress_line

_MARGIN = 1.25
"""Cases are expected to take this much longer than those before them."""


class Device(Protocol):
    """What can measure a case: a GPU, or a model that stands in for one."""

    @property
    def info(self) -> DeviceInfo:
        """What goes into the header of the rows."""

    @property
    def versions(self) -> Mapping[str, str]:
        """Versions of the software, by the keys of `VERSION_KEYS`."""

    def measure(self, case: Case) -> Measurement:
        """Measure one case.

        Raises:
            UnmeasurableError: this case cannot be measured; others can.
            MicrobenchError: no further case can be measured.
        """


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What a run did.

    Attributes:
        num_planned: cases of the plan.
        num_there: cases that the file held already.
        num_measured: cases measured by this run.
        num_failed: cases that could not be measured.
        num_left_out: cases for which no time was left.
        is_interrupted: whether the user stopped it.
    """

    num_planned: int
    num_there: int = 0
    num_measured: int = 0
    num_failed: int = 0
    num_left_out: int = 0
    is_interrupted: bool = False


def measure_plan(
    device: Device,
    planned: Sequence[PlannedCase],
    writer: RowsWriter,
    *,
    deadline_s: float,
    clock: Callable[[], float] = time.monotonic,
    say: Callable[[str], None] = print,
) -> Outcome:
    """Measure the cases that are not in the file yet and fit into the time.

    A case that failed in an earlier run is tried again.

    Args:
        device: measures.
        planned: cases in their order.
        writer: of the rows file.
        deadline_s: when the last case must be done, on `clock`.
        clock: seconds that never go back.
        say: prints a line for each case.

    Raises:
        MicrobenchError: the device is lost or the file cannot be written; rows are kept.
    """
    outcome = Outcome(num_planned=len(planned))
    pace = _Pace()
    for number, item in enumerate(planned, 1):
        case = item.case
        if case.id in writer.before.rows:
            outcome.num_there += 1
            continue
        if clock() + pace.expected_s(item) > deadline_s:
            outcome.num_left_out += 1
            continue
        start_s = clock()
        entry: Row | Failure
        try:
            measurement = device.measure(case)
            entry = Row(case=case, measurement=measurement, took_s=round(clock() - start_s, 6))
        except UnmeasurableError as error:
            entry = Failure(case=case, why=" ".join(str(error).split()) or type(error).__name__)
        except KeyboardInterrupt:
            outcome.is_interrupted = True
            break
        writer.write(entry)
        pace.add(item, clock() - start_s)
        outcome.num_measured += isinstance(entry, Row)
        outcome.num_failed += isinstance(entry, Failure)
        say(progress_line(entry, number, len(planned), deadline_s - clock()))
    return outcome


class _Pace:
    """How long a case will take, by its plan and by those that were measured."""

    def __init__(self) -> None:
        self._compiled: set[str] = set()
        self._compile_s = COMPILE_S
        self._num_cases = 0
        self._planned_s = 0.0
        self._took_s = 0.0

    def expected_s(self, item: PlannedCase) -> float:
        is_first = item.case.compile_key not in self._compiled
        return _MARGIN * self._run_s(item) + is_first * self._compile_s

    def add(self, item: PlannedCase, took_s: float) -> None:
        if item.case.compile_key in self._compiled:
            self._num_cases += 1
            self._planned_s += item.cost_s
            self._took_s += took_s
        else:
            self._compiled.add(item.case.compile_key)
            self._compile_s = max(self._compile_s, took_s - self._run_s(item))

    def _run_s(self, item: PlannedCase) -> float:
        """By the plan, as right as it was so far; what all cases took on average at least."""
        if not self._num_cases:
            return item.cost_s
        by_plan_s = item.cost_s * self._took_s / self._planned_s
        return max(by_plan_s, self._took_s / self._num_cases)
