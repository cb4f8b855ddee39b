"""Which requests wait for which: the chains and trees of a closed loop, in columns."""

import numpy as np

from sim.workload import IntArray

_ROW = np.int32


class Followers:
    """Rows by the row whose end they wait for.

    Args:
        after: row that each row waits for, an earlier one; -1 where none. Shape (n,).
    """

    __slots__ = ("_rows", "_starts")

    def __init__(self, after: IntArray) -> None:
        rows = np.flatnonzero(after >= 0)
        awaited = after[rows]
        counts = np.bincount(awaited, minlength=len(after))
        order = np.argsort(awaited, kind="stable")
        # `data` gives single entries as Python numbers, faster than the array does.
        self._rows = rows[order].astype(_ROW).data
        self._starts = np.append(0, np.cumsum(counts)).astype(_ROW).data

    def of(self, row: int) -> list[int]:
        """Rows that wait for the end of `row`, in order."""
        rows: list[int] = self._rows[self._starts[row] : self._starts[row + 1]].tolist()
        return rows


class Trees:
    """How much of what each root led to is still to end.

    Args:
        after: as for `Followers`. A root waits for nobody; its tree is itself and all rows that
            wait for a row of the tree.
    """

    __slots__ = ("_num_open", "_root")

    def __init__(self, after: IntArray) -> None:
        roots = roots_of(after)
        self._root = roots.astype(_ROW).data
        self._num_open = np.bincount(roots, minlength=len(after)).astype(_ROW).data

    def end(self, row: int) -> bool:
        """Note that a row has ended; whether it was the last one of its tree."""
        root = self._root[row]
        self._num_open[root] -= 1
        return bool(self._num_open[root] == 0)


def roots_of(after: IntArray) -> IntArray:
    """Root of the tree of each row. Shape (n,)."""
    above = np.where(after < 0, np.arange(len(after)), after)
    while True:
        higher = above[above]
        if np.array_equal(higher, above):
            return above
        above = higher
