"""The per-token twin of SGLang on stories worked out by hand."""

from collections.abc import Sequence

from tests.twin.stories import Ask, workload_of
from tests.twin_sglang.radix import Radix
from tests.twin_sglang.request import TwinResult
from tests.twin_sglang.scheduler import Limits, run_twin


def play(
    asks: Sequence[Ask],
    nodes: Sequence[tuple[int, int]] = (),
    *,
    num_tokens: int = 200,
    seats: int = 8,
    chunk: int = 64,
    start_ratio: float = 0.7,
) -> TwinResult:
    limits = Limits(
        num_tokens=num_tokens,
        max_running_requests=seats,
        chunked_prefill_size=chunk,
        start_ratio=start_ratio,
        min_ratio=start_ratio * 0.14,
    )
    return run_twin(workload_of(asks, nodes), limits)


def test_prefill_batches_go_before_decode_batches() -> None:
    result = play([Ask(0, 4, 3), Ask(1, 5, 2)])
    assert result.work == [(0, 1, 4), (0, 1, 5), (2, 0, 0), (1, 0, 0)]
    assert [r.token_steps for r in result.requests] == [[1, 3, 4], [2, 3]]


def test_a_long_prompt_is_computed_in_parts() -> None:
    result = play([Ask(0, 20, 1), Ask(0, 3, 1)], chunk=8)
    assert result.work == [(0, 1, 8), (0, 1, 8), (0, 2, 7)]


def test_requests_of_one_batch_hit_nothing_of_each_other_and_keep_one_copy() -> None:
    asks = [Ask(0, 12, 2, (0,)), Ask(0, 13, 2, (0,)), Ask(1, 14, 1, (0,))]
    result = play(asks, [(-1, 10)])
    assert [r.hits for r in result.requests] == [[0], [0], [10]]
    # 25 tokens while both are computed, 15 and 4 more once the second shares the first one's copy.
    assert [200 - unheld for unheld in result.unheld] == [25, 19, 17]


def test_the_longest_prompt_with_the_fewest_output_is_retracted() -> None:
    result = play([Ask(0, 10, 15), Ask(0.5, 12, 15)], num_tokens=40, start_ratio=0.01)
    assert [r.retractions for r in result.requests] == [0, 1]
    assert result.requests[0].token_steps == [1, *range(3, 17)]
    assert result.requests[1].token_steps == [*range(2, 12), *range(17, 22)]
    assert result.ratios[11] == 1.0  # (10 + 20) / 16 at most 1


def test_whole_leaves_are_evicted_the_one_met_longest_ago_first() -> None:
    radix = Radix(30)
    for owner, size in (("a", 10), ("b", 8), ("c", 6)):
        tokens = [(owner, 0, k) for k in range(size)]
        radix.insert(tokens, radix.take(size))
    radix.match([("a", 0, 0)])  # meets all of it
    radix.make_free(8)
    assert {node.tokens[0][0] for node in radix.nodes()} == {"a", "c"}
    assert len(radix.free) == 14
