"""Every numbered invariant fires on what it is there to find."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from policies.batching.fcfs import FCFS
from sim.errors import InvariantError
from sim.interfaces import InstanceView
from sim.invariants import check_littles_law, check_result
from sim.kv_cache import KvCache
from sim.recorder import COMPLETED
from sim.records import SimulationResult
from sim.request import Request
from sim.vllm_v1 import VllmV1
from tests.engine_runs import ConstantCost, run_engine
from tests.twin.stories import Ask, workload_of

ASKS = [Ask(0, 9, 3), Ask(0.5, 4, 1), Ask(0.75, 8, 4), Ask(9, 4, 2)]


@pytest.fixture
def result() -> SimulationResult:
    return run_engine(workload_of(ASKS), seats=2, budget=16)


def check(result: SimulationResult, **options: Any) -> None:
    given = {
        "max_num_batched_tokens": 16,
        "max_model_len": None,
        "admits_in_arrival_order": True,
        **options,
    }
    check_result(result, **given)


def with_row(result: SimulationResult, column: str, row: int, value: float) -> SimulationResult:
    """The result with one value of a request's column changed."""
    values = getattr(result.requests, column).copy()
    values[row] = value
    return replace(result, requests=replace(result.requests, **{column: values}))


def test_a_sound_result_passes(result: SimulationResult) -> None:
    check(result)


@pytest.mark.parametrize(
    ("column", "row", "value", "message"),
    [
        ("status", 1, 7, "1: 3 requests accounted for of 4"),
        ("admitted_s", 3, 8.5, r"3: admitted before arrival \(row 3\)"),
        ("first_token_s", 2, 0.9, r"3: first token before admission \(row 2\)"),
        ("finish_s", 0, 0.5, r"3: last token before the first \(row 0\)"),
        ("admitted_s", 1, 2.0, r"6: instance 0 admits out of order"),
        ("last_step", 2, 99, r"7: wrong number of tokens \(row 2\)"),
        ("cached_tokens", 1, 4, r"9: hit covers the whole prompt \(row 1\)"),
    ],
)
def test_a_broken_column_is_found(
    result: SimulationResult, column: str, row: int, value: float, message: str
) -> None:
    if message.startswith("6"):
        result = with_row(with_row(result, "first_token_s", row, 3.0), "finish_s", row, 3.0)
        result = with_row(result, "admitted_s", 2, 1.5)
    with pytest.raises(InvariantError, match=message):
        check(with_row(result, column, row, value))


def test_1_requests_of_one_status_too_many_are_found(result: SimulationResult) -> None:
    fewer = replace(result, workload=workload_of(ASKS[:3]))
    with pytest.raises(InvariantError, match="1: 4 requests accounted for of 3"):
        check(fewer)


def test_4_a_step_end_that_goes_back_is_found(result: SimulationResult) -> None:
    ends = result.instances[0].step_end_s.copy()
    ends[2] = ends[1] - 0.25
    broken = replace(result, instances=(replace(result.instances[0], step_end_s=ends),))
    with pytest.raises(InvariantError, match=r"4: instance 0 goes back in time \(row 1\)"):
        check(broken)


def test_4_a_cost_model_that_returns_negative_times_is_found() -> None:
    with pytest.raises(InvariantError, match="3: first token before admission"):
        run_engine(workload_of(ASKS), cost=ConstantCost(-1.0))


def test_6_is_checked_only_where_the_policy_promises_it(result: SimulationResult) -> None:
    late = with_row(with_row(result, "admitted_s", 0, 1.0), "admitted_s", 1, 0.9)
    late = with_row(late, "first_token_s", 1, 2.0)
    with pytest.raises(InvariantError, match="6: instance 0 admits out of order"):
        check(late)
    check(late, admits_in_arrival_order=False)


def test_7_counts_against_outputs_cut_at_max_model_len() -> None:
    cut = run_engine(workload_of([Ask(0, 4, 99)]), max_model_len=10)
    check(cut, max_model_len=10)
    with pytest.raises(InvariantError, match="7: wrong number of tokens"):
        check(cut)


def test_8_a_step_over_the_token_budget_is_found(result: SimulationResult) -> None:
    with pytest.raises(InvariantError, match="8: instance 0 exceeds the budget"):
        check(result, max_num_batched_tokens=8)


def test_10_sojourns_must_sum_to_the_integral_of_the_number_in_the_system(
    result: SimulationResult,
) -> None:
    sojourns = float((result.requests.finish_s - result.workload.arrival_s).sum())
    check_littles_law(result, sojourns)
    with pytest.raises(InvariantError, match="10: sojourn times sum to"):
        check_littles_law(result, sojourns + 0.25)
    unfinished = with_row(result, "status", 3, COMPLETED - 1)
    check_littles_law(unfinished, sojourns + 0.25)


# -- sabotaged engines, found while they run ------------------------------------------------------


class Idler(FCFS):
    """Never lets anybody run."""

    def candidates(self, instance: InstanceView, now_s: float) -> list[Request]:
        return []


def test_5_an_instance_that_idles_with_requests_on_it_is_found() -> None:
    with pytest.raises(InvariantError, match="5: instance 0 idles with requests on it"):
        run_engine(workload_of(ASKS), batching=lambda _index: Idler())


def test_2_blocks_that_are_taken_and_never_used_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    class Wasteful(KvCache):
        def take(self, count: int) -> Any:
            return super().take(count + 1)

    monkeypatch.setattr("sim.cluster.KvCache", Wasteful)
    with pytest.raises(InvariantError, match=r"KV blocks: \d+ free . \d+ held != 100 usable"):
        run_engine(workload_of(ASKS))


def test_2_blocks_that_are_never_released_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    class Keeping(KvCache):
        def release(self, *_: Any) -> None:
            pass

    monkeypatch.setattr("sim.cluster.KvCache", Keeping)
    with pytest.raises(InvariantError, match=r"KV blocks: \d+ free . \d+ held != 100 usable"):
        run_engine(workload_of(ASKS))


class Generous(VllmV1):
    """Its instances are told of one seat less than it gives away."""

    def plan_step(self, instance: Any, now_s: float) -> Any:
        self.max_num_seqs += 1
        try:
            return super().plan_step(instance, now_s)
        finally:
            self.max_num_seqs -= 1


def test_8_more_running_requests_than_seats_are_found() -> None:
    with pytest.raises(InvariantError, match="8: instance 0 runs 3"):
        run_engine(workload_of([Ask(0, 4, 5)] * 4), rules=Generous(2, 16))


class Backdater(FCFS):
    """Claims that a finished request had its tokens one step earlier."""

    def on_finish(self, instance: InstanceView, request: Request, now_s: float) -> None:
        if request.request_id == 2:
            first, last = request.intervals
            request.intervals = (first - 1, last - 1)


def test_10_records_that_differ_from_what_the_instances_counted_are_found() -> None:
    with pytest.raises(InvariantError, match="10: sojourn times sum to"):
        run_engine(workload_of(ASKS), batching=lambda _index: Backdater())


def test_without_check_nothing_is_verified() -> None:
    options: dict[str, Any] = {"batching": lambda _index: Idler(), "horizon_s": 9.0}
    result = run_engine(workload_of(ASKS), check=False, **options)
    assert result.num_unfinished == len(ASKS)
    assert np.isnan(result.requests.admitted_s).all()
    with pytest.raises(InvariantError, match="5"):
        run_engine(workload_of(ASKS), check=True, **options)


def test_a_step_that_takes_no_time_that_is_a_number_is_caught() -> None:
    with pytest.raises(InvariantError, match="3"):
        run_engine(workload_of(ASKS), cost=ConstantCost(float("nan")))
