"""Twin: prefix hits, eviction order, reuse of outputs."""

from tests.twin.stories import Ask, play, scheduled

ROOT = -1


def test_a_hit_never_covers_the_last_prompt_token() -> None:
    same = [Ask(0, prompt=8, output=1, path=(0,)), Ask(1, prompt=8, output=1, path=(0,))]
    result = play([*same, Ask(2, prompt=9, output=1, path=(0,))], nodes=[(ROOT, 8)])
    assert [request.cached_tokens for request in result.requests] == [0, 4, 8]
    assert scheduled(result) == [((0, 8),), ((1, 4),), ((2, 1),)]


def test_blocks_planned_in_this_step_are_hit_by_a_later_request_of_the_same_step() -> None:
    asks = [Ask(0, prompt=12, output=1, path=(0,)), Ask(0, prompt=12, output=1, path=(0,))]
    result = play(asks, nodes=[(ROOT, 8)], usable_blocks=10)
    assert scheduled(result) == [((0, 12), (1, 4))]
    assert result.free_blocks == [6]
    assert result.requests[1].hit_blocks == [2]


def test_same_step_hits_reach_only_to_the_scheduled_end_of_a_chunk() -> None:
    asks = [Ask(0, prompt=12, output=1, path=(0,)), Ask(0, prompt=12, output=1, path=(0,))]
    result = play(asks, nodes=[(ROOT, 12)], threshold=7)
    assert scheduled(result)[0] == ((0, 7), (1, 7))
    assert result.requests[1].cached_tokens == 4


def test_prompts_share_no_block_past_the_node_where_they_part() -> None:
    nodes = [(ROOT, 6), (0, 6), (0, 6)]
    left, right = Ask(0, 12, 1, path=(0, 1)), Ask(0, 13, 1, path=(0, 2))
    result = play([left, right, Ask(1, 13, 1, path=(0, 1))], nodes)
    assert [request.cached_tokens for request in result.requests] == [0, 4, 12]


def test_without_prefix_caching_nothing_is_found() -> None:
    asks = [Ask(0, prompt=12, output=1, path=(0,)), Ask(0, prompt=12, output=1, path=(0,))]
    result = play(asks, nodes=[(ROOT, 8)], caching=False)
    assert scheduled(result) == [((0, 12), (1, 12))]


def test_the_tail_of_a_finished_request_is_evicted_first() -> None:
    asks = [
        Ask(0, prompt=12, output=1, path=(0,)),  # blocks 1 2 3 of 4
        Ask(1, prompt=8, output=1),  # takes block 4, then 3
        Ask(2, prompt=13, output=1, path=(0,)),
    ]
    result = play(asks, nodes=[(ROOT, 12)], usable_blocks=4)
    assert result.requests[2].cached_tokens == 8


def test_finishes_of_one_step_are_released_in_running_order() -> None:
    asks = [
        Ask(0, prompt=8, output=1, path=(0,)),
        Ask(0, prompt=8, output=1, path=(1,)),
        Ask(1, prompt=8, output=1),  # evicts what request 0 left
        Ask(2, prompt=9, output=1, path=(1,)),
        Ask(3, prompt=9, output=1, path=(0,)),
    ]
    result = play(asks, nodes=[(ROOT, 8), (ROOT, 8)], usable_blocks=4)
    assert [request.cached_tokens for request in result.requests[3:]] == [8, 0]


def test_a_released_block_is_held_on_by_its_other_users() -> None:
    asks = [
        Ask(0, prompt=9, output=1, path=(0,)),
        Ask(0, prompt=9, output=3, path=(0,)),
        Ask(1, prompt=9, output=1, path=(0,)),
    ]
    result = play(asks, nodes=[(ROOT, 8)], usable_blocks=10)
    # 2 shared blocks throughout, one private block per request running
    assert result.free_blocks == [6, 6, 7]
    assert result.requests[2].cached_tokens == 8


def test_of_two_copies_the_one_hashed_first_is_hit() -> None:
    asks = [
        Ask(0, prompt=8, output=1, path=(0,)),  # blocks 1 2, then free
        Ask(1, prompt=8, output=3, path=(0,)),  # hits 1, computes its own second block: 3
        Ask(2, prompt=9, output=1, path=(0,)),  # hits 1 and 2; 2 must leave the free queue
    ]
    result = play(asks, nodes=[(ROOT, 8)], usable_blocks=10)
    assert result.requests[2].cached_tokens == 8
    assert result.free_blocks == [8, 8, 5, 7]


def test_hit_blocks_in_the_free_queue_count_as_needed() -> None:
    asks = [
        Ask(0, prompt=8, output=1, path=(0,)),
        Ask(1, prompt=5, output=2),  # holds 2 of 4 blocks, the other 2 are cached and free
        Ask(1, prompt=9, output=1, path=(0,)),  # 2 hits and 1 new block: 3 > 2
    ]
    result = play(asks, nodes=[(ROOT, 8)], usable_blocks=4)
    assert [request.admission_steps for request in result.requests] == [[1], [2], [4]]
    assert result.requests[2].cached_tokens == 8


def test_a_follow_up_turn_finds_what_its_parent_generated() -> None:
    nodes = [(ROOT, 4), (0, 9)]
    first = Ask(0, prompt=4, output=9, path=(0,), output_node=1)
    result = play([first, Ask(20, prompt=16, output=1, path=(0, 1))], nodes)
    assert result.requests[1].cached_tokens == 12


def test_the_kv_of_the_last_token_is_never_written() -> None:
    nodes = [(ROOT, 4), (0, 8)]  # the twelfth token would complete the third block
    first = Ask(0, prompt=4, output=8, path=(0,), output_node=1)
    result = play([first, Ask(20, prompt=15, output=1, path=(0, 1))], nodes)
    assert result.requests[1].cached_tokens == 8


def test_a_generated_block_is_hit_in_the_step_that_fills_it() -> None:
    nodes = [(ROOT, 4), (0, 12)]
    first = Ask(0, prompt=4, output=12, path=(0,), output_node=1)  # step 5 writes its 8th token
    for arrival_s, cached_tokens in ((3, 4), (4, 8)):
        result = play([first, Ask(arrival_s, prompt=17, output=1, path=(0, 1))], nodes)
        assert result.requests[1].admission_steps == [arrival_s + 1]
        assert result.requests[1].cached_tokens == cached_tokens
