"""Reuse in caches of every size, against a cache that holds single blocks."""

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.workload import Workload
from tests.unit.traces.token_oracle import matched_tokens as matched_by_hand
from tests.unit.traces.token_oracle import tables
from traces.analysis.reuse import hit_blocks, matched_tokens, reuse_ratio
from traces.analysis.reuse_curve import reuse_curve
from traces.prefix_compress import compress
from traces.schema import PromptRuns, TraceTable
from traces.synthetic.prefix_groups import PrefixGroupsTrace
from traces.synthetic.sessions import SessionsTrace

Block = Hashable


def blocks_of(workload: Workload, row: int, size: int) -> tuple[list[Block], int]:
    """Blocks that a request touches from the first on, and how many of them prompts may find."""
    tree = workload.tree
    nodes = list(workload.path(row))
    num_findable = (int(workload.prompt_tokens[row]) - 1) // size
    if workload.output_node is not None and workload.output_node[row] >= 0:
        nodes.append(int(workload.output_node[row]))
    blocks: list[Block] = []
    for node in nodes:
        first = int(tree.start_tokens[node]) // size
        last = int(tree.end_tokens[node]) // size
        blocks += [("shared", node, k) for k in range(first, last)]
    tokens = int(workload.prompt_tokens[row] + workload.output_tokens[row]) - 1
    blocks += [("private", row, k) for k in range(len(blocks), -(-tokens // size))]
    return blocks, num_findable


def hits_of_a_cache(workload: Workload, size: int, num_blocks: int) -> int:
    """Blocks found by one least-recently-used cache, block by block."""
    cache: OrderedDict[Block, None] = OrderedDict()
    hits = 0
    for row in range(workload.num_requests):
        blocks, num_findable = blocks_of(workload, row, size)
        num_prompt = int(workload.prompt_tokens[row]) // size
        for block in blocks[: min(num_findable, num_prompt)]:
            if block not in cache:
                break
            hits += 1
        for block in reversed(blocks):
            cache[block] = None
            cache.move_to_end(block)
        while len(cache) > num_blocks:
            cache.popitem(last=False)
    return hits


@settings(max_examples=80, deadline=None)
@given(tables, st.sampled_from([1, 3, 16]))
def test_every_size_finds_what_a_cache_of_single_blocks_finds(table: TraceTable, size: int) -> None:
    workload = compress(table)
    num_blocks = int((workload.prompt_tokens + workload.output_tokens).sum()) // size + 1
    curve = reuse_curve(workload, size, cache_blocks=np.arange(1, num_blocks + 1))
    prompt_tokens = int(workload.prompt_tokens.sum())
    for num_blocks, ratio in zip(curve.cache_blocks.tolist(), curve.reuse_ratio, strict=True):
        hits = hits_of_a_cache(workload, size, num_blocks)
        assert ratio == pytest.approx(hits * size / prompt_tokens, abs=1e-12)
    assert curve.reuse_ratio[-1] == pytest.approx(reuse_ratio(workload, size), abs=1e-12)
    assert (curve.sampled_ratio, curve.standard_error.max()) == (1.0, 0.0)


def long_trace(num_requests: int = 3000) -> Workload:
    length = {"kind": "fixed", "value": 40}
    source = PrefixGroupsTrace(
        num_requests=num_requests,
        rate_per_s=1.0,
        num_groups=200,
        prefix_tokens=320,  # type: ignore[arg-type,unused-ignore]
        skew=0.8,
        suffix=length,
        output=length,
    )
    return compress(source.load(1))


@pytest.mark.parametrize("num_blocks", [64, 500, 2048])
def test_sizes_in_between_are_right_on_a_longer_trace(num_blocks: int) -> None:
    workload = long_trace(600)
    curve = reuse_curve(workload)
    at = int(np.searchsorted(curve.cache_blocks, num_blocks))
    hits = hits_of_a_cache(workload, 16, int(curve.cache_blocks[at]))
    assert hits > 0
    expected = hits * 16 / int(workload.prompt_tokens.sum())
    assert curve.reuse_ratio[at] == pytest.approx(expected, abs=1e-12)


def test_a_sampled_curve_is_within_its_stated_error() -> None:
    workload = long_trace()
    sampled = reuse_curve(workload, max_uses=1000, num_certain=10)
    exact = reuse_curve(workload, cache_blocks=sampled.cache_blocks)
    assert 0.2 < sampled.sampled_ratio < 0.6
    assert sampled.reuse_ratio[-1] == pytest.approx(exact.reuse_ratio[-1], abs=1e-9)
    assert sampled.standard_error[-1] == pytest.approx(0, abs=1e-9)
    assert 0 < sampled.standard_error.max() < 0.2
    off = np.abs(sampled.reuse_ratio - exact.reuse_ratio)
    assert (off <= 3 * sampled.standard_error + 1e-9).all()
    assert off.max() > 0


def test_the_stated_error_covers_distances_too() -> None:
    length = {"kind": "uniform", "low": 10, "high": 500}
    source = SessionsTrace(
        num_requests=20_000,
        rate_per_s=100.0,
        turns={"kind": "uniform", "low": 1, "high": 8},
        user=length,
        output=length,
    )
    workload = compress(source.load(0))
    sampled = reuse_curve(workload, max_uses=10_000, num_certain=1000)
    exact = reuse_curve(workload, cache_blocks=sampled.cache_blocks)
    off = np.abs(sampled.reuse_ratio - exact.reuse_ratio)
    assert (off <= 3 * sampled.standard_error + 1e-9).all()
    # more than the choice of nodes alone explains
    assert off.max() > 0.01
    assert sampled.standard_error.max() < 0.2


def test_two_requests_may_generate_what_a_third_one_continues() -> None:
    runs = PromptRuns(
        ids=np.array([1, 1, 1, 2]),
        offsets=np.array([0, 1, 2, 4]),
        tokens=np.array([40, 40, 40, 25]),
    )
    table = TraceTable(
        arrival_s=np.arange(3.0),
        prompt_tokens=np.array([40, 40, 65]),
        output_tokens=np.array([25, 25, 3]),
        runs=runs,
        output_run=np.array([2, 2, -1]),
    )
    workload = compress(table)
    sizes = np.arange(1, 20)
    hits = [hits_of_a_cache(workload, 16, size) for size in sizes.tolist()]
    assert max(hits) == 2 + 4
    found = reuse_curve(workload, cache_blocks=sizes).reuse_ratio
    assert (found * 145 / 16).round(9).tolist() == hits


def test_more_certain_nodes_than_there_are_give_the_exact_curve() -> None:
    workload = long_trace(500)
    all_certain = reuse_curve(workload, max_uses=10, num_certain=10**6)
    assert all_certain.reuse_ratio.tolist() == reuse_curve(workload).reuse_ratio.tolist()


def two_by_two() -> Workload:
    """A, B, A, B: each of 4 blocks of 16 tokens; one output token, whose KV is never written."""
    runs = PromptRuns(
        ids=np.array([1, 2, 1, 2]), offsets=np.arange(5), tokens=np.full(4, 64, dtype=np.int64)
    )
    table = TraceTable(
        arrival_s=np.arange(4.0),
        prompt_tokens=np.full(4, 64, dtype=np.int64),
        output_tokens=np.ones(4, dtype=np.int64),
        runs=runs,
    )
    return compress(table)


def test_a_prompt_is_found_block_by_block_below_those_used_since() -> None:
    # B's four blocks lie above A's four; the last token of a prompt is always computed, so three
    # of four blocks can be found: with 5, 6, 7 blocks one, two, three of each second use.
    workload = two_by_two()
    assert [hits_of_a_cache(workload, 16, k) for k in (4, 5, 6, 7, 8)] == [0, 2, 4, 6, 6]
    curve = reuse_curve(workload)
    assert curve.cache_blocks.tolist() == [8]
    assert curve.reuse_ratio.tolist() == [6 / 16]
    assert curve.tokens_for(0.9) == 8 * 16


def test_a_workload_that_shares_nothing_has_a_flat_curve() -> None:
    workload = Workload.without_sharing(
        np.arange(3.0), np.array([100, 200, 300]), np.array([1, 1, 1])
    )
    curve = reuse_curve(workload)
    assert set(curve.reuse_ratio.tolist()) == {0.0}
    assert curve.sampled_ratio == 1.0
    assert curve.cache_blocks[-1] == 7 + 13 + 19


@settings(max_examples=60, deadline=None)
@given(tables)
def test_matched_tokens_are_those_of_an_earlier_request(table: TraceTable) -> None:
    assert matched_tokens(compress(table)).tolist() == matched_by_hand(table)


def test_hit_blocks_are_whole_and_leave_the_last_token() -> None:
    matched, prompts = np.array([31, 32, 32, 48]), np.array([40, 33, 32, 48])
    assert hit_blocks(matched, prompts, 16).tolist() == [1, 2, 1, 2]
    assert hit_blocks(matched, prompts, 1).tolist() == [31, 32, 31, 47]


def test_outputs_take_up_room() -> None:
    workload = two_by_two()
    longer = replace(workload, output_tokens=np.full(4, 33))
    curve = reuse_curve(longer)
    assert curve.cache_blocks[-1] == 8 + 4 * 2
    # above the second use of each prompt lie the other prompt's six blocks
    few = reuse_curve(longer, cache_blocks=np.array([6, 7, 8, 9]))
    assert (few.reuse_ratio * 16).round(9).tolist() == [0, 2, 4, 6]
