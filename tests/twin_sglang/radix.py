"""A radix tree of single tokens, each with the slot that holds its KV.

Source: SGLang, python/sglang/srt/mem_cache/radix_cache.py (behaviour only).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

Token = tuple[str, int, int]
"""("node", node, position) or ("private", request, position): equal where contents are equal."""


@dataclass(eq=False)
class Node:
    """A run of tokens below another one.

    Attributes:
        tokens: identities.
        slots: where their KV lies.
        time: when it was last met; all times are different.
    """

    parent: "Node | None"
    tokens: list[Token]
    slots: list[int]
    time: int
    children: list["Node"] = field(default_factory=list)
    num_locks: int = 0


class Radix:
    """The tree, and the slots that nobody uses."""

    def __init__(self, num_slots: int) -> None:
        self.free = list(range(num_slots))
        self.root = Node(None, [], [], 0)
        self.ticks = 0

    def tick(self) -> int:
        self.ticks += 1
        return self.ticks

    # -- finding and adding ----------------------------------------------------------------------

    def match(self, tokens: Sequence[Token]) -> tuple[list[int], Node]:
        """Slots of the longest cached prefix, and the node that ends exactly there."""
        access = self.tick()
        node, slots = self.root, list[int]()
        while len(slots) < len(tokens):
            child = next((c for c in node.children if c.tokens[0] == tokens[len(slots)]), None)
            if child is None:
                break
            child.time = access
            same = 0
            rest = tokens[len(slots) :]
            while same < min(len(child.tokens), len(rest)) and child.tokens[same] == rest[same]:
                same += 1
            if same < len(child.tokens):
                child = self._split(child, same)
            slots += child.slots
            node = child
        return slots, node

    def insert(self, tokens: Sequence[Token], slots: Sequence[int]) -> int:
        """Add tokens; returns how many of them were there already."""
        found, node = self.match(tokens)
        rest = len(found)
        if rest < len(tokens):
            new = Node(node, list(tokens[rest:]), list(slots[rest:]), self.tick())
            node.children.append(new)
        return rest

    def _split(self, node: Node, size: int) -> Node:
        assert node.parent is not None
        first = Node(node.parent, node.tokens[:size], node.slots[:size], self.tick(), [node])
        first.num_locks = node.num_locks
        node.parent.children.remove(node)
        node.parent.children.append(first)
        node.parent = first
        node.tokens, node.slots = node.tokens[size:], node.slots[size:]
        return first

    # -- locks and eviction ----------------------------------------------------------------------

    def lock(self, node: Node | None, change: int = 1) -> None:
        while node is not None:
            node.num_locks += change
            assert node.num_locks >= 0
            node = node.parent

    @property
    def num_evictable(self) -> int:
        return sum(len(node.slots) for node in self.nodes() if not node.num_locks)

    def make_free(self, count: int) -> None:
        """Evict `count` tokens or more, by whole leaves, if so many are not free."""
        if len(self.free) >= count:
            return
        num_evicted = 0
        while num_evicted < count:
            leaves = [n for n in self.nodes() if not n.children and not n.num_locks]
            if not leaves:
                return
            oldest = min(leaves, key=lambda node: node.time)
            assert oldest.parent is not None
            oldest.parent.children.remove(oldest)
            self.free += oldest.slots
            num_evicted += len(oldest.slots)

    def take(self, count: int) -> list[int]:
        self.make_free(count)
        assert len(self.free) >= count, "out of KV slots"
        taken, self.free = self.free[:count], self.free[count:]
        return taken

    def nodes(self) -> Iterator[Node]:
        """All nodes but the root."""
        stack = list(self.root.children)
        while stack:
            node = stack.pop()
            stack += node.children
            yield node
