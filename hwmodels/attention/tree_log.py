"""Notes the prefix trees of decode runs in packed rows, to be read as arrays at the end."""

from array import array

import numpy as np
from mypy_extensions import mypyc_attr

from hwmodels.attention.decode_steps import IntArray, NotedTrees
from sim.interfaces import RunningTree

_NUM_SUMS = 4


@mypyc_attr(allow_interpreted_subclasses=True)
class TreeLog:
    """Trees of an instance in the order in which they came up; a tree is noted once.

    Args:
        has_common: whether what all running requests share is wanted too.

    Attributes:
        number: what `note` answered last.
        version: of the tree that it answered for.
        tree: that tree. While its version stays and `has_common` is false, the answer does.
    """

    __slots__ = (
        "_common",
        "_ends",
        "_has_common",
        "_num_trees",
        "_rows",
        "number",
        "tree",
        "version",
    )

    def __init__(self, has_common: bool) -> None:
        self._has_common = has_common
        # Of every tree its sums, then the members of its entries and then their tokens.
        self._rows = array("q", (0, 0, 0, 0))  # tree 0 shares nothing
        self._ends = array("q", (0, _NUM_SUMS))
        self.version = self._common = -1
        self.number = self._num_trees = 0
        self.tree: RunningTree | None = None

    def note(self, tree: RunningTree) -> int:
        """Number of the tree as it is now."""
        entries = tree.tokens_by_members
        common = tree.common_tokens if entries and self._has_common else 0
        if tree.version != self.version or common != self._common or tree is not self.tree:
            self.version, self._common, self.tree = tree.version, common, tree
            self.number = 0
            if entries:
                sums = (tree.shared_tokens, tree.path_tokens, tree.num_pairs, common)
                rows = self._rows
                rows.extend((*sums, *entries, *entries.values()))
                self._ends.append(len(rows))
                self.number = self._num_trees = self._num_trees + 1
        return self.number

    def trees(self) -> NotedTrees:
        """All of them."""
        rows, ends = _copied(self._rows), _copied(self._ends)
        sums = ends[:-1, None] + np.arange(_NUM_SUMS)
        num_entries = (np.diff(ends) - _NUM_SUMS) // 2
        first = np.append(0, np.cumsum(num_entries))
        size = np.repeat(num_entries, num_entries)
        at = np.arange(len(size)) + np.repeat(sums[:, -1] + 1 - first[:-1], num_entries)
        once, path, num_pairs, common = rows[sums].T
        return NotedTrees(
            once=once,
            path=path,
            num_pairs=num_pairs,
            common=common,
            first=first,
            members=rows[at],
            tokens=rows[at + size],
        )


def _copied(values: "array[int]") -> IntArray:
    return np.array(values, dtype=np.int64)
