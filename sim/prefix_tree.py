"""The sharing structure of all prompts of a workload, as one radix tree of token runs.

The whole trace is known when it is loaded, so sharing is compressed once: a node is a run of tokens
that is always used as a whole. Readers build the tree (`traces.prefix_compress`); here live its
arrays, its checks and its geometry in KV blocks. Token contents are not kept.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]

NO_NODE = -1


@dataclass(frozen=True, slots=True)
class PrefixTree:
    """Radix tree over token runs; node ids are row numbers, parents come before children.

    Attributes:
        parent: parent node of each node, `NO_NODE` for a root. Shape (n,).
        start_tokens: tokens before the node's first token, along its path. Shape (n,).
        num_tokens: tokens in the node, >= 1. Shape (n,).
    """

    parent: IntArray
    start_tokens: IntArray
    num_tokens: IntArray

    @staticmethod
    def empty() -> "PrefixTree":
        """Tree of a workload that shares nothing."""
        none = np.empty(0, dtype=np.int64)
        return PrefixTree(none, none, none)

    @staticmethod
    def from_parents(parent: IntArray, num_tokens: IntArray) -> "PrefixTree":
        """Tree from parents and lengths; start depths follow. Parents must precede children."""
        if len(num_tokens) and num_tokens.min() < 1:
            raise ValueError(f"node {int(np.argmin(num_tokens))}: must have at least one token")
        if len(parent) and parent.min() < NO_NODE:
            raise ValueError(f"node {int(np.argmin(parent))}: parent {parent.min()} is no node")
        start = np.zeros(len(parent), dtype=np.int64)
        for node, above in enumerate(parent.tolist()):
            if above >= node:
                raise ValueError(f"node {node}: parent {above} does not precede it")
            if above >= 0:
                start[node] = start[above] + num_tokens[above]
        return PrefixTree(parent.astype(np.int64), start, num_tokens.astype(np.int64))

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return len(self.parent)

    @property
    def end_tokens(self) -> IntArray:
        """Tokens up to and including each node's last token, along its path. Shape (n,)."""
        return self.start_tokens + self.num_tokens

    def path_to(self, node: int) -> tuple[int, ...]:
        """Nodes from the root down to `node`."""
        path: list[int] = []
        while node != NO_NODE:
            path.append(node)
            node = int(self.parent[node])
        return tuple(reversed(path))


@dataclass(frozen=True, slots=True)
class BlockGeometry:
    """A prefix tree cut into KV blocks; a block belongs to the node that holds its last token.

    Attributes:
        block_tokens: tokens per KV block.
        first_block: position along the path of each node's first block.
        num_blocks: blocks whose last token lies in the node (may be 0).
    """

    block_tokens: int
    first_block: list[int]
    num_blocks: list[int]

    @staticmethod
    def of(tree: PrefixTree, block_tokens: int) -> "BlockGeometry":
        """Geometry of `tree` for blocks of `block_tokens` tokens."""
        first = tree.start_tokens // block_tokens
        end = tree.end_tokens // block_tokens
        return BlockGeometry(block_tokens, first.tolist(), (end - first).tolist())
