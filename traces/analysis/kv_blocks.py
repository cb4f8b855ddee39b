"""KV blocks that requests touch: those of shared nodes, and private ones."""

from dataclasses import dataclass

import numpy as np

from sim.workload import FloatArray, IntArray, Workload
from traces.analysis.node_uses import NodeUses


@dataclass(frozen=True, slots=True)
class KvBlocks:
    """A workload in blocks; a block belongs to the node that holds its last token.

    Attributes:
        block_tokens: tokens per block.
        first_block: blocks before each node along its path. Shape (num_nodes,).
        node_blocks: blocks of each node, may be 0. Shape (num_nodes,).
        private_blocks: blocks of each request that nobody else uses. Shape (n,).
    """

    block_tokens: int
    first_block: IntArray
    node_blocks: IntArray
    private_blocks: IntArray

    @staticmethod
    def of(workload: Workload, uses: NodeUses, block_tokens: int) -> "KvBlocks":
        """Blocks of prompts and outputs; the KV of the last generated token is never written."""
        tree = workload.tree
        first_block = tree.start_tokens // block_tokens
        node_blocks = tree.end_tokens // block_tokens - first_block
        tokens = workload.prompt_tokens + workload.output_tokens - 1
        shared = row_sums(uses.row, node_blocks[uses.node], workload.num_requests)
        private = np.maximum(-(-tokens // block_tokens) - shared.astype(np.int64), 0)
        return KvBlocks(block_tokens, first_block, node_blocks, private)

    @property
    def num_distinct(self) -> int:
        """All different blocks of the workload."""
        return int(self.node_blocks.sum() + self.private_blocks.sum())


def row_sums(row: IntArray, values: IntArray | FloatArray, num_rows: int) -> FloatArray:
    """Sum of the values of each row; exact for whole numbers. Shape (num_rows,)."""
    sums: FloatArray = np.bincount(row, values, num_rows).astype(np.float64)
    return sums
