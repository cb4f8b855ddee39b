"""A quad-tree over KV lengths: how many requests of a pool lie in which interval.

"Length" is that of a request's KV, prompt and generated tokens; requests share nothing here.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import NamedTuple

FANOUT = 4
MAX_TOKENS = 65_536
"""Children of a node, and the longest KV. Source: AlignedServe, quad-tree over 1 to 65,536."""


class Node(NamedTuple):
    """An interval of lengths.

    Attributes:
        depth: 0 for the root; every level splits its intervals in four.
        place: of the interval among those of its level, in order of lengths.
    """

    depth: int
    place: int

    @property
    def parent(self) -> "Node":
        """The interval that it is a quarter of; only below the root."""
        return Node(self.depth - 1, self.place // FANOUT)

    @property
    def children(self) -> "tuple[Node, ...]":
        """Its quarters, in order of lengths."""
        first = FANOUT * self.place
        return tuple(Node(self.depth + 1, first + k) for k in range(FANOUT))


ROOT = Node(0, 0)


@dataclass(slots=True)
class _Member:
    """A request of the pool; `leaf` is the index of its smallest interval."""

    leaf: int
    num_blocks: int
    since_s: float


class LengthTree:
    """Requests by length; every change takes O(depth + log n).

    Lengths above the range count to the last interval.

    Args:
        leaf_tokens: width of the smallest intervals, a power of 4 from 1 to 65,536.

    Attributes:
        depth: level of the smallest intervals.
    """

    def __init__(self, leaf_tokens: int = 1) -> None:
        self.depth = 0
        width = MAX_TOKENS
        while width > leaf_tokens:
            width //= FANOUT
            self.depth += 1
        self._leaf_tokens = width
        self._counts: list[dict[int, int]] = [{} for _ in range(self.depth + 1)]
        self._blocks: list[dict[int, int]] = [{} for _ in range(self.depth + 1)]
        # By age per node; an entry whose request is gone or elsewhere is dropped when it is met.
        self._ages: list[dict[int, list[tuple[float, int]]]] = [{} for _ in range(self.depth + 1)]
        self._members: dict[int, _Member] = {}
        self._in_leaf: dict[int, dict[int, None]] = {}

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, row: int) -> bool:
        return row in self._members

    # -- changes ---------------------------------------------------------------------------------

    def insert(self, row: int, num_tokens: int, num_blocks: int, since_s: float) -> None:
        """Add a request.

        Args:
            row: which; not in the tree yet.
            num_tokens: length of its KV, at least 1.
            num_blocks: KV blocks of it.
            since_s: its age, the smaller the older, seconds.
        """
        leaf = min(num_tokens - 1, MAX_TOKENS - 1) // self._leaf_tokens
        self._members[row] = _Member(leaf, num_blocks, since_s)
        self._in_leaf.setdefault(leaf, {})[row] = None
        for depth, index in self._path(leaf):
            self._add(depth, index, 1, num_blocks)
            heappush(self._ages[depth].setdefault(index, []), (since_s, row))

    def remove(self, row: int) -> None:
        """Take a request out, which is in the tree."""
        member = self._members.pop(row)
        of_leaf = self._in_leaf[member.leaf]
        del of_leaf[row]
        if not of_leaf:
            del self._in_leaf[member.leaf]
        for depth, index in self._path(member.leaf):
            self._add(depth, index, -1, -member.num_blocks)

    def move(self, row: int, num_tokens: int, num_blocks: int) -> None:
        """A request in the tree has another length now; it keeps its age."""
        since_s = self._members[row].since_s
        self.remove(row)
        self.insert(row, num_tokens, num_blocks, since_s)

    # -- what is there ---------------------------------------------------------------------------

    def num_requests(self, node: Node) -> int:
        """Requests of an interval."""
        return self._counts[node.depth].get(node.place, 0)

    def num_blocks(self, node: Node) -> int:
        """KV blocks of its requests."""
        return self._blocks[node.depth].get(node.place, 0)

    def blocks_of(self, row: int) -> int:
        """KV blocks of a request."""
        return self._members[row].num_blocks

    def bounds(self, node: Node) -> tuple[int, int]:
        """Shortest and longest length of an interval, tokens."""
        width = MAX_TOKENS // FANOUT**node.depth
        return node.place * width + 1, (node.place + 1) * width

    def covers(self, node: Node, num_tokens: int) -> bool:
        """Whether a length lies in an interval."""
        leaf = min(num_tokens - 1, MAX_TOKENS - 1) // self._leaf_tokens
        index: int = leaf // FANOUT ** (self.depth - node.depth)
        return index == node.place

    def densest(self, least: int) -> Node | None:
        """Descend from the root to the densest child with `least` requests, while there is one.

        Siblings are equally wide, so the densest one has the most requests; of equal ones the one
        with the shorter lengths. None if not even the root has so many.
        """
        if len(self) < least:
            return None
        node = ROOT
        while node.depth < self.depth:
            best = max(node.children, key=lambda child: (self.num_requests(child), -child.place))
            if self.num_requests(best) < least:
                break
            node = best
        return node

    def oldest(self, node: Node) -> tuple[float, int] | None:
        """Age in seconds and row of the oldest request of an interval, None if it has none."""
        heap = self._ages[node.depth].get(node.place)
        while heap:
            since_s, row = heap[0]
            member = self._members.get(row)
            if member is not None and self._is_in(member, node) and member.since_s == since_s:
                return heap[0]
            heappop(heap)
        return None

    def by_density(self, node: Node) -> Iterator[int]:
        """Rows of an interval: those of its densest part first, down to the smallest intervals.

        Within a smallest interval the oldest comes first. The tree must not change meanwhile.
        """
        if node.depth == self.depth:
            of_leaf = self._in_leaf.get(node.place, {})
            yield from sorted(of_leaf, key=lambda row: (self._members[row].since_s, row))
            return
        counts = self._counts[node.depth + 1]
        filled = [child for child in node.children if counts.get(child.place)]
        for child in sorted(filled, key=lambda child: (-counts[child.place], child.place)):
            yield from self.by_density(child)

    def by_age(self) -> Iterator[int]:
        """All rows, the oldest first. The tree must not change meanwhile."""
        members = self._members
        yield from sorted(members, key=lambda row: (members[row].since_s, row))

    # -- parts -----------------------------------------------------------------------------------

    def _path(self, leaf: int) -> Iterator[tuple[int, int]]:
        index = leaf
        for depth in range(self.depth, -1, -1):
            yield depth, index
            index //= FANOUT

    def _add(self, depth: int, index: int, requests: int, blocks: int) -> None:
        counts, sums = self._counts[depth], self._blocks[depth]
        counts[index] = counts.get(index, 0) + requests
        sums[index] = sums.get(index, 0) + blocks
        if not counts[index]:
            del counts[index], sums[index]
            self._ages[depth].pop(index, None)

    def _is_in(self, member: _Member, node: Node) -> bool:
        index: int = member.leaf // FANOUT ** (self.depth - node.depth)
        return index == node.place
