"""Notes the prefix trees of decode runs in packed rows, to be read as arrays at the end."""

from array import array

import numpy as np

from hwmodels.attention.decode_steps import IntArray, NotedTrees
from sim.interfaces import RunningTree


class TreeLog:
    """Trees of an instance in the order in which they came up; a tree is noted once.

    Args:
        has_common: whether what all running requests share is wanted too.
    """

    __slots__ = ("_common", "_ends", "_entries", "_has_common", "_sums", "_tree", "_version")

    def __init__(self, has_common: bool) -> None:
        self._has_common = has_common
        self._sums = array("q", (0, 0, 0, 0))  # tree 0 shares nothing
        self._ends = array("q", (0, 0))
        self._entries = array("q")
        self._version = self._common = -1
        self._tree: RunningTree | None = None

    def note(self, tree: RunningTree) -> int:
        """Number of the tree as it is now."""
        if not tree.tokens_by_members:
            return 0
        version = tree.version
        common = tree.common_tokens if self._has_common else 0
        if version != self._version or common != self._common or tree is not self._tree:
            self._version, self._common, self._tree = version, common, tree
            self._sums.extend((tree.shared_tokens, tree.path_tokens, tree.num_pairs, common))
            self._entries.extend(tree.tokens_by_members)
            self._entries.extend(tree.tokens_by_members.values())
            self._ends.append(len(self._entries) // 2)
        return len(self._ends) - 2

    def trees(self) -> NotedTrees:
        """All of them."""
        sums = _copied(self._sums).reshape(-1, 4)
        first, entries = _copied(self._ends), _copied(self._entries)
        # Of every tree, first the members of its entries and then their tokens.
        size = np.repeat(np.diff(first), np.diff(first))
        at = np.arange(len(size)) + np.repeat(first[:-1], np.diff(first))
        return NotedTrees(
            once=sums[:, 0],
            path=sums[:, 1],
            num_pairs=sums[:, 2],
            common=sums[:, 3],
            first=first,
            members=entries[at],
            tokens=entries[at + size],
        )


def _copied(values: "array[int]") -> IntArray:
    return np.array(values, dtype=np.int64)
