"""Closed loops by hand: blocks of 4 tokens, steps of one second, whole prompts in one step."""

from typing import Any

import numpy as np
import pytest

from sim.interfaces import AdmissionPolicy, ClusterView, Router
from sim.metrics import summarize
from sim.recorder import COMPLETED, OVER_CAPACITY, OVER_MODEL_LEN, REFUSED, REJECTED, UNFINISHED
from sim.request import Request
from sim.simulation import simulate
from tests.engine_runs import cluster_of, run_engine
from tests.twin.stories import Ask
from tests.unit.sim.loops import loop_of

both = pytest.mark.parametrize("macro_steps", [True, False], ids=["macro", "plain"])


class Noting(Router):
    """Sends requests where it is told and notes when they come and what it sees."""

    def __init__(self, instances: list[int]) -> None:
        self.instances = instances
        self.seen: list[tuple[int, float, float, tuple[int, ...]]] = []

    def route(self, request: Request, cluster: ClusterView, now_s: float) -> int:
        row = request.request_id
        self.seen.append((row, request.arrival_s, now_s, tuple(cluster.num_requests)))
        return self.instances[row]


# -- users ----------------------------------------------------------------------------------------


@both
def test_each_of_two_users_sends_the_next_request_when_its_last_one_has_ended(
    macro_steps: bool,
) -> None:
    # Row 1 ends at 1, when step 2 (row 0 alone) has just been planned: row 2 runs from 2 on.
    # Row 0 ends at 3, row 3 comes then and runs from 4 on.
    workload = loop_of([Ask(0, 4, output) for output in (3, 1, 2, 2)], concurrency=2)
    result = run_engine(workload, macro_steps=macro_steps)
    assert result.requests.arrival_s.tolist() == [0, 0, 1, 3]
    assert result.requests.admitted_s.tolist() == [0, 0, 2, 4]
    assert result.requests.finish_s.tolist() == [3, 1, 4, 6]


@both
def test_users_with_one_request_under_way_keep_an_instance_full(macro_steps: bool) -> None:
    workload = loop_of([Ask(0, 4, 2)] * 12, concurrency=4)
    result = run_engine(workload, macro_steps=macro_steps)
    assert result.requests.arrival_s.tolist() == [0] * 4 + [2] * 4 + [4] * 4
    assert result.instances[0].step_end_s.tolist() == [1, 2, 3, 4, 5, 6]


def test_a_user_thinks_before_its_next_request_and_starts_at_its_own_time() -> None:
    asks = [Ask(0.25, 4, 1), Ask(0.25, 4, 1), Ask(9, 4, 1)]
    result = run_engine(loop_of(asks, delay_s=[7, 0.5, 2], concurrency=1))
    assert result.requests.arrival_s.tolist() == [0.25, 1.75, 4.75]
    assert result.requests.finish_s.tolist() == [1.25, 2.75, 5.75]


def test_a_free_user_does_not_wait_for_users_who_start_later() -> None:
    asks = [Ask(0, 4, 1), Ask(10, 4, 1), Ask(10, 4, 1), Ask(10, 4, 1)]
    result = run_engine(loop_of(asks, delay_s=[0, 0, 2, 3], concurrency=2))
    assert result.requests.arrival_s.tolist() == [0, 10, 3, 7]


def test_more_users_than_requests_come_at_their_times() -> None:
    asks = [Ask(0, 4, 9), Ask(2, 4, 9)]
    result = run_engine(loop_of(asks, concurrency=5))
    assert result.requests.arrival_s.tolist() == [0, 2]


def test_a_user_waits_for_everything_that_its_request_led_to() -> None:
    asks = [Ask(0, 4, 1)] * 5
    workload = loop_of(asks, after=[-1, 0, 0, -1, 2], delay_s=[0, 0, 10, 0.5, 4], concurrency=1)
    result = run_engine(workload)
    # Rows 1 and 2 follow row 0; row 4 follows row 2 and ends at 17.
    assert result.requests.arrival_s.tolist() == [0, 1, 11, 17.5, 16]


# -- follow-ups -----------------------------------------------------------------------------------


@both
def test_a_turn_hits_what_the_turn_before_has_written(macro_steps: bool) -> None:
    # Turn k ends with all but its last token in the cache: 12 of 13 tokens, then 20 of 21.
    nodes = [(-1, 8), (0, 5), (1, 3), (2, 5)]
    asks = [Ask(0, 8, 5, (0,), 1), Ask(1, 16, 5, (0, 1, 2), 3), Ask(2, 24, 1, (0, 1, 2, 3))]
    workload = loop_of(asks, nodes, after=[-1, 0, 1], delay_s=[0, 0, 2])
    result = run_engine(workload, macro_steps=macro_steps)
    assert result.requests.arrival_s.tolist() == [0, 5, 12]
    assert result.requests.finish_s.tolist() == [5, 10, 13]
    assert result.requests.cached_tokens.tolist() == [0, 12, 20]


def test_roots_without_users_come_at_their_times_whatever_else_happens() -> None:
    asks = [Ask(0, 4, 4), Ask(0.5, 4, 1), Ask(0.5, 4, 1), Ask(2, 4, 1)]
    result = run_engine(loop_of(asks, after=[-1, 0, -1, -1]))
    assert result.requests.arrival_s.tolist() == [0, 4, 0.5, 2]


@both
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_the_plan_at_a_step_end_does_not_see_what_that_end_released(
    macro_steps: bool, is_async: bool
) -> None:
    # Rows 0 and 1 decode; row 0 ends at 3 and releases row 3, row 2 comes at 3 by itself.
    asks = [Ask(0, 4, 3), Ask(0, 4, 20), Ask(3, 4, 1), Ask(3, 4, 1)]
    workload = loop_of(asks, after=[-1, -1, -1, 0])
    requests = run_engine(workload, is_async=is_async, macro_steps=macro_steps).requests
    assert requests.arrival_s.tolist() == [0, 0, 3, 3]
    assert requests.admitted_s.tolist() == [0, 0, 3, 4]
    assert requests.finish_s[2:].tolist() == ([5, 6] if is_async else [4, 5])


@both
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_an_idle_instance_waits_for_what_the_instant_releases(
    macro_steps: bool, is_async: bool
) -> None:
    # Row 0 ends on instance 0 at 3; row 1 comes to the idle instance 1 then, and row 2 follows.
    workload = loop_of([Ask(0, 4, 3), Ask(3, 4, 2), Ask(3, 4, 2)], after=[-1, -1, 0])
    result = run_engine(
        workload,
        num_instances=2,
        router=Noting([0, 1, 1]),
        is_async=is_async,
        macro_steps=macro_steps,
    )
    assert result.requests.admitted_s.tolist() == [0, 3, 3]
    assert result.instances[1].step_end_s.tolist() == [4, 5]


@both
def test_an_instance_in_the_middle_of_a_run_sees_a_follow_up_at_its_next_step_end(
    macro_steps: bool,
) -> None:
    # Both instances end a step at 3; row 2 goes to the one that has not finished anything.
    workload = loop_of([Ask(0, 4, 3), Ask(0, 4, 40), Ask(0, 4, 1)], after=[-1, -1, 0])
    result = run_engine(
        workload, num_instances=2, router=Noting([0, 1, 1]), macro_steps=macro_steps
    )
    assert result.requests.arrival_s[2] == 3
    assert result.requests.admitted_s[2] == 4


@both
def test_follow_ups_of_one_instant_come_in_order_of_rows_after_all_step_ends(
    macro_steps: bool,
) -> None:
    # Rows 0 to 2 end at 2 on three instances, each releasing one row.
    asks = [Ask(0, 4, 2)] * 3 + [Ask(0, 4, 1)] * 3
    router = Noting([2, 0, 1, 0, 0, 0])
    workload = loop_of(asks, after=[-1, -1, -1, 2, 0, 1])
    run_engine(workload, num_instances=3, router=router, macro_steps=macro_steps)
    assert router.seen[3:] == [
        (3, 2.0, 2.0, (0, 0, 0)),
        (4, 2.0, 2.0, (1, 0, 0)),
        (5, 2.0, 2.0, (2, 0, 0)),
    ]


# -- rejections -----------------------------------------------------------------------------------


class EvenOnly(AdmissionPolicy):
    def __init__(self) -> None:
        self.asked: list[tuple[int, float]] = []

    def admit(self, request: Request, now_s: float) -> bool:
        self.asked.append((request.request_id, now_s))
        return request.request_id % 2 == 0


def test_a_rejection_is_an_end() -> None:
    asks = [Ask(2, 60, 999), Ask(2, 4, 1), Ask(2, 70, 1), Ask(2, 4, 1)]
    workload = loop_of(asks, after=[-1, 0, 1, 2], delay_s=[0, 0, 1.5, 1])
    requests = run_engine(workload, max_model_len=64, usable_blocks=12).requests
    assert requests.reject_reason.tolist() == [OVER_CAPACITY, 0, OVER_MODEL_LEN, 0]
    assert requests.arrival_s.tolist() == [2, 2, 4.5, 5.5]
    assert requests.finish_s[[1, 3]].tolist() == [3, 6.5]


def test_the_door_is_asked_at_the_actual_time_and_its_refusal_is_an_end() -> None:
    door = EvenOnly()
    asks = [Ask(0, 4, 2), Ask(0, 4, 1), Ask(0, 4, 1), Ask(0, 4, 1)]
    workload = loop_of(asks, delay_s=[0, 1, 0, 0.5], concurrency=1)
    result = run_engine(workload, admission=door)
    assert door.asked == [(0, 0.0), (1, 3.0), (2, 3.0), (3, 4.5)]
    assert result.requests.status.tolist() == [COMPLETED, REJECTED, COMPLETED, REJECTED]
    assert result.requests.reject_reason.tolist() == [0, REFUSED, 0, REFUSED]


def test_a_user_whose_requests_are_all_refused_sends_them_all_at_once() -> None:
    workload = loop_of([Ask(0.5, 999, 1)] * 3 + [Ask(0.5, 4, 1)], concurrency=1)
    result = run_engine(workload)
    assert result.requests.arrival_s.tolist() == [0.5] * 4
    assert result.num_rejected == 3


# -- records --------------------------------------------------------------------------------------


@both
def test_what_a_horizon_keeps_from_arriving_has_no_arrival(macro_steps: bool) -> None:
    workload = loop_of([Ask(0, 4, 3)] * 4, concurrency=1)
    result = run_engine(workload, horizon_s=4.5, macro_steps=macro_steps)
    requests = result.requests
    assert requests.status.tolist() == [COMPLETED] + [UNFINISHED] * 3
    assert requests.arrival_s[:2].tolist() == [0, 3]
    assert np.isnan(requests.arrival_s[2:]).all()
    assert requests.instance.tolist() == [0, 0, -1, -1]
    assert list(requests.arrival_span_s) == [0, 3]
    assert (result.num_unfinished, result.end_s) == (3, 4.5)


def test_a_horizon_at_the_very_end_of_a_request_keeps_the_next_one_out() -> None:
    workload = loop_of([Ask(0, 4, 3)] * 2, concurrency=1)
    result = run_engine(workload, horizon_s=3.0)
    assert result.num_finished == 0
    assert np.isnan(result.requests.arrival_s[1])


def test_an_open_run_records_the_times_of_its_trace_as_far_as_it_came() -> None:
    asks = [Ask(0, 4, 1), Ask(1, 999, 1), Ask(5, 4, 1)]
    workload = loop_of(asks)
    assert run_engine(workload).requests.arrival_s is workload.arrival_s
    cut = run_engine(workload, horizon_s=4.0).requests
    assert cut.arrival_s[:2].tolist() == [0, 1]
    assert np.isnan(cut.arrival_s[2])


def test_nothing_that_arrives_before_the_horizon_makes_no_makespan() -> None:
    result = run_engine(loop_of([Ask(5, 4, 1)] * 2, concurrency=1), horizon_s=2.0)
    assert np.isnan(result.requests.arrival_span_s).all()
    metrics = summarize(result, slo_ttft_s=1, slo_tpot_s=1)
    assert (metrics["makespan_s"], metrics["num_unfinished"]) == (0.0, 2)


def test_latencies_and_makespan_count_from_actual_arrivals() -> None:
    # As in the first story, but begun at 2 with nominal times that mean nothing.
    asks = [Ask(2, 4, 3), Ask(2, 4, 1), Ask(90, 4, 2), Ask(95, 4, 2)]
    metrics = summarize(run_engine(loop_of(asks, concurrency=2)), slo_ttft_s=1, slo_tpot_s=1)
    assert metrics["makespan_s"] == 6.0
    # First tokens 3, 3, 5, 7 after arrivals 2, 2, 3, 5; last ones at 5, 3, 6, 8.
    assert metrics["ttft_mean_s"] == (1 + 1 + 2 + 2) / 4
    assert metrics["e2e_mean_s"] == (3 + 1 + 3 + 3) / 4
    assert metrics["queue_mean_s"] == (0 + 0 + 1 + 1) / 4
    assert metrics["request_rate_per_s"] == 4 / 6
    assert metrics["goodput_per_s"] == 2 / 6
    # One instance: its requests are always all there are.
    assert metrics["load_imbalance_ratio"] == 1.0


def test_progress_is_told_as_in_an_open_loop() -> None:
    seen: list[tuple[float, int]] = []
    workload = loop_of([Ask(0, 1, 1)] * 1100, concurrency=4)

    def note(time_s: float, done: int) -> None:
        seen.append((time_s, done))

    simulate(workload, cluster_of(), progress=note)
    assert seen == [(128.0, 512), (256.0, 1024)]


def test_an_interrupted_run_keeps_what_has_arrived() -> None:
    class Interrupting(Noting):
        def route(self, request: Request, cluster: ClusterView, now_s: float) -> int:
            if request.request_id == 3:
                raise KeyboardInterrupt
            return 0

    workload = loop_of([Ask(0, 4, 2)] * 6, concurrency=2)
    result = run_engine(workload, router=Interrupting([]))
    assert result.is_interrupted
    assert (result.num_finished, result.num_unfinished, result.end_s) == (2, 4, 2.0)
    assert result.requests.arrival_s[:3].tolist() == [0, 0, 2]
    assert np.isnan(result.requests.arrival_s[3:]).all()


def test_a_request_is_made_from_its_row() -> None:
    found: dict[int, tuple[int, int]] = {}

    class Reader(Noting):
        def route(self, request: Request, cluster: ClusterView, now_s: float) -> int:
            found[request.request_id] = (request.prompt_tokens, request.output_tokens)
            return 0

    asks = [Ask(0, 4 + k, 1 + k) for k in range(5)]
    options: dict[str, Any] = {"router": Reader([]), "max_model_len": 11}
    run_engine(loop_of(asks, concurrency=2), **options)
    assert found == {0: (4, 1), 1: (5, 2), 2: (6, 3), 3: (7, 4), 4: (8, 3)}
