"""vLLM v1 through the engine: prefix hits, eviction order, reuse of outputs."""

from typing import Any

import pytest

from tests.engine_runs import run_engine, token_steps
from tests.twin.stories import Ask, workload_of
from tests.unit.sim.probes import used_blocks, work

ROOT = -1


def cached(asks: list[Ask], nodes: list[tuple[int, int]], **options: Any) -> list[int]:
    result = run_engine(workload_of(asks, nodes), **options)
    tokens: list[int] = result.requests.cached_tokens.tolist()
    return tokens


def test_a_hit_is_whole_blocks_and_at_most_the_prompt_less_one_token() -> None:
    asks = [Ask(0, 8, 1, (0,)), Ask(1, 8, 1, (0,)), Ask(2, 9, 1, (0,)), Ask(3, 13, 1, (0,))]
    assert cached(asks, [(ROOT, 8)]) == [0, 4, 8, 8]


def test_blocks_planned_in_this_step_are_hit_by_a_later_request_of_the_same_step() -> None:
    asks = [Ask(0, 12, 1, (0,)), Ask(0, 12, 1, (0,))]
    result = run_engine(workload_of(asks, [(ROOT, 8)]))
    assert work(result) == [(1, 0, 2, 12 + 4)]
    assert used_blocks(result) == [4]
    assert result.requests.cached_tokens.tolist() == [0, 8]


def test_prompts_share_no_block_past_the_node_where_they_part() -> None:
    nodes = [(ROOT, 6), (0, 6), (0, 6)]
    asks = [Ask(0, 12, 1, (0, 1)), Ask(0, 13, 1, (0, 2)), Ask(1, 13, 1, (0, 1))]
    assert cached(asks, nodes) == [0, 4, 12]


def test_without_prefix_caching_nothing_is_found() -> None:
    asks = [Ask(0, 12, 1, (0,)), Ask(0, 12, 1, (0,)), Ask(9, 12, 1, (0,))]
    assert cached(asks, [(ROOT, 8)], prefix_caching=False) == [0, 0, 0]


def test_without_prefix_caching_a_resumed_request_recomputes_everything() -> None:
    result = run_engine(
        workload_of([Ask(0, 8, 2), Ask(0, 16, 2)]), usable_blocks=6, prefix_caching=False
    )
    assert work(result)[2] == (1, 0, 1, 17)


def test_the_tail_of_a_finished_request_is_evicted_first() -> None:
    asks = [
        Ask(0, 12, 1, (0,)),  # blocks 1 2 3 of 4
        Ask(1, 8, 1),  # takes block 4, then 3
        Ask(2, 13, 1, (0,)),
    ]
    assert cached(asks, [(ROOT, 12)], usable_blocks=4)[2] == 8


def test_the_request_released_first_is_evicted_first() -> None:
    asks = [Ask(0, 8, 1, (0,)), Ask(1, 8, 1, (1,)), Ask(2, 5, 1), Ask(3, 9, 1, (1,))]
    nodes = [(ROOT, 8), (ROOT, 8)]
    assert cached(asks, nodes, usable_blocks=4)[3] == 8
    assert cached([*asks[:3], Ask(3, 9, 1, (0,))], nodes, usable_blocks=4)[3] == 0


def test_a_hit_makes_blocks_recently_used() -> None:
    nodes = [(ROOT, 4), (ROOT, 4)]
    asks = [Ask(0, 4, 1, (0,)), Ask(1, 4, 1, (1,)), Ask(2, 5, 1, (0,)), Ask(3, 8, 1)]
    # Of 4 blocks node 0 and the private block of request 2 are freed last: node 1 goes.
    assert cached([*asks, Ask(4, 5, 1, (0,))], nodes, usable_blocks=4)[4] == 4
    assert cached([*asks, Ask(4, 5, 1, (1,))], nodes, usable_blocks=4)[4] == 0


def test_hit_blocks_in_the_free_queue_count_as_needed() -> None:
    asks = [Ask(0, 8, 1, (0,)), Ask(1, 5, 2), Ask(1, 9, 1, (0,))]
    result = run_engine(workload_of(asks, [(ROOT, 8)]), usable_blocks=4)
    # At 1 two blocks are free and both are hits; the new block makes 3.
    assert result.requests.admitted_s.tolist() == [0.0, 1.0, 3.0]
    assert result.requests.cached_tokens.tolist() == [0, 0, 8]


def test_of_two_copies_the_one_hashed_first_is_hit() -> None:
    asks = [
        Ask(0, 8, 1, (0,)),  # blocks 1 2, then free
        Ask(1, 8, 3, (0,)),  # hits 1, computes its own second block: 3
        Ask(2, 9, 1, (0,)),  # hits 1 and 2; 2 must leave the free queue
    ]
    result = run_engine(workload_of(asks, [(ROOT, 8)]), usable_blocks=10, macro_steps=False)
    assert result.requests.cached_tokens.tolist() == [0, 4, 8]
    assert used_blocks(result) == [2, 2, 5, 3]


@pytest.mark.parametrize(("output", "tokens"), [(9, 12), (8, 8)])
def test_a_follow_up_turn_hits_the_output_but_never_the_kv_of_its_last_token(
    output: int, tokens: int
) -> None:
    first = Ask(0, 4, output, (0,), output_node=1)
    follow_up = Ask(20, 4 + output + 3, 1, (0, 1))
    assert cached([first, follow_up], [(ROOT, 4), (0, output)])[1] == tokens


@pytest.mark.parametrize("macro_steps", [True, False])
@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize(("arrival_s", "tokens"), [(3, 4), (3.5, 8), (4, 8), (7, 8), (8, 12)])
def test_a_follow_up_turn_hits_what_its_parent_has_decoded_so_far(
    macro_steps: bool, is_async: bool, arrival_s: float, tokens: int
) -> None:
    # Step 5 writes the parent's 8th token and step 9 the 12th. They are planned at 4 and 8, or,
    # one step ahead, at 3 and 7; then the token that they write becomes known at 4 and 8 only.
    first = Ask(0, 4, 12, (0,), output_node=1)
    follow_up = Ask(arrival_s, 17, 1, (0, 1))
    workload = workload_of([first, follow_up], [(ROOT, 4), (0, 12)])
    result = run_engine(workload, is_async=is_async, macro_steps=macro_steps)
    assert result.requests.cached_tokens.tolist() == [0, tokens]


def test_a_blocked_follow_up_is_admitted_as_soon_as_its_parent_fills_a_block() -> None:
    first = Ask(0, 4, 12, (0,), output_node=1)
    follow_up = Ask(1, 16, 1, (0, 1))
    for macro_steps in (True, False):
        result = run_engine(
            workload_of([first, follow_up], [(ROOT, 4), (0, 12)]),
            usable_blocks=5,
            macro_steps=macro_steps,
        )
        # Step 2: parent holds 2 of 5; it hits 1 and needs 3 of 3 at once.
        assert token_steps(result)[1] == [2]
        tight = run_engine(
            workload_of([first, follow_up], [(ROOT, 4), (0, 12)]),
            usable_blocks=4,
            macro_steps=macro_steps,
        )
        # Step 5: parent holds 2 full blocks of 4, so 2 of the needed 4 are hits.
        assert token_steps(tight)[1] == [5]
        assert tight.requests.cached_tokens[1] == 8
