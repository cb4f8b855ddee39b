"""Which requests of a pool make the next batch, and who may top up a running one."""

from collections.abc import Iterable
from typing import NamedTuple

from policies.batching.aligned.length_tree import ROOT, LengthTree, Node


class Batch(NamedTuple):
    """A batch that was chosen.

    Attributes:
        rows: its requests, at least one, in the order in which they were taken.
        node: the interval that requests which top it up must lie in.
        is_aligned: whether an interval had enough requests; False where age decided.
    """

    rows: tuple[int, ...]
    node: Node
    is_aligned: bool


class BatchForming:
    """Density-first search, and the rules where the paper is silent.

    Descend from the root to the densest child while one holds `k_min` requests; take the requests
    of that interval, densest part first, until the next one would exceed the limit of KV blocks.
    The first one is always taken.

    Args:
        tree: the pool.
        k_min: requests that an interval must hold.
        length_aware: False: the pool is one queue, oldest first (an ablation).
        fills: what follows when an interval is used up before the limit: ``node``, nothing;
            ``widen``, the rest of the interval that it is a quarter of, and so on to the root.
        max_wait_s: as soon as a request is older, the oldest ones are taken; None: never.

    Source: AlignedServe (arXiv 2605.23389), density-first search; its pseudo-code is not public.
    Ours: a search that finds no interval with `k_min` requests takes the oldest of all.
    """

    def __init__(
        self,
        tree: LengthTree,
        k_min: int,
        length_aware: bool = True,
        fills: str = "node",
        max_wait_s: float | None = None,
    ) -> None:
        self._tree = tree
        self._k_min = k_min
        self._length_aware = length_aware
        self._widens = fills == "widen"
        self._max_wait_s = max_wait_s

    def is_ready(self) -> bool:
        """Whether the pool holds a batch as it should be: an interval with `k_min` requests."""
        return len(self._tree) >= self._k_min

    def has_overdue(self, now_s: float) -> bool:
        """Whether a request of the pool has waited too long."""
        if self._max_wait_s is None:
            return False
        oldest = self._tree.oldest(ROOT)
        return oldest is not None and now_s - oldest[0] > self._max_wait_s

    def form(self, max_blocks: int, now_s: float) -> Batch:
        """Choose a batch; the pool is not empty and stays as it is.

        Args:
            max_blocks: KV blocks of the batch at most.
            now_s: present time, seconds.
        """
        tree = self._tree
        node = None
        if self._length_aware and not self.has_overdue(now_s):
            node = tree.densest(self._k_min)
        if node is None:
            return Batch(self._within(tree.by_age(), max_blocks), ROOT, is_aligned=False)
        if not self._widens:
            return Batch(self._within(tree.by_density(node), max_blocks), node, is_aligned=True)
        return Batch(self._within(self._from_inside(node), max_blocks), node, is_aligned=True)

    def next_top_up(self, node: Node) -> int | None:
        """Row of the oldest request that may join a batch of that interval; None: there is none."""
        oldest = self._tree.oldest(node)
        return None if oldest is None else oldest[1]

    def _within(self, rows: Iterable[int], max_blocks: int) -> tuple[int, ...]:
        taken: list[int] = []
        left = max_blocks
        for row in rows:
            left -= self._tree.blocks_of(row)
            if left < 0 and taken:
                break
            taken.append(row)
        return tuple(taken)

    def _from_inside(self, node: Node) -> Iterable[int]:
        """An interval, then the rest of the one around it, up to the root."""
        seen: set[int] = set()
        while True:
            for row in self._tree.by_density(node):
                if row not in seen:
                    seen.add(row)
                    yield row
            if node == ROOT:
                return
            node = node.parent
