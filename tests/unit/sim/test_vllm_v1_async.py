"""vLLM v1 through the engine: asynchronous scheduling, one step ahead."""

import pytest

from tests.engine_runs import run_engine, token_steps
from tests.twin.stories import Ask, workload_of
from tests.unit.sim.probes import used_blocks, work


@pytest.mark.parametrize(("is_async", "step"), [(False, 2), (True, 3)])
def test_an_arrival_takes_effect_one_step_later(is_async: bool, step: int) -> None:
    result = run_engine(workload_of([Ask(0, 4, 5), Ask(0.5, 4, 1)]), is_async=is_async)
    assert token_steps(result) == [[1, 2, 3, 4, 5], [step]]
    assert result.requests.admitted_s.tolist() == [0.0, 1.0]
    assert result.requests.finish_s.tolist() == [5.0, float(step)]


@pytest.mark.parametrize(("is_async", "step"), [(False, 3), (True, 4)])
def test_a_finish_frees_its_seat_one_step_later(is_async: bool, step: int) -> None:
    asks = [Ask(0, 4, 2), Ask(0, 4, 6), Ask(0, 4, 1)]
    result = run_engine(workload_of(asks), seats=2, is_async=is_async)
    assert token_steps(result) == [[1, 2], [1, 2, 3, 4, 5, 6], [step]]


@pytest.mark.parametrize(
    ("is_async", "used"), [(False, [3, 4, 2, 2, 2, 3]), (True, [3, 4, 4, 2, 2, 3])]
)
def test_a_request_whose_last_token_is_in_flight_keeps_its_blocks(
    is_async: bool, used: list[int]
) -> None:
    asks = [Ask(0, 7, 2), Ask(0, 4, 6)]
    result = run_engine(workload_of(asks), usable_blocks=10, is_async=is_async, macro_steps=False)
    assert token_steps(result) == [[1, 2], [1, 2, 3, 4, 5, 6]]
    assert used_blocks(result) == used


def test_a_request_whose_last_token_is_in_flight_uses_no_budget() -> None:
    asks = [Ask(0, 1, 1), Ask(0, 9, 1)]
    result = run_engine(workload_of(asks), budget=4, seats=4, is_async=True)
    assert work(result) == [(1, 0, 2, 4), (1, 0, 1, 4), (1, 0, 1, 2)]


def test_an_idle_instance_plans_two_steps_at_once() -> None:
    # A second request that arrives with the first step still running is not in step 2 ...
    result = run_engine(workload_of([Ask(0, 4, 2), Ask(0.25, 4, 1)]), is_async=True)
    assert token_steps(result) == [[1, 2], [3]]
    # ... unless there is no step 2 for it to miss.
    result = run_engine(workload_of([Ask(0, 4, 1), Ask(0.25, 4, 2)]), is_async=True)
    assert token_steps(result) == [[1], [2, 3]]
    assert result.requests.admitted_s.tolist() == [0.0, 1.0]


def test_the_token_of_a_preempted_request_in_flight_is_delivered() -> None:
    asks = [Ask(0, 9, 5), Ask(0, 4, 3)]
    result = run_engine(workload_of(asks), usable_blocks=4, is_async=True)
    assert token_steps(result) == [[1, 2, 3, 4, 5], [1, 6, 7]]
    assert result.requests.num_preemptions.tolist() == [0, 1]


def test_a_request_preempted_while_its_last_token_is_in_flight_just_finishes() -> None:
    asks = [Ask(0, 8, 2), Ask(0, 8, 1)]
    result = run_engine(workload_of(asks), usable_blocks=4, is_async=True)
    assert token_steps(result) == [[1, 2], [1]]
    assert result.requests.num_preemptions.tolist() == [0, 1]
    assert result.requests.finish_s.tolist() == [2.0, 1.0]
    sync = run_engine(workload_of(asks), usable_blocks=4)
    assert sync.requests.num_preemptions.tolist() == [0, 0]


def test_step_ends_do_not_depend_on_planning_ahead() -> None:
    for is_async in (False, True):
        result = run_engine(workload_of([Ask(0.25, 4, 3), Ask(9.5, 4, 1)]), is_async=is_async)
        assert result.instances[0].step_end_s.tolist() == [1.25, 2.25, 3.25, 10.5]
        assert result.instances[0].step_start_s.tolist() == [0.25, 1.25, 2.25, 9.5]
        assert result.instances[0].busy_from_s.tolist() == [0.25, 9.5]


def test_the_input_of_the_last_step_is_not_hashed_before_that_step_ends() -> None:
    # Step 5 is the parent's last and fills its second block; the plan made at 4 skips it.
    first = Ask(0, 4, 5, (0,), output_node=1)
    late = Ask(4, 10, 1, (0, 1))
    result = run_engine(workload_of([first, late], [(-1, 4), (0, 5)]), is_async=True)
    assert token_steps(result)[1] == [6]
    assert result.requests.cached_tokens.tolist() == [0, 4]


def test_a_request_preempted_in_flight_at_a_block_end_has_not_hashed_that_block() -> None:
    # At 2 request 1 has 8 tokens, step 3 in flight included, and finds no third block.
    asks = [Ask(0, 9, 3), Ask(0, 6, 4)]
    result = run_engine(workload_of(asks), usable_blocks=5, is_async=True, macro_steps=False)
    assert work(result)[:4] == [(1, 0, 2, 15), (1, 2, 0, 0), (1, 2, 0, 0), (1, 0, 1, 9 - 4)]
    assert token_steps(result) == [[1, 2, 3], [1, 2, 3, 4]]
