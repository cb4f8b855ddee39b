"""KV caches whose blocks have physical numbers, kept by a block pager.

The decisions are those of `sim.kv_cache.KvCache` and `sim.prefix_index_cache.IndexedKvCache`; the
pager follows each of their events. An extent whose content can be asked for again refers to its
blocks, and so does the table of every request that holds them. Blocks taken are reserved at once
and stand by until it is known which request they are for: with its prefill chunk, or in
`commit_frame`, when the step is planned.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from sim.block_pager import BlockPager, FrameEdits
from sim.errors import InvariantError
from sim.extents import Extent, private_owner
from sim.kv_cache import Hit, KvCache
from sim.prefix_index_cache import IndexedKvCache
from sim.request import DECODING, Request

if TYPE_CHECKING:
    _Cache = KvCache
else:
    _Cache = object


_WHOLE_CHECK_EVERY = 64
"""Every so many checks count all references; the others compare numbers of blocks."""


class _Paging(_Cache):
    """What both kinds of cache do beside their own.

    Attributes:
        pager: told of every change.
    """

    pager: BlockPager
    _frames: dict[Extent, list[int]]
    _pending: list[int]
    _num_checks: int

    def _begin_paging(self, pager: BlockPager) -> None:
        self.pager = pager
        self._frames = {}
        self._pending = []
        self._num_checks = 0
        self._extends_extents = self._eviction is None  # as in the cache without a pager

    # -- taking and holding ----------------------------------------------------------------------

    def take(self, num_blocks: int) -> None:
        """Take blocks off the head of the free queue, and reserve as many physical ones."""
        if num_blocks <= self.queue.num_blocks:
            self._evict(num_blocks)
        super().take(num_blocks)
        self._pending += self.pager.reserve(num_blocks)

    def _evict(self, num_blocks: int) -> None:
        """Give up the contents of the next blocks of the free queue, last block first."""
        extent = self.queue.head.next
        while num_blocks > 0:
            lost = min(num_blocks, extent.num_blocks)
            frame = self._frames.get(extent)
            if frame is not None:
                kept = len(frame) - lost
                self.pager.trim(reversed(frame[kept:]))
                del frame[kept:]
                if not frame:
                    del self._frames[extent]
            num_blocks -= lost
            extent = extent.next

    def hold(self, request: Request, hits: list[Hit]) -> None:
        """Let a request hold the blocks of its hits: its table refers to them too."""
        super().hold(request, hits)
        for extent in request.extents:
            blocks = self._frames[extent]
            self.pager.alias(blocks)
            self.pager.extend(request.request_id, blocks)

    def name_blocks(self, request: Request, end_block: int, num_hashed_blocks: int) -> None:
        """Name the shared blocks of a request; its new ones are those taken last."""
        missing = end_block - len(self.pager.tables.get(request.request_id, ()))
        if missing > 0:
            at = len(self._pending) - missing
            self.pager.extend(request.request_id, self._pending[at:])
            del self._pending[at:]
        super().name_blocks(request, end_block, num_hashed_blocks)

    def _make_extents(self, request: Request, position: int, end_block: int) -> None:
        before = len(request.extents)
        super()._make_extents(request, position, end_block)
        for extent in request.extents[max(0, before - 1) :]:  # the last one may have grown
            frame = self._frames.setdefault(extent, [])
            if len(frame) < extent.num_blocks:
                base = self._first_block[extent.owner] + extent.first
                frame += self._shared(request, base + len(frame), base + extent.num_blocks)

    def _shared(self, request: Request, first: int, end: int) -> list[int]:
        """Blocks `first .. end - 1` of a request's table, referred to once more for a content."""
        self._bring_table(request, end)
        blocks = self.pager.tables[request.request_id][first:end]
        self.pager.alias(blocks)
        return blocks

    def _bring_table(self, request: Request, num_blocks: int) -> None:
        """Let a table take over blocks that stand by, until it has `num_blocks`."""
        missing = num_blocks - len(self.pager.tables.get(request.request_id, ()))
        if missing > 0:
            if missing > len(self._pending):
                raise InvariantError(f"2: {request} lacks {missing} physical blocks")
            self.pager.extend(request.request_id, self._pending[:missing])
            del self._pending[:missing]

    def _split(self, extent: Extent, position: int) -> Extent:
        second = super()._split(extent, position)
        frame = self._frames.get(extent)
        if frame is not None:
            kept = position - extent.first
            self._frames[second] = frame[kept:]
            del frame[kept:]
        return second

    # -- release ---------------------------------------------------------------------------------

    def release(self, request: Request, num_hashed_blocks: int, can_resume: bool) -> None:
        """Free all blocks of a request; what can be hit again keeps its physical blocks."""
        held, num_blocks = len(self.pager.tables.get(request.request_id, ())), request.num_blocks
        if held != num_blocks:
            raise InvariantError(f"2: {request} holds {num_blocks} blocks, its table has {held}")
        super().release(request, num_hashed_blocks, can_resume)
        self.pager.close(request.request_id)

    def _release_private(self, request: Request, covered: int, num_hashed_blocks: int) -> None:
        super()._release_private(request, covered, num_hashed_blocks)
        extent = self._copies[private_owner(request.request_id)][-1]
        self._frames[extent] = self._shared(request, covered, request.num_blocks)

    def _release_extent(self, request: Request, extent: Extent, can_resume: bool) -> None:
        super()._release_extent(request, extent, can_resume)
        if not extent.holders and not extent.is_queued:
            self.pager.trim(reversed(self._frames.pop(extent)))

    # -- frames ----------------------------------------------------------------------------------

    def commit_frame(self, running: Iterable[Request], step: int) -> FrameEdits:
        """The step is planned: every block taken goes to its request, and the frame is committed.

        Args:
            running: running requests, in running order.
            step: steps of the instance before the planned one.

        Raises:
            InvariantError: blocks are left over, so that the pager and the cache differ.
        """
        size = self.block_tokens
        for request in running:
            num_blocks = request.num_blocks
            if request.phase == DECODING:
                held = request.computed_tokens + step - request.decode_start_step
                num_blocks = held // size + 1
            self._bring_table(request, num_blocks)
        if self._pending:
            raise InvariantError(f"2: {len(self._pending)} physical blocks are for nobody")
        return self.pager.commit()

    def check_integrity(self, num_held_blocks: int, held: list[Extent]) -> None:
        """Check block conservation of the cache and of the pager, and one against the other.

        Raises:
            InvariantError: names the broken rule.
        """
        super().check_integrity(num_held_blocks, held)
        if not self._num_checks % _WHOLE_CHECK_EVERY:
            self.pager.check_integrity(self._frames.values(), self._pending)
        self._num_checks += 1
        queued = sum(len(self._frames.get(extent, ())) for extent in self.queue)
        if self.pager.num_free != self.num_free - queued:
            raise InvariantError(
                f"2: {self.pager.num_free} physical blocks are free, the cache has "
                f"{self.num_free} free ones of which {queued} have a content"
            )
        for extent, frame in self._frames.items():
            if len(frame) != extent.num_blocks:
                raise InvariantError(f"2: {extent} has {len(frame)} physical blocks")


class PagedKvCache(_Paging, KvCache):
    """A KV cache with physical blocks.

    Args:
        pager: the physical blocks, as many as the cache can use.
        args: as `KvCache`.
    """

    def __init__(self, pager: BlockPager, *args: Any) -> None:
        super().__init__(*args)
        self._begin_paging(pager)


class PagedIndexedKvCache(_Paging, IndexedKvCache):
    """The same where a router matches prefixes.

    Args:
        pager: the physical blocks, as many as the cache can use.
        args: as `IndexedKvCache`.
    """

    def __init__(self, pager: BlockPager, *args: Any) -> None:
        super().__init__(*args)
        self._begin_paging(pager)
