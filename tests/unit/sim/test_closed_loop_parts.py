"""What closed loops are made of: trees of rows, requests one by one, order, regime, invariants."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from sim.arrivals import request_at, requests_of
from sim.errors import InvariantError
from sim.followers import Followers, Trees, roots_of
from sim.invariants import check_result
from sim.records import SimulationResult
from sim.request import Request
from sim.step_clock import FOLLOW_UP, IDLE_WAKE, STEP_END, StepClock
from sim.system_size import regime_of
from tests.engine_runs import run_engine
from tests.twin.stories import Ask
from tests.twin.workloads import random_workload
from tests.unit.sim.loops import loop_of

AFTER = np.array([-1, 0, -1, 0, 1, 2, 4, 0])


def test_followers_of_a_row_are_those_that_wait_for_it_in_order() -> None:
    followers = Followers(AFTER)
    found = [followers.of(row) for row in range(len(AFTER))]
    assert found == [[1, 3, 7], [4], [5], [], [6], [], [], []]


def test_roots_are_found_through_chains_of_any_length() -> None:
    assert roots_of(AFTER).tolist() == [0, 0, 2, 0, 0, 2, 0, 0]
    assert not roots_of(np.arange(-1, 999)).any()
    assert roots_of(np.full(3, -1)).tolist() == [0, 1, 2]


def test_a_tree_is_over_when_its_last_row_has_ended() -> None:
    trees = Trees(AFTER)
    assert [trees.end(row) for row in (0, 2, 7, 1, 3, 5, 4)] == [
        *[False] * 5,
        True,  # 2 and 5
        False,
    ]
    assert trees.end(6)


@pytest.mark.parametrize("max_model_len", [None, 60])
def test_a_request_made_alone_is_the_one_of_the_stream(max_model_len: int | None) -> None:
    workload, _ = random_workload(5, structured=False)
    assert len(workload.path_nodes) > 0
    unset = ("decode_start_step", "finish_step")
    names = [n for n in dir(Request) if not n.startswith("__") and n not in unset]
    names = [n for n in names if not callable(getattr(Request, n))]
    assert len(names) == 30
    for expected in requests_of(workload, max_model_len):
        row = expected.request_id
        found = request_at(workload, row, expected.arrival_s, max_model_len)
        for name in names:
            assert getattr(found, name) == getattr(expected, name), name
        assert type(found.prompt_tokens) is type(found.private_tokens) is int


def test_follow_ups_come_after_step_ends_and_before_idle_instances_plan() -> None:
    clock, seen = StepClock(), list[str]()

    def note(name: str, _key: int) -> None:
        seen.append(name)

    for order, name in [(IDLE_WAKE, "idle"), (FOLLOW_UP, "follow-up"), (STEP_END, "end")]:
        clock.call_at(1.0, order, partial(note, name))
    clock.run_calls()
    assert seen == ["end", "follow-up", "idle"]


# -- regime ---------------------------------------------------------------------------------------


def test_a_fixed_number_of_users_is_a_regime_of_its_own() -> None:
    asks = [Ask(0, 4, 20)] * 400
    # Many users on one seat: each waits long, but no queue grows.
    assert regime_of(run_engine(loop_of(asks, concurrency=50), seats=1)) == "closed_loop"
    assert regime_of(run_engine(loop_of(asks), seats=1)) != "closed_loop"


def sessions(num: int, gap_s: float, follower_output: int = 1) -> SimulationResult:
    """Sessions of two turns on one seat, begun every `gap_s`; a first turn takes one second."""
    asks, after = [], []
    for k in range(num):
        asks += [Ask(k * gap_s, 4, 1), Ask(k * gap_s, 4, follower_output)]
        after += [-1, 2 * k]
    delays = [0.0, 3.0] * num
    return run_engine(loop_of(asks, after=after, delay_s=delays), seats=1, check=False)


def test_sessions_that_come_faster_than_they_are_served_overload_the_cluster() -> None:
    assert regime_of(sessions(200, 1.5)) == "overloaded"


def test_sessions_that_are_served_in_time_are_stable() -> None:
    assert regime_of(sessions(200, 2.5)) == "stable"


def test_first_turns_alone_are_judged() -> None:
    # Waits of the first turns are all 1 s, those of the second turns grow.
    n = 200
    base = sessions(n, 10.0)
    requests = base.requests
    first_token_s = requests.first_token_s.copy()
    first_token_s[1::2] += np.linspace(0, 50, n)
    grown = replace(base, requests=replace(requests, first_token_s=first_token_s))
    assert regime_of(grown) != "overloaded"
    first_token_s = requests.first_token_s.copy()
    first_token_s[::2] += np.linspace(0, 50, n)
    grown = replace(base, requests=replace(requests, first_token_s=first_token_s))
    assert regime_of(grown) == "overloaded"


def test_a_run_of_sessions_that_is_cut_short_is_judged_by_what_first_turns_find() -> None:
    asks, after = [], []
    for k in range(300):
        asks += [Ask(k * 1.0, 4, 2), Ask(k * 1.0, 4, 1)]
        after += [-1, 2 * k]
    result = run_engine(loop_of(asks, after=after), seats=1, horizon_s=300.0)
    assert result.num_unfinished > 100
    assert regime_of(result) == "overloaded"


# -- invariants -----------------------------------------------------------------------------------


def check(result: SimulationResult, *, is_whole: bool = True) -> None:
    check_result(
        result,
        max_num_batched_tokens=64,
        max_model_len=None,
        admits_in_arrival_order=True,
        is_whole=is_whole,
    )


def with_arrival(result: SimulationResult, row: int, time_s: float) -> SimulationResult:
    arrival_s = result.requests.arrival_s.copy()
    arrival_s[row] = time_s
    return replace(result, requests=replace(result.requests, arrival_s=arrival_s))


def test_11_a_follow_up_at_a_wrong_time_is_found() -> None:
    asks = [Ask(0, 4, 2), Ask(0, 4, 1), Ask(0, 4, 1)]
    result = run_engine(loop_of(asks, after=[-1, 0, -1], delay_s=[0, 1, 0]))
    check(result)
    for row, time_s in ((1, 2.5), (2, -1.0)):
        with pytest.raises(InvariantError, match=rf"11: arrives at a wrong time \(row {row}\)"):
            check(with_arrival(result, row, time_s))


def test_11_a_follow_up_that_was_due_and_did_not_come_is_found() -> None:
    # Row 1 comes at 3 and waits for the seat of row 2 when the horizon ends the run.
    asks = [Ask(0, 4, 2), Ask(0, 4, 1), Ask(0, 4, 9)]
    workload = loop_of(asks, after=[-1, 0, -1], delay_s=[0, 1, 0])
    result = run_engine(workload, seats=1, horizon_s=3.5)
    check(result, is_whole=False)
    with pytest.raises(InvariantError, match=r"11: arrives at a wrong time \(row 1\)"):
        check(with_arrival(result, 1, np.nan), is_whole=False)
    early = run_engine(workload, seats=1, horizon_s=3.0)
    assert np.isnan(early.requests.arrival_s[1])
    check(early, is_whole=False)


def test_11_a_user_with_two_things_under_way_is_found() -> None:
    result = run_engine(loop_of([Ask(0, 4, 2)] * 4, concurrency=2))
    assert result.requests.arrival_s.tolist() == [0, 0, 2, 2]
    check(result)
    with pytest.raises(InvariantError, match="11: 3 users have something under way, there are 2"):
        check(with_arrival(result, 2, 1.5))


def test_1_a_request_that_never_came_is_found_at_the_end_of_a_whole_run() -> None:
    result = run_engine(loop_of([Ask(0, 4, 2)] * 3, concurrency=1), horizon_s=3.0)
    with pytest.raises(InvariantError, match="1: 2 requests left at the end of a whole run"):
        check(result)


def test_6_later_rows_may_be_admitted_first_if_they_arrive_in_the_same_instant() -> None:
    # Row 2 comes at 3 by itself, row 1 is released then: queue order 2, 1 on one seat.
    asks = [Ask(0, 4, 3), Ask(3, 4, 1), Ask(3, 4, 1)]
    result = run_engine(loop_of(asks, after=[-1, 0, -1]), seats=1)
    assert result.requests.arrival_s.tolist() == [0, 3, 3]
    assert result.requests.admitted_s.tolist() == [0, 4, 3]
    check(result)
    late = replace(result.requests, admitted_s=np.array([4.5, 4.0, 3.0]))
    late = replace(late, first_token_s=np.full(3, 9.0), finish_s=np.full(3, 9.0))
    with pytest.raises(InvariantError, match="6: instance 0 admits out of order"):
        check(replace(result, requests=late))
