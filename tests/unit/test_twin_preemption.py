"""Twin: preemption by recompute."""

from tests.twin.result import Chunk
from tests.twin.stories import Ask, play, scheduled


def test_the_last_running_request_is_preempted_and_comes_back_when_it_fits() -> None:
    asks = [Ask(0, prompt=8, output=3)] * 3
    result = play(asks, usable_blocks=6)
    assert scheduled(result) == [
        ((0, 8), (1, 8), (2, 8)),  # 6 blocks
        ((0, 1), (1, 1)),  # both need a third block: request 2 loses its two
        ((0, 1), (1, 1)),
        ((2, 9),),
        ((2, 1),),
    ]
    assert [request.num_preemptions for request in result.requests] == [0, 0, 1]
    assert result.num_preemptions == 1
    assert result.requests[2].token_steps == [1, 4, 5]
    assert result.requests[2].admission_steps == [1, 4]


def test_a_request_may_preempt_itself_and_the_step_then_schedules_nobody_after_it() -> None:
    result = play([Ask(0, prompt=9, output=5), Ask(0, prompt=4, output=2)], usable_blocks=4)
    assert scheduled(result) == [
        ((0, 9), (1, 4)),
        ((0, 1),),  # request 1 finds no second block
        ((0, 1),),  # its cached block lies in the free queue: it needs 2, 1 is free
        ((0, 1),),
        ((0, 1),),  # takes that block
        ((1, 5),),
    ]
    assert result.free_blocks == [0, 1, 1, 1, 0, 2]
    assert result.requests[1].num_preemptions == 1
    assert result.requests[1].hit_blocks == [0, 0]


def test_preemption_repeats_until_the_request_fits() -> None:
    asks = [Ask(0, prompt=20, output=1), Ask(0, prompt=4, output=2), Ask(0, prompt=4, output=2)]
    result = play(asks, usable_blocks=5, threshold=12)
    assert scheduled(result) == [
        ((0, 12), (1, 4), (2, 4)),
        ((0, 8),),  # needs 2 blocks: one of request 2, one of request 1
        ((1, 5), (2, 5)),  # and request 1 waits before request 2 again
    ]
    assert [request.num_preemptions for request in result.requests] == [0, 1, 1]


def test_a_preempted_request_waits_before_one_that_never_ran() -> None:
    asks = [Ask(0, prompt=8, output=2), Ask(0, prompt=8, output=2), Ask(0, prompt=8, output=1)]
    result = play(asks, usable_blocks=4)
    assert scheduled(result) == [((0, 8), (1, 8)), ((0, 1),), ((1, 5),), ((2, 8),)]
    assert result.requests[1].hit_blocks == [0, 1]


def test_nobody_is_admitted_in_a_step_that_preempted() -> None:
    asks = [Ask(0, prompt=8, output=3), Ask(0, prompt=16, output=1)]
    result = play(asks, usable_blocks=6, threshold=8, caching=False)
    assert scheduled(result) == [
        ((0, 8), (1, 8)),
        ((0, 1),),  # request 1 needs 2 of 1 free block; alone in waiting it would fit (2 of 3)
        ((0, 1), (1, 8)),
        ((1, 8),),
    ]
    assert result.free_blocks == [2, 3, 1, 2]


def test_a_resumed_request_finds_its_own_private_blocks() -> None:
    result = play([Ask(0, prompt=8, output=2), Ask(0, prompt=16, output=2)], usable_blocks=6)
    assert scheduled(result) == [
        ((0, 8), (1, 16)),
        ((0, 1),),  # takes the tail block of request 1
        ((1, 5),),  # three of its four blocks are still there
    ]
    assert result.requests[1].hit_blocks == [0, 3]
    assert result.requests[1].cached_tokens == 0


def test_a_resume_that_recomputes_one_token_is_prefill_work() -> None:
    result = play([Ask(0, prompt=9, output=3), Ask(0, prompt=4, output=3)], usable_blocks=4)
    assert scheduled(result)[3:] == [((1, 1),), ((1, 1),)]
    assert result.requests[1].hit_blocks == [0, 1]
    resume, decode = result.steps[3:]
    assert (resume.num_decodes, resume.chunks) == (0, (Chunk(1, 4, True),))
    assert (decode.num_decodes, decode.context_sum, decode.chunks) == (1, 6, ())
