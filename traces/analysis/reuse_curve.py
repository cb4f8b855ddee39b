"""Reuse against the size of one least-recently-used cache of KV blocks.

Mattson's stack, by whole tree nodes instead of single blocks: one pass gives all sizes. Requests
are taken one after the other in order of arrival, each complete before the next, on one cache;
nothing is pinned, and generated tokens take up room.

Very long traces are sampled by node (SHARDS): the nodes that matter most are all kept, of the
others a share by a hash of their number; what that leaves out is made up for in distances and in
hits. The standard error is part of the result.

Source: Mattson et al., Evaluation techniques for storage hierarchies, IBM Systems Journal 1970;
Waldspurger et al., Efficient MRC construction with SHARDS, FAST 2015.
"""

from dataclasses import dataclass

import numpy as np

from sim.workload import FloatArray, IntArray, Workload
from traces.analysis.kv_blocks import KvBlocks
from traces.analysis.node_uses import NodeUses
from traces.analysis.reuse import hit_blocks, matched_tokens
from traces.analysis.stack_depths import Ramps, stack_depths

MAX_USES = 8_000_000
"""Uses of nodes that are followed exactly; beyond them nodes are sampled."""

NUM_CERTAIN = 4096
"""Nodes with the most tokens x uses, which no sample leaves out."""

SMALLEST_BLOCKS = 64
FEWEST_SAMPLED = 32
"""Sampled nodes that fill the smallest cache: fewer say nothing about its distances."""

SIZES_PER_DOUBLING = 4


@dataclass(frozen=True, slots=True)
class ReuseCurve:
    """Share of prompt tokens found in the cache, by its size.

    Attributes:
        block_tokens: tokens per KV block.
        cache_blocks: sizes, increasing. Shape (num_sizes,).
        reuse_ratio: share of all prompt tokens. Shape (num_sizes,).
        standard_error: of `reuse_ratio`; zeros unless nodes were sampled.
        sampled_ratio: share of the uses of nodes that were followed; 1 is exact.
    """

    block_tokens: int
    cache_blocks: IntArray
    reuse_ratio: FloatArray
    standard_error: FloatArray
    sampled_ratio: float

    @property
    def cache_tokens(self) -> IntArray:
        """Sizes in tokens."""
        return self.cache_blocks * self.block_tokens

    def tokens_for(self, share: float) -> int:
        """Smallest size listed that finds this share of what the largest finds, tokens."""
        enough = self.reuse_ratio >= share * self.reuse_ratio[-1] - 1e-12
        return int(self.cache_tokens[int(np.argmax(enough))])


def reuse_curve(
    workload: Workload,
    block_tokens: int = 16,
    *,
    cache_blocks: IntArray | None = None,
    max_uses: int = MAX_USES,
    num_certain: int = NUM_CERTAIN,
) -> ReuseCurve:
    """Reuse against cache size.

    Args:
        workload: the trace.
        block_tokens: tokens per KV block.
        cache_blocks: sizes, increasing; None takes a geometric row of them up to one that holds
            everything.
        max_uses: about so many uses of nodes are followed; a trace with more is sampled.
        num_certain: nodes that are followed in any case.
    """
    uses = NodeUses.of(workload)
    blocks = KvBlocks.of(workload, uses, block_tokens)
    keep_ratio = _keep_ratio(uses, blocks, max_uses, num_certain)
    ramps = stack_depths(workload, uses, blocks, keep_ratio)
    sizes = cache_blocks
    if sizes is None:
        sizes = _sizes(_smallest(uses, blocks, keep_ratio), blocks.num_distinct)
    matched = matched_tokens(workload, uses)
    all_hits = int(hit_blocks(matched, workload.prompt_tokens, block_tokens).sum())
    at = np.append(sizes, blocks.num_distinct)
    hits, error = (found[:-1] for found in _with_error(ramps, keep_ratio, at, all_hits))
    prompt_blocks = int(workload.prompt_tokens.sum()) / block_tokens
    num_followed = int(np.count_nonzero(keep_ratio[uses.node]))
    return ReuseCurve(
        block_tokens=block_tokens,
        cache_blocks=sizes,
        reuse_ratio=hits / prompt_blocks,
        standard_error=error / prompt_blocks,
        sampled_ratio=num_followed / len(uses.row) if len(uses.row) else 1.0,
    )


def _keep_ratio(uses: NodeUses, blocks: KvBlocks, max_uses: int, num_certain: int) -> FloatArray:
    """Chance with which each node was sampled, 0 where it was not. Shape (num_nodes,)."""
    num_nodes = len(blocks.node_blocks)
    if len(uses.row) <= max_uses:
        return np.ones(num_nodes)
    num_uses = np.bincount(uses.node, minlength=num_nodes)
    certain = np.argsort(-num_uses * blocks.node_blocks, kind="stable")[:num_certain]
    num_certain_uses = int(num_uses[certain].sum())
    num_left = max(len(uses.row) - num_certain_uses, 1)
    ratio = min(1.0, max(max_uses - num_certain_uses, max_uses / 10) / num_left)
    keep_ratio = np.where(_hash(np.arange(num_nodes)) < ratio, ratio, 0.0)
    keep_ratio[certain] = 1.0
    return keep_ratio


def _hash(numbers: IntArray) -> FloatArray:
    """Numbers scattered over [0, 1), the same every time.

    Source: the finalizer of splitmix64 (Steele et al., Fast splittable pseudorandom number
    generators, OOPSLA 2014).
    """
    word = numbers.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    word ^= word >> np.uint64(31)
    scattered: FloatArray = (word >> np.uint64(11)).astype(np.float64) / 2.0**53
    return scattered


def _smallest(uses: NodeUses, blocks: KvBlocks, keep_ratio: FloatArray) -> int:
    """Smallest size to answer, blocks."""
    ratio = keep_ratio[uses.node]
    sampled = blocks.node_blocks[uses.node[(ratio > 0) & (ratio < 1)]]
    if not len(sampled):
        return SMALLEST_BLOCKS
    filled = FEWEST_SAMPLED * float(sampled.mean()) / float(ratio[ratio > 0].min())
    return max(SMALLEST_BLOCKS, int(filled))


def _sizes(smallest: int, num_blocks: int) -> IntArray:
    """Sizes in a geometric row, the last one `num_blocks`."""
    largest = max(num_blocks, 1)
    first = min(smallest, largest)
    steps = int(np.ceil(np.log2(largest / first) * SIZES_PER_DOUBLING)) + 1
    sizes = np.rint(first * 2.0 ** (np.arange(steps) / SIZES_PER_DOUBLING)).astype(np.int64)
    return np.unique(np.append(sizes[sizes < largest], largest))


def _with_error(
    ramps: Ramps, keep_ratio: FloatArray, sizes: IntArray, all_hits: int
) -> tuple[FloatArray, FloatArray]:
    """Blocks found at each size, of which the last holds everything, and their standard error."""
    ratio = keep_ratio[ramps.node]
    certain, sampled = ramps.chosen(ratio == 1), ramps.chosen(ratio < 1)
    hits = certain.hits(sizes)
    if not len(sampled.node):
        return hits, np.zeros(len(sizes))
    # What the certain nodes do not find at full size is known; the sample says how it grows.
    factor = (all_hits - float(hits[-1])) / max(float(sampled.hits(sizes)[-1]), 1.0)
    hits = hits + factor * sampled.hits(sizes)
    chosen = _error_of_choice(sampled, sizes, 1 - float(ratio.min()), len(keep_ratio))
    moved = np.zeros(len(sizes))
    for num_errors in (-1.0, 1.0):  # as if all distances erred the same way
        there = certain.hits(sizes, num_errors) + factor * sampled.hits(sizes, num_errors)
        moved = np.maximum(moved, np.abs(there - hits))
    moved[sizes == sizes[-1]] = 0.0
    return hits, np.hypot(factor * chosen, moved)


def _error_of_choice(
    sampled: Ramps, sizes: IntArray, left_out: float, num_nodes: int
) -> FloatArray:
    """Standard error from which nodes were sampled, given what all of them find in the end."""
    by_node = sampled.hits_by_node(int(sizes[-1]), num_nodes)
    error = np.zeros(len(sizes))
    for k, size in enumerate(sizes.tolist()):
        found = sampled.hits_by_node(size, num_nodes)
        share = float(found.sum()) / max(float(by_node.sum()), 1.0)
        error[k] = np.sqrt(left_out * np.square(found - share * by_node).sum())
    return error
