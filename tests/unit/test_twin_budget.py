"""Twin: token budget, seats, order of the queue, clock."""

from collections.abc import Sequence

import pytest

from tests.twin.result import Chunk
from tests.twin.stories import Ask, play, scheduled


def test_running_requests_take_the_budget_first_and_a_prefill_gets_the_rest() -> None:
    result = play([Ask(0, prompt=4, output=5), Ask(0, prompt=20, output=1)], budget=10)
    assert scheduled(result) == [
        ((0, 4), (1, 6)),
        ((0, 1), (1, 9)),
        ((0, 1), (1, 5)),
        ((0, 1),),
        ((0, 1),),
    ]
    assert result.requests[0].token_steps == [1, 2, 3, 4, 5]
    assert result.requests[1].token_steps == [3]


def test_nobody_is_admitted_without_budget() -> None:
    result = play([Ask(0, prompt=9, output=1), Ask(0, prompt=1, output=1)], budget=4, seats=4)
    assert scheduled(result) == [((0, 4),), ((0, 4),), ((0, 1), (1, 1))]


def test_the_long_prefill_threshold_caps_a_chunk_whether_running_or_admitted() -> None:
    result = play([Ask(0, prompt=20, output=1)], threshold=8)
    assert scheduled(result) == [((0, 8),), ((0, 8),), ((0, 4),)]


def test_admission_stops_at_max_num_seqs() -> None:
    asks = [Ask(0, prompt=4, output=2), Ask(0, prompt=4, output=3), Ask(0, prompt=4, output=1)]
    result = play(asks, seats=2)
    assert [request.admission_steps for request in result.requests] == [[1], [1], [3]]


def test_a_head_that_does_not_fit_blocks_a_smaller_request_behind_it() -> None:
    asks = [Ask(0, prompt=8, output=2), Ask(0, prompt=12, output=1), Ask(0, prompt=4, output=1)]
    result = play(asks, usable_blocks=4)
    assert scheduled(result) == [((0, 8),), ((0, 1),), ((1, 12), (2, 4))]
    assert result.free_blocks == [2, 1, 0]
    assert result.min_free_blocks == 0


def test_an_arrival_on_a_step_boundary_is_seen_by_the_plan_made_there() -> None:
    asks = [Ask(0, 4, output=5), Ask(1.0, 4, output=1), Ask(1.0 + 1e-9, 4, output=1)]
    result = play(asks)
    assert [request.admission_steps for request in result.requests] == [[1], [2], [3]]
    assert [request.admission_plan_s for request in result.requests] == [[0.0], [1.0], [2.0]]


def test_an_idle_instance_plans_at_the_arrival_after_all_arrivals_of_that_instant() -> None:
    result = play([Ask(0.25, 4, output=1), Ask(5.5, 4, output=1), Ask(5.5, 8, output=1)])
    assert scheduled(result) == [((0, 4),), ((1, 4), (2, 8))]
    assert [(step.start_s, step.end_s) for step in result.steps] == [(0.25, 1.25), (5.5, 6.5)]


def test_steps_are_priced_by_decodes_contexts_and_chunks() -> None:
    calls: list[tuple[int, int, list[Chunk]]] = []

    def seconds(num_decodes: int, context_sum: int, chunks: Sequence[Chunk]) -> float:
        calls.append((num_decodes, context_sum, list(chunks)))
        return num_decodes + 0.5 * len(chunks)

    asks = [Ask(0, prompt=4, output=4), Ask(0, prompt=8, output=2)]
    result = play(asks, budget=6, seats=4, step_duration=seconds)
    assert calls == [
        (0, 0, [Chunk(4, 0, True), Chunk(2, 0, False)]),
        (1, 5, [Chunk(5, 2, False)]),
        (1, 6, [Chunk(1, 7, True)]),  # one token left, but none emitted yet: prefill
        (2, 7 + 9, []),
    ]
    assert result.step_end_s == [1.0, 2.5, 4.0, 6.0]


def test_a_request_that_can_never_fit_is_refused() -> None:
    assert play([Ask(0, prompt=4, output=5)], usable_blocks=2).requests[0].finish_step == 5
    with pytest.raises(ValueError, match="request 0 never fits in 2 blocks"):
        play([Ask(0, prompt=4, output=6)], usable_blocks=2)
