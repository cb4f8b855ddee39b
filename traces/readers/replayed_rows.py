"""The requests that a benchmark sent: checked one by one, put in the order of their starts."""

from array import array
from collections.abc import Sequence
from math import isfinite
from typing import Any

import numpy as np

from sim.workload import FloatArray
from traces.options import MAX_TIME_S, shown
from traces.readers.failed_rows import FailedRows
from traces.readers.field_values import LabelCodes
from traces.readers.reading import Reading
from traces.readers.recorded_arrivals import RecordedArrivals
from traces.readers.source_file import provenance_of_file, why_not_tokens
from traces.schema import TraceTable

FAILED_WHY = "no output, or an error, or cancelled"


class ReplayedRows:
    """Growing columns of requests.

    Args:
        reading: told of every bad row.
        skip_failed: whether failed requests are left out rather than refused.
        num_ticks: ticks of the recorded times in a second.
    """

    def __init__(self, reading: Reading, skip_failed: bool, num_ticks: int = 1) -> None:
        self._reading = reading
        self._failed = FailedRows(reading, skip_failed)
        self._num_ticks = num_ticks
        self._starts: list[int | float | None] = []
        self._prompts, self._outputs, self._turns = array("q"), array("q"), array("q")
        self._sessions: list[str | None] = []

    def fail(self, line: int, where: str = "") -> None:
        """Note a request that failed; arguments as those of `add`."""
        self._failed.add(np.array([line]), where)

    def add(
        self,
        line: int,
        row: dict[str, Any],
        *,
        start: Any,
        session: Any = None,
        turn: Any = None,
        where: str = "",
        faults: Sequence[tuple[str, str]] = (),
    ) -> None:
        """Append a request, or report all that is wrong with it.

        Args:
            line: where it is in the file.
            row: its two token counts under the names that the file has for them, prompt first.
            start: when it was sent, in ticks of any clock; None if the file does not say.
            session: name of its conversation, if it has one.
            turn: number in the conversation, from 0.
            where: which request of that line it is, for messages.
            faults: what is already known to be wrong with it: kinds and reasons.
        """
        (prompt_name, prompt), (output_name, output) = row.items()
        prompt, output = _whole(prompt), _whole(output)
        found = list(faults)
        for name, value in ((prompt_name, prompt), (output_name, output)):
            why = why_not_tokens(name, value)
            if why:
                found.append((name, why))
        if start is not None and not _is_number(start):
            found.append(("start time", f"start time {shown(start)}: must be a number"))
        for kind, why in found:
            self._reading.fault(line, kind, where + why)
        if found:
            return
        self._prompts.append(prompt)
        self._outputs.append(output)
        self._starts.append(start)
        self._sessions.append(session if isinstance(session, str) else None)
        self._turns.append(turn if type(turn) is int and 0 <= turn < 2**31 else 0)

    def table(
        self,
        name: str,
        sha256: str,
        arrivals: RecordedArrivals,
        seed: int,
        options: dict[str, Any],
        users: int | None,
    ) -> TraceTable:
        """The trace.

        Args:
            name: the format's.
            sha256: of the file.
            arrivals: when requests arrive.
            seed: the run's seed.
            options: further ones, for the provenance.
            users: how many requests were in flight at most, if the file says so.

        Raises:
            TraceFormatError: requests failed and the pass is strict, or no request is left.
        """
        self._failed.report(FAILED_WHY)
        n = len(self._prompts)
        self._failed.refuse_if_alone(n)
        start_s = self._start_s()
        order = np.arange(n) if start_s is None else np.argsort(start_s, kind="stable")
        sampled = arrivals.sample(
            self._reading, seed, None if start_s is None else start_s[order], n, users
        )
        provenance = provenance_of_file(name, sha256, n, {**options, **arrivals.as_mapping()})
        if arrivals.is_replaced:
            provenance["seed"] = seed
        has_turns = any(self._turns)
        return TraceTable(
            arrival_s=sampled.arrival_s,
            prompt_tokens=np.array(self._prompts, dtype=np.int64)[order],
            output_tokens=np.array(self._outputs, dtype=np.int64)[order],
            session_id=LabelCodes().encode(self._sessions)[order] if has_turns else None,
            turn=np.array(self._turns, dtype=np.int64)[order] if has_turns else None,
            delay_s=sampled.delay_s,
            concurrency=sampled.concurrency,
            provenance={**provenance, **self._failed.provenance()},
        )

    def _start_s(self) -> FloatArray | None:
        """Recorded times from the first on; None if any is missing. Shape (n,)."""
        starts = self._starts
        if any(start is None for start in starts):
            return None
        known = [start for start in starts if start is not None]
        first = min(known, default=0)
        # Before the division: nanoseconds since 1970 are no doubles.
        start_s = np.array([(start - first) / self._num_ticks for start in known], dtype=np.float64)
        if len(start_s) and not start_s.max() <= MAX_TIME_S:
            why = f"start times span {start_s.max():.6g} s, allowed: {MAX_TIME_S:,.0f} s"
            raise self._reading.refuse(0, why)
        return start_s


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and isfinite(value) and abs(value) < 1e19


def _whole(value: Any) -> Any:
    """An integer for a float that is one."""
    return int(value) if type(value) is float and value.is_integer() else value
