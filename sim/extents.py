"""Extents: runs of KV blocks, and the free queue they wait in.

vLLM keeps one doubly linked list of single free blocks. Here an element is an extent, a run of
consecutive blocks of one owner, which stands for its blocks in the order in which vLLM would have
freed them: last block nearest to the head of the queue.
"""

from collections.abc import Iterator

from mypy_extensions import mypyc_attr

from sim.request import Request

ANONYMOUS = -(1 << 62)
"""Owner of blocks whose content nobody can ask for again."""


def private_owner(request_id: int) -> int:
    """Owner id of the private blocks of a request (node ids are >= 0)."""
    return -1 - request_id


@mypyc_attr(allow_interpreted_subclasses=True)
class Extent:
    """Blocks `first .. end - 1` of an owner, of which the first `num_hashed` can be hit.

    Attributes:
        owner: prefix-tree node, `private_owner(...)` or `ANONYMOUS`.
        first: position of the first block within the owner.
        end: position after the last block.
        num_hashed: leading blocks that carry a hash.
        holders: running requests that hold the blocks; empty while in the free queue.
        key: eviction key, used when the policy is not release order.
        is_queued: whether the extent is in the free queue.
        previous, next: neighbours in the free queue, the extent itself outside.
    """

    __slots__ = (
        "end",
        "first",
        "holders",
        "is_queued",
        "key",
        "next",
        "num_hashed",
        "owner",
        "previous",
    )

    def __init__(self, owner: int, first: int, end: int, num_hashed: int = 0) -> None:
        self.owner = owner
        self.first = first
        self.end = end
        self.num_hashed = num_hashed
        self.holders: list[Request] = []
        self.key = 0.0
        self.is_queued = False
        self.previous: Extent = self
        self.next: Extent = self

    @property
    def num_blocks(self) -> int:
        """Blocks in the extent."""
        return self.end - self.first

    def __repr__(self) -> str:
        state = "free" if self.is_queued else f"held by {len(self.holders)}"
        return f"Extent({self.owner}, {self.first}:{self.end}, {self.num_hashed} hashed, {state})"


@mypyc_attr(allow_interpreted_subclasses=True)
class FreeQueue:
    """Doubly linked list of free extents; the one after `head` is evicted first.

    Attributes:
        head: sentinel before the first extent.
        num_blocks: blocks in the queue.
    """

    __slots__ = ("_tail", "head", "num_blocks")

    def __init__(self) -> None:
        self.head = Extent(ANONYMOUS, 0, 0)
        self._tail = Extent(ANONYMOUS, 0, 0)
        self.head.next = self._tail
        self._tail.previous = self.head
        self.num_blocks = 0

    def __iter__(self) -> Iterator[Extent]:
        extent = self.head.next
        while extent is not self._tail:
            yield extent
            extent = extent.next

    def append(self, extent: Extent) -> None:
        """Put an extent at the tail."""
        self._link_before(extent, self._tail)
        self.num_blocks += extent.end - extent.first

    def insert_by_key(self, extent: Extent) -> None:
        """Put an extent behind the last one whose key is not larger."""
        behind = self._tail.previous
        while behind is not self.head:
            if behind.key <= extent.key:
                break
            behind = behind.previous
        self._link_before(extent, behind.next)
        self.num_blocks += extent.end - extent.first

    def append_anonymous(self, num_blocks: int) -> None:
        """Put blocks without content at the tail; they merge with anonymous neighbours."""
        if num_blocks <= 0:
            return
        last = self._tail.previous
        if last.owner == ANONYMOUS and last is not self.head:
            last.end += num_blocks
            self.num_blocks += num_blocks
        else:
            self.append(Extent(ANONYMOUS, 0, num_blocks))

    def remove(self, extent: Extent) -> None:
        """Take an extent out because somebody holds it again."""
        self._unlink(extent)
        self.num_blocks -= extent.end - extent.first

    def drop_empty(self, extent: Extent) -> None:
        """Take out an extent of which no block is left."""
        self._unlink(extent)

    def place_before(self, extent: Extent, anchor: Extent) -> None:
        """Put the split-off tail of a queued extent in front of it; the block count stays."""
        self._link_before(extent, anchor)

    def _link_before(self, extent: Extent, anchor: Extent) -> None:
        previous = anchor.previous
        previous.next = extent
        extent.previous = previous
        extent.next = anchor
        anchor.previous = extent
        extent.is_queued = True

    def _unlink(self, extent: Extent) -> None:
        previous, following = extent.previous, extent.next
        previous.next = following
        following.previous = previous
        extent.previous = extent.next = extent
        extent.is_queued = False
