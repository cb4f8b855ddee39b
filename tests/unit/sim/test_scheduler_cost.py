"""CPU time of the scheduler: what steps wait for it, and where that is recorded."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from policies.batching.fcfs import FCFS
from sim.errors import ConfigError
from sim.interfaces import BatchPolicy, CostLedger, FloatArray, InstanceView, RunTable
from sim.metrics import summarize
from sim.operations import OperationCounts
from sim.records import SimulationResult
from sim.request import Request
from sim.scheduler_cost import NOTHING_DONE, SchedulerCost
from tests.engine_runs import ConstantCost, CountingLedger, run_engine
from tests.twin.stories import Ask, workload_of

NAMES = (
    "tokens_compared",
    "node_visits",
    "keys_hashed",
    "tokens_hashed",
    "heap_operations",
    "candidates_scanned",
)
EACH = SchedulerCost(
    token_compared_s=1.0,
    node_visit_s=10.0,
    key_hashed_s=100.0,
    token_hashed_s=1000.0,
    heap_operation_s=10_000.0,
    candidate_s=100_000.0,
)
PER_CANDIDATE = SchedulerCost(candidate_s=0.25)


class Counting(FCFS):
    """First come, first served, and counts the queue whenever it is asked."""

    operations: OperationCounts

    def __init__(self) -> None:
        self.operations = OperationCounts()

    def candidates(self, instance: InstanceView, now_s: float) -> Iterable[Request]:
        self.operations.candidates_scanned += len(instance.waiting)
        return super().candidates(instance, now_s)


class NotingLedger(CountingLedger):
    """Gives the durations that it is told as `gemm_s`."""

    def totals(self, runs: RunTable, durations_s: FloatArray) -> Any:
        return replace(super().totals(runs, durations_s), gemm_s=float(durations_s.sum()))

    def run_costs(self, runs: RunTable, durations_s: FloatArray) -> FloatArray:
        costs = np.zeros((len(runs), 12))
        costs[:, 0] = durations_s
        return costs


class NotedCost(ConstantCost):
    """Every step takes a second."""

    def open_ledger(self) -> CostLedger:
        return NotingLedger(self)


def serve(
    asks: list[Ask], policy: type[BatchPolicy] = Counting, **options: Any
) -> SimulationResult:
    options = {"scheduler": PER_CANDIDATE, "cost": NotedCost(), "record_costs": True, **options}
    return run_engine(workload_of(asks), batching=lambda _index: policy(), **options)


def ends(result: SimulationResult) -> list[float]:
    times: list[float] = result.instances[0].step_end_s.tolist()
    return times


# -- seconds per operation -----------------------------------------------------------------------


def test_each_operation_has_its_price() -> None:
    for place, name in enumerate(NAMES):
        assert EACH.policy_s(OperationCounts(**{name: 3}).values, NOTHING_DONE) == 3 * 10.0**place


def test_only_what_was_done_since_the_last_reading_costs() -> None:
    before, now = OperationCounts(tokens_compared=5), OperationCounts(7, node_visits=1)
    assert EACH.policy_s(now.values, before.values) == 2 + 10


def test_a_faster_language_divides_the_time_of_the_policy() -> None:
    cost = replace(EACH, language_factor=20.0)
    assert cost.policy_s(OperationCounts(tokens_compared=5).values, NOTHING_DONE) == 0.25


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"candidate_s": -1.0}, "scheduler.candidate_s=-1.0: must be finite and >= 0"),
        ({"request_s": float("inf")}, "scheduler.request_s=inf: must be finite and >= 0"),
        ({"language_factor": 0.0}, "scheduler.language_factor=0: must be above 0"),
    ],
)
def test_impossible_costs_are_refused(options: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        serve([Ask(0, 4, 1)], scheduler=SchedulerCost(**options))


# -- one after the other -------------------------------------------------------------------------


def test_a_step_begins_when_its_plan_is_made() -> None:
    # Two candidates: half a second before the prefill. Nobody waits before the decode steps.
    assert ends(serve([Ask(0, 4, 3), Ask(0, 4, 3)])) == [1.5, 2.5, 3.5]


def test_a_queue_that_is_blocked_is_looked_at_in_every_step() -> None:
    # 4 blocks of 4 tokens. 0 holds 3 of them until its 4th token at step 4; 1 needs 2.
    asks = [Ask(0, 9, 4), Ask(0, 8, 1)]
    for macro_steps in (True, False):
        result = serve(asks, usable_blocks=4, macro_steps=macro_steps)
        # Step 1 is planned with two candidates, steps 2 to 4 and 5 with one.
        assert ends(result) == [1.5, 2.75, 4.0, 5.25, 6.5]
        assert result.requests.admitted_s.tolist() == [0.0, 5.25]


def test_a_queue_without_a_seat_is_not_looked_at() -> None:
    assert ends(serve([Ask(0, 4, 3), Ask(0, 4, 1)], seats=1)) == [1.5, 2.5, 3.5, 4.75]


def test_every_running_request_costs_in_every_step() -> None:
    asks = [Ask(0, 4, 3), Ask(0, 4, 5)]
    for macro_steps in (True, False):
        result = serve(asks, FCFS, scheduler=SchedulerCost(request_s=0.25), macro_steps=macro_steps)
        assert ends(result) == [1.5, 3.0, 4.5, 5.75, 7.0]
        assert result.instances[0].scheduler_cpu_s == 2.0
    assert len(result.instances[0].runs) == 5


def test_macro_steps_still_join_steps_while_nobody_waits() -> None:
    result = serve([Ask(0, 4, 40), Ask(20, 4, 2)])
    assert len(result.instances[0].runs) < 6
    assert ends(result)[:20] == [1.25 + k for k in range(20)]


# -- overlapped ----------------------------------------------------------------------------------


def test_an_asynchronous_engine_hides_what_fits_under_the_step_before() -> None:
    # The first step waits for its plan; that of the second is made under the first one.
    cost = SchedulerCost(request_s=0.75)
    assert ends(serve([Ask(0, 4, 4)], FCFS, scheduler=cost, is_async=True)) == [
        1.75,
        2.75,
        3.75,
        4.75,
    ]
    slow = SchedulerCost(request_s=1.5)
    for macro_steps in (True, False):
        result = serve([Ask(0, 4, 4)], FCFS, scheduler=slow, is_async=True, macro_steps=macro_steps)
        assert ends(result) == [2.5, 4.0, 5.5, 7.0]
        assert result.instances[0].scheduler_cpu_s == 6.0
        assert result.costs.scheduler_s == 1.5 + 3 * 0.5
        assert result.costs.gemm_s == 4.0


def test_an_asynchronous_engine_waits_again_after_it_was_idle() -> None:
    asks = [Ask(0, 4, 2), Ask(10, 4, 2)]
    cost = SchedulerCost(request_s=0.5)
    found = ends(serve(asks, FCFS, scheduler=cost, is_async=True))
    assert found == [1.5, 2.5, 11.5, 12.5]


# -- records -------------------------------------------------------------------------------------


def test_the_ledger_of_the_gpu_sees_steps_without_their_waits() -> None:
    result = serve([Ask(0, 9, 4), Ask(0, 8, 1)], usable_blocks=4)
    instance = result.instances[0]
    assert instance.costs.gemm_s == 5.0
    assert instance.costs.scheduler_s == instance.scheduler_cpu_s == 1.5
    assert instance.run_costs is not None
    assert instance.run_costs[:, 0].tolist() == [1.0] * len(instance.runs)
    assert instance.run_costs[:, 6].tolist() == [0.5, 0.25, 0.25, 0.25, 0.25]


def test_the_ratio_is_cpu_time_over_gpu_time() -> None:
    shown = {}
    for name, scheduler in (("on", PER_CANDIDATE), ("off", None)):
        result = serve([Ask(0, 9, 4), Ask(0, 8, 1)], usable_blocks=4, scheduler=scheduler)
        shown[name] = summarize(result, slo_ttft_s=1, slo_tpot_s=1)["scheduler_cpu_ratio"]
    assert shown == {"on": 1.5 / 5.0, "off": None}


def test_a_policy_that_counts_nothing_costs_nothing() -> None:
    result = serve([Ask(0, 4, 3), Ask(0, 4, 3)], FCFS)
    assert ends(result) == [1.0, 2.0, 3.0]
    assert summarize(result, slo_ttft_s=1, slo_tpot_s=1)["scheduler_cpu_ratio"] == 0.0


def test_steps_after_the_horizon_count_nowhere() -> None:
    result = run_engine(
        workload_of([Ask(0, 4, 40)]),
        horizon_s=10.0,
        batching=lambda _index: FCFS(),
        scheduler=SchedulerCost(request_s=0.25),
        cost=NotedCost(),
    )
    assert len(ends(result)) == 8
    assert result.instances[0].scheduler_cpu_s == result.costs.scheduler_s == 2.0
    assert result.costs.gemm_s == 8.0


def test_a_chunked_prefill_counts_decodes_and_chunks() -> None:
    # Budget 8: 1 needs two steps beside the decode of 0.
    result = serve(
        [Ask(0, 4, 3), Ask(0, 11, 1)], FCFS, scheduler=SchedulerCost(request_s=0.25), budget=8
    )
    assert ends(result) == [1.5, 3.0, 4.25]
