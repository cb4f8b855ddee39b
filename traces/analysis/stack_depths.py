"""How deep in a stack of recently used blocks a request finds the nodes of its prompt.

A request puts its path on top of the stack, the root uppermost, then what it generates and what
only it uses. So above a node lie all blocks touched since the request that used it last, and those
ancestors that were not touched since either.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sim.workload import FloatArray, IntArray, Workload
from traces.analysis.dominance import sums_above
from traces.analysis.kv_blocks import KvBlocks, row_sums
from traces.analysis.node_uses import NodeUses


@dataclass(frozen=True, slots=True)
class Ramps:
    """Hits that begin with a cache of `above` blocks and are complete with `width` blocks more.

    Attributes:
        node: which node is found.
        above: blocks above it in the stack.
        width: blocks found.
        error: standard error of `above`, 0 where no node was left out.
    """

    node: IntArray
    above: FloatArray
    width: FloatArray
    error: FloatArray

    def hits(self, cache_blocks: IntArray, num_errors: float = 0.0) -> FloatArray:
        """Blocks found in caches of these sizes, all requests together. Shape like the sizes.

        Args:
            cache_blocks: the sizes.
            num_errors: take every node to lie so many standard errors deeper.
        """
        above = self.above + num_errors * self.error
        return _area(above, cache_blocks) - _area(above + self.width, cache_blocks)

    def chosen(self, which: npt.NDArray[np.bool_]) -> "Ramps":
        """Some of the ramps."""
        return Ramps(self.node[which], self.above[which], self.width[which], self.error[which])

    def hits_by_node(self, cache_blocks: int, num_nodes: int) -> FloatArray:
        """Blocks found of each node in a cache of that size. Shape (num_nodes,)."""
        found = np.clip(cache_blocks - self.above, 0, self.width)
        return row_sums(self.node, found, num_nodes)


def stack_depths(
    workload: Workload, uses: NodeUses, blocks: KvBlocks, keep_ratio: FloatArray
) -> Ramps:
    """Where each use of a node finds it.

    Args:
        workload: the trace.
        uses: all uses of its nodes.
        blocks: its blocks.
        keep_ratio: chance with which each node was sampled, 0 where it was not; one that was stands
            for 1 / chance of its kind in the distances. Shape (num_nodes,).
    """
    is_kept = keep_ratio[uses.node] > 0
    ratio = keep_ratio[uses.node[is_kept]]
    weight = blocks.node_blocks[uses.node[is_kept]] / ratio
    row, row_before = uses.row[is_kept], uses.row_before[is_kept]
    asks = uses.is_prompt[is_kept] & (row_before >= 0)
    is_new = _is_new(row[asks], row_before[asks])
    between = _Between(row, row_before, row[asks][is_new], row_before[asks][is_new])
    private = blocks.private_blocks.astype(np.float64)
    since = between.sums(weight, private)[np.cumsum(is_new) - 1]
    ancestors = _untouched_ancestors(uses, blocks)[is_kept][asks]
    width = _found_blocks(workload, uses, blocks)[is_kept][asks]
    error = np.zeros(len(since))
    if (ratio < 1).any():
        variance = between.sums(np.square(weight) * (1 - ratio), np.zeros_like(private))
        error = np.sqrt(np.maximum(variance, 0.0))[np.cumsum(is_new) - 1]
    return Ramps(
        node=uses.node[is_kept][asks],
        above=np.clip(since + ancestors, 0, blocks.num_distinct - width),
        width=width,
        error=error,
    )


@dataclass(frozen=True, slots=True)
class _Between:
    """Questions about what the rows between two uses touch.

    Attributes:
        row: request of every use.
        row_before: request that used its node last before, -1 where none did.
        ask_row: row of each question, in order.
        ask_before: the earlier row of each question.
    """

    row: IntArray
    row_before: IntArray
    ask_row: IntArray
    ask_before: IntArray

    def sums(self, weight: FloatArray, row_weight: FloatArray) -> FloatArray:
        """Weight of all that the rows in between touch, each node once.

        Args:
            weight: of the node of every use.
            row_weight: of what each row alone touches. Shape (n,).
        """
        touched = row_sums(self.row, weight, len(row_weight)) + row_weight
        before = np.append(0.0, np.cumsum(touched))
        # Less what these rows touch and touch again before the later one.
        is_again = self.row_before >= 0
        stop = np.searchsorted(self.row[is_again], self.ask_row)
        keys = self.row_before[is_again]
        again = sums_above(keys, weight[is_again], stop, self.ask_before)
        sums: FloatArray = before[self.ask_row] - before[self.ask_before + 1] - again
        return sums


def _is_new(row: IntArray, row_before: IntArray) -> npt.NDArray[np.bool_]:
    """Whether a use has another row or another row before than the use in front of it."""
    is_new = np.ones(len(row), dtype=np.bool_)
    is_new[1:] = (np.diff(row) != 0) | (np.diff(row_before) != 0)
    return is_new


def _untouched_ancestors(uses: NodeUses, blocks: KvBlocks) -> IntArray:
    """Blocks of the ancestors that were last used by the same row as the node. Like `uses`."""
    place = np.arange(len(uses.row))
    top = np.maximum.accumulate(np.where(_is_new(uses.row, uses.row_before), place, 0))
    ancestors: IntArray = blocks.first_block[uses.node] - blocks.first_block[uses.node[top]]
    return ancestors


def _found_blocks(workload: Workload, uses: NodeUses, blocks: KvBlocks) -> FloatArray:
    """Blocks that a use can find: those of its node, less one that holds the last prompt token."""
    width = blocks.node_blocks[uses.node].astype(np.float64)
    found = np.flatnonzero(uses.is_prompt & (uses.row_before >= 0))
    deepest = found[np.append(np.diff(uses.row[found]) != 0, True)] if len(found) else found
    end = workload.tree.end_tokens[uses.node[deepest]]
    last = (workload.prompt_tokens[uses.row[deepest]] - 1) // blocks.block_tokens
    width[deepest] -= end // blocks.block_tokens > last
    return width


def _area(start: FloatArray, cache_blocks: IntArray) -> FloatArray:
    """Sum over all starts of how far each size lies beyond it."""
    ordered = np.sort(start)
    total = np.append(0.0, np.cumsum(ordered))
    num_below = np.searchsorted(ordered, cache_blocks)
    area: FloatArray = num_below * cache_blocks - total[num_below]
    return area
