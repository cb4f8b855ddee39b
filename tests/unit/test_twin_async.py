"""Twin: asynchronous scheduling, where a step is planned while its predecessor executes."""

import pytest

from tests.twin.stories import Ask, play, scheduled

ROOT = -1


def test_an_idle_instance_plans_two_steps_at_once() -> None:
    result = play([Ask(0, prompt=4, output=3)], is_async=True)
    assert scheduled(result) == [((0, 4),), ((0, 1),), ((0, 1),)]
    assert [step.planned_s for step in result.steps] == [0.0, 0.0, 1.0]
    assert [step.start_s for step in result.steps] == [0.0, 1.0, 2.0]
    assert result.requests[0].token_steps == [1, 2, 3]


@pytest.mark.parametrize(("is_async", "step"), [(False, 2), (True, 3)])
def test_an_arrival_takes_effect_one_step_later(is_async: bool, step: int) -> None:
    asks = [Ask(0, prompt=4, output=5), Ask(0.5, prompt=4, output=1)]
    late = play(asks, is_async=is_async).requests[1]
    assert (late.admission_plan_s, late.token_steps) == ([1.0], [step])


@pytest.mark.parametrize(("is_async", "step"), [(False, 3), (True, 4)])
def test_a_finish_frees_its_seat_one_step_later(is_async: bool, step: int) -> None:
    asks = [Ask(0, prompt=4, output=2), Ask(0, prompt=4, output=6), Ask(0, prompt=4, output=1)]
    result = play(asks, seats=2, is_async=is_async)
    assert result.requests[0].finish_step == 2
    assert result.requests[2].admission_steps == [step]


def test_a_request_whose_last_token_is_in_flight_gets_nothing_but_keeps_its_blocks() -> None:
    asks = [Ask(0, prompt=7, output=2), Ask(0, prompt=4, output=6)]
    result = play(asks, usable_blocks=10, is_async=True)
    assert scheduled(result) == [
        ((0, 7), (1, 4)),
        ((0, 1), (1, 1)),
        ((1, 1),),  # planned before the output of step 2 is known
        ((1, 1),),
        ((1, 1),),
        ((1, 1),),
    ]
    assert result.free_blocks == [7, 6, 6, 8, 8, 7]
    assert play(asks, usable_blocks=10).free_blocks == [7, 6, 8, 8, 8, 7]


def test_a_request_whose_last_token_is_in_flight_uses_no_budget() -> None:
    asks = [Ask(0, prompt=1, output=1), Ask(0, prompt=9, output=1)]
    result = play(asks, budget=4, seats=4, is_async=True)
    assert scheduled(result) == [((0, 1), (1, 3)), ((1, 4),), ((1, 2),)]


def test_after_an_empty_plan_planning_starts_afresh_at_the_end_of_the_step() -> None:
    asks = [Ask(0, prompt=4, output=1), Ask(0.25, prompt=4, output=2)]
    result = play(asks, is_async=True)
    assert scheduled(result) == [((0, 4),), ((1, 4),), ((1, 1),)]
    assert [step.planned_s for step in result.steps] == [0.0, 1.0, 1.0]
    assert result.step_end_s == [1.0, 2.0, 3.0]


def test_the_token_of_a_preempted_request_in_flight_is_delivered() -> None:
    asks = [Ask(0, prompt=9, output=5), Ask(0, prompt=4, output=3)]
    result = play(asks, usable_blocks=4, is_async=True)
    assert scheduled(result) == [
        ((0, 9), (1, 4)),
        ((0, 1),),  # planned at 0 too: request 1 finds no second block
        ((0, 1),),
        ((0, 1),),
        ((0, 1),),
        ((1, 5),),
        ((1, 1),),
    ]
    preempted = result.requests[1]
    assert preempted.token_steps == [1, 6, 7]
    assert preempted.num_preemptions == 1
    assert preempted.admission_plan_s == [0.0, 5.0]


def test_a_request_preempted_while_its_last_token_is_in_flight_just_finishes() -> None:
    asks = [Ask(0, prompt=8, output=2), Ask(0, prompt=8, output=1)]
    result = play(asks, usable_blocks=4, is_async=True)
    assert scheduled(result) == [((0, 8), (1, 8)), ((0, 1),)]
    assert result.free_blocks == [0, 1]
    popped = result.requests[1]
    assert (popped.num_preemptions, popped.finish_step, popped.hit_blocks) == (1, 1, [0])
    assert play(asks, usable_blocks=4).num_preemptions == 0


@pytest.mark.parametrize(("arrival_s", "cached_tokens"), [(3, 4), (4, 8)])
def test_a_generated_block_is_hashed_when_its_last_token_is_known(
    arrival_s: int, cached_tokens: int
) -> None:
    nodes = [(ROOT, 4), (0, 12)]
    # Step 5 writes the 8th token, which step 4 generates: planned at 3, known at 4.
    first = Ask(0, prompt=4, output=12, path=(0,), output_node=1)
    late = Ask(arrival_s, prompt=17, output=1, path=(0, 1))
    result = play([first, late], nodes, is_async=True)
    assert result.requests[1].admission_steps == [arrival_s + 2]
    assert result.requests[1].cached_tokens == cached_tokens


@pytest.mark.parametrize(("hash_in_flight_input", "cached_tokens"), [(True, 8), (False, 4)])
def test_the_input_of_the_last_step_is_hashed_as_it_starts_or_when_it_ends(
    hash_in_flight_input: bool, cached_tokens: int
) -> None:
    nodes = [(ROOT, 4), (0, 5)]
    # Step 5 is its last and fills the second block; the plan made at 4 skips it.
    first = Ask(0, prompt=4, output=5, path=(0,), output_node=1)
    late = Ask(4, prompt=10, output=1, path=(0, 1))
    result = play([first, late], nodes, is_async=True, hash_in_flight_input=hash_in_flight_input)
    assert result.requests[1].admission_steps == [6]
    assert result.requests[1].cached_tokens == cached_tokens


@pytest.mark.parametrize(("hash_in_flight_input", "hits"), [(True, 2), (False, 1)])
def test_a_request_preempted_in_flight_at_a_block_end_keeps_that_block_or_not(
    hash_in_flight_input: bool, hits: int
) -> None:
    asks = [Ask(0, prompt=9, output=3), Ask(0, prompt=6, output=4)]
    # At 2 request 1 has 8 tokens, step 3 in flight included, and finds no third block.
    result = play(asks, usable_blocks=5, is_async=True, hash_in_flight_input=hash_in_flight_input)
    assert scheduled(result)[:4] == [
        ((0, 9), (1, 6)),
        ((0, 1), (1, 1)),
        ((0, 1), (1, 1)),
        ((1, 9 - 4 * hits),),
    ]
    preempted = result.requests[1]
    assert (preempted.hit_blocks, preempted.token_steps) == ([0, hits], [1, 2, 3, 4])
    assert preempted.admission_plan_s == [0.0, 3.0]
