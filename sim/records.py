"""What a simulation hands back: columns over requests, steps and runs of steps."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt

from sim.cost_totals import CostTotals
from sim.decision_log import DecisionRecords
from sim.disaggregation.records import HandoverRecords
from sim.executed_cost import ExecutorRecords
from sim.recorder import COMPLETED, REJECTED, UNFINISHED
from sim.tiers.records import TierRecords
from sim.workload import Workload

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRecords:
    """One row per request of the workload; times in seconds, NaN where it did not happen.

    Attributes:
        status: COMPLETED, REJECTED or UNFINISHED. Shape (n,), like all columns.
        reject_reason: why it was rejected, 0 otherwise.
        instance: instance that served it (the last one, where it was handed over), -1 where none.
        cached_tokens: prompt tokens found in the prefix cache at first admission, -1 before.
        num_preemptions: how often it lost its KV.
        arrival_s: time at which it came to the door. In a closed loop not that of the workload.
        admitted_s: time of its first admission.
        first_token_s: end of the step that produced its first token.
        finish_s: end of the step that produced its last token.
        first_step: that step of the instance, counted from 1; 0 where none. Of a request that was
            handed over the step of its first token at `instance`.
        last_step: the step of its latest token, counted from 1; 0 where none.
        more_intervals: for preempted requests, all pairs (first, last) of steps with tokens.
    """

    status: npt.NDArray[np.int8]
    reject_reason: npt.NDArray[np.int8]
    instance: IntArray
    cached_tokens: IntArray
    num_preemptions: IntArray
    arrival_s: FloatArray
    admitted_s: FloatArray
    first_token_s: FloatArray
    finish_s: FloatArray
    first_step: IntArray
    last_step: IntArray
    more_intervals: Mapping[int, tuple[int, ...]]

    @property
    def is_completed(self) -> npt.NDArray[np.bool_]:
        """Rows that finished."""
        is_completed: npt.NDArray[np.bool_] = self.status == COMPLETED
        return is_completed

    @property
    def arrival_span_s(self) -> tuple[float, float]:
        """First and last arrival, seconds; NaN if nothing arrived."""
        arrival_s = self.arrival_s
        return (
            float(np.fmin.reduce(arrival_s, initial=np.nan)),
            float(np.fmax.reduce(arrival_s, initial=np.nan)),
        )

    def intervals(
        self, instance: int, completed_only: bool = False
    ) -> tuple[IntArray, IntArray, IntArray]:
        """Decode intervals on an instance: (request, first step, last step), each of shape (k,).

        A request has a token in every step of an interval; intervals of a request are in order and
        adjacent, those of requests that were never preempted come first.
        """
        is_served = (self.instance == instance) & (self.first_step > 0)
        rows = np.flatnonzero(is_served & self.is_completed if completed_only else is_served)
        is_split = np.isin(rows, np.fromiter(self.more_intervals, np.int64))
        plain = rows[~is_split]
        split = [self.more_intervals[row] for row in rows[is_split].tolist()]
        counts = np.fromiter((len(pairs) // 2 for pairs in split), np.int64, len(split))
        steps = np.fromiter(chain.from_iterable(split), np.int64, 2 * int(counts.sum()))
        return (
            np.concatenate([plain, np.repeat(rows[is_split], counts)]),
            np.concatenate([self.first_step[plain], steps[0::2]]),
            np.concatenate([self.last_step[plain], steps[1::2]]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceRecords:
    """What one instance did.

    Attributes:
        step_end_s: end time of each step. Shape (steps,).
        runs: one row per run of equal steps, see `sim.recorder.RUN_DTYPE`. Shape (runs,).
        busy_from_step: steps done when the instance left idleness. Shape (periods,).
        busy_from_s: time at which it did, seconds. Shape (periods,).
        costs: sums of the cost terms.
        run_costs: terms per run, columns as in `sim.cost_totals.COST_COLUMNS`, where recorded.
        scheduler_cpu_s: CPU time of its scheduler, hidden or not, seconds; None if not simulated.
    """

    step_end_s: FloatArray
    runs: npt.NDArray[np.void]
    busy_from_step: IntArray
    busy_from_s: FloatArray
    costs: CostTotals
    run_costs: FloatArray | None = None
    scheduler_cpu_s: float | None = None

    @property
    def step_start_s(self) -> FloatArray:
        """Start time of each step: the end of the one before, or of an idle period."""
        start = np.empty_like(self.step_end_s)
        start[1:] = self.step_end_s[:-1]
        has_steps = self.busy_from_step < len(start)
        start[self.busy_from_step[has_steps]] = self.busy_from_s[has_steps]
        return start

    @property
    def run_durations_s(self) -> FloatArray:
        """Duration of each run of steps, seconds. Shape (runs,)."""
        first = self.run_column("first_step")
        last = first + self.run_column("num_steps") - 1
        durations_s: FloatArray = self.step_end_s[last] - self.step_start_s[first]
        return durations_s

    def run_column(self, name: str) -> IntArray:
        """A column of the run table, see `sim.recorder.RUN_DTYPE`. Shape (runs,)."""
        column: IntArray = self.runs[name].astype(np.int64)
        return column


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontEndRecords:
    """What a front end did; times in seconds, NaN where it did not happen.

    Attributes:
        engine_arrival_s: time at which each request came to its engine's queue, or was rejected.
            Shape (n,).
        first_token_s: delivery of its first token. Shape (n,).
        finish_s: delivery of its last token. Shape (n,).
        step_delivered_s: per instance, delivery of the tokens of each step. Shape (steps,).
        work_in_s: work done on the way in, hashing aside, seconds.
        work_out_s: work done on the way out, seconds.
    """

    engine_arrival_s: FloatArray
    first_token_s: FloatArray
    finish_s: FloatArray
    step_delivered_s: tuple[FloatArray, ...]
    work_in_s: float
    work_out_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationResult:
    """All records of a simulation.

    Attributes:
        workload: the input.
        requests: columns over requests.
        instances: one entry per instance.
        num_gpu_blocks: KV blocks per instance, the null block included.
        block_tokens: tokens per KV block.
        end_s: simulated time at which the records end.
        is_interrupted: whether the user stopped it.
        front_end: what the front end did, None where there is none.
        handover: what lay between prefill and decode, None where one instance does both.
        decisions: what the router decided, None unless it was recorded.
        executor: what the executor of each instance did, None where no model of it is asked for.
        tiers: what the tiers behind the prefix caches did, None where there are none.
    """

    workload: Workload
    requests: RequestRecords
    instances: tuple[InstanceRecords, ...]
    num_gpu_blocks: int
    block_tokens: int
    end_s: float
    is_interrupted: bool
    front_end: FrontEndRecords | None = None
    handover: HandoverRecords | None = None
    decisions: DecisionRecords | None = None
    executor: tuple[ExecutorRecords, ...] | None = None
    tiers: TierRecords | None = None

    @property
    def costs(self) -> CostTotals:
        """Sums of the cost terms over all instances."""
        total = CostTotals()
        for instance in self.instances:
            total.add(instance.costs)
        return total

    def count(self, status: int) -> int:
        """Requests with a status."""
        return int(np.count_nonzero(self.requests.status == status))

    @property
    def num_finished(self) -> int:
        """Requests that produced their last token."""
        return self.count(COMPLETED)

    @property
    def num_rejected(self) -> int:
        """Requests that were refused at the door."""
        return self.count(REJECTED)

    @property
    def num_unfinished(self) -> int:
        """Requests that were waiting, running or yet to arrive at the end."""
        return self.count(UNFINISHED)
