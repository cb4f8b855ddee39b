"""KV cache of one instance: the behaviour of vLLM's per-block pool at the cost of a few extents.

Hit counts, evictions and free counts equal those of a pool of single blocks with a least recently
used free queue and lazy eviction (checked against a per-block twin in the tests). Private blocks of
running requests are only counted; named blocks (prefix-tree nodes, and what a preempted request can
find again) are extents. Contents and physical addresses are not modelled here.

Source: vLLM v1 block pool (block_pool.py, kv_cache_manager.py), rules restated in docs/engine.md.
"""

from typing import NamedTuple

from mypy_extensions import mypyc_attr

from sim.errors import InvariantError
from sim.extents import ANONYMOUS, Extent, FreeQueue, private_owner
from sim.interfaces import EvictionPolicy
from sim.prefix_tree import BlockGeometry
from sim.request import Request


class Hit(NamedTuple):
    """Blocks `first .. end - 1` of the owner of `extent`, found in that extent."""

    extent: Extent
    first: int
    end: int


_new_tuple = tuple.__new__
"""Makes a named tuple without its Python-level constructor (this is the hot path)."""


@mypyc_attr(allow_interpreted_subclasses=True)
class KvCache:
    """Blocks of one instance.

    Args:
        num_gpu_blocks: blocks of the pool; one of them is the null block and never used.
        geometry: the prefix tree in blocks.
        prefix_caching: whether released blocks can be hit again.
        eviction: order of eviction; None means release order (LRU).
    """

    __slots__ = (
        "_append",
        "_copies",
        "_eviction",
        "_extends_extents",
        "_first_block",
        "_num_blocks",
        "_num_releases",
        "block_tokens",
        "num_usable_blocks",
        "prefix_caching",
        "queue",
    )

    def __init__(
        self,
        num_gpu_blocks: int,
        geometry: BlockGeometry,
        prefix_caching: bool = True,
        eviction: EvictionPolicy | None = None,
    ) -> None:
        self.block_tokens = geometry.block_tokens
        self.num_usable_blocks = num_gpu_blocks - 1
        self.prefix_caching = prefix_caching
        self._first_block = geometry.first_block
        self._num_blocks = geometry.num_blocks
        self._copies: dict[int, list[Extent]] = {}
        self._eviction = None if eviction is None or eviction.is_release_order else eviction
        self._num_releases = 0
        # An eviction policy sees extents, and a cache that follows each is told of it by a call.
        follows_extents = type(self)._make_extents is not KvCache._make_extents
        self._extends_extents = self._eviction is None and not follows_extents
        self.queue = FreeQueue()
        self.queue.append_anonymous(self.num_usable_blocks)
        self._append = self.queue.append if self._eviction is None else self._append_by_key

    @property
    def num_free(self) -> int:
        """Blocks that nobody holds."""
        return self.queue.num_blocks

    @property
    def evicts_in_release_order(self) -> bool:
        """Whether no policy orders the free blocks, so that it does not matter how blocks are
        gathered in extents."""
        return self._eviction is None

    def shared_blocks_of(self, kv_path: tuple[int, ...]) -> int:
        """Blocks along a path from its root to its end."""
        if not kv_path:
            return 0
        last = kv_path[-1]
        return self._first_block[last] + self._num_blocks[last]

    # -- lookup ----------------------------------------------------------------------------------

    def lookup(self, request: Request, max_blocks: int) -> tuple[list[Hit], int]:
        """Leading blocks of a request that are in the cache, at most `max_blocks`.

        Per position the copy hashed first is taken; the search stops at the first missing block.
        Changes nothing. A preempted request also finds its own private blocks.
        """
        hits: list[Hit] = []
        num_hit = 0
        for node in request.kv_path:
            wanted, left = self._num_blocks[node], max_blocks - self._first_block[node]
            if left < wanted:
                wanted = left
            if wanted <= 0:
                if self._num_blocks[node] == 0:
                    continue
                return hits, num_hit
            copies = self._copies.get(node)
            if copies is None:
                return hits, num_hit
            if len(copies) == 1 and not copies[0].first:
                extent = copies[0]
                found = extent.num_hashed
                if found > wanted:
                    found = wanted
                hits.append(_new_tuple(Hit, (extent, 0, found)))
            else:
                found = self._find(node, wanted, hits)
            num_hit += found
            if found < wanted:
                return hits, num_hit
        if request.num_preemptions and max_blocks > request.shared_blocks:
            wanted = max_blocks - request.shared_blocks
            num_hit += self._find(private_owner(request.request_id), wanted, hits)
        return hits, num_hit

    def _find(self, owner: int, wanted: int, hits: list[Hit]) -> int:
        """Collect hits on blocks 0 .. wanted - 1 of an owner; returns how many were found."""
        copies = self._copies.get(owner)
        position = 0
        if copies is None:
            return position
        while position < wanted:
            for extent in copies:
                if extent.first <= position < extent.first + extent.num_hashed:
                    break
            else:
                return position
            end = min(extent.first + extent.num_hashed, wanted)
            for earlier in copies:
                if earlier is extent:
                    break
                if position < earlier.first < end:
                    end = earlier.first
            hits.append(_new_tuple(Hit, (extent, position, end)))
            position = end
        return position

    def blocks_before_gap(self, hits: list[Hit], limit: int) -> int:
        """Free blocks evicted before one of `hits` that is not the last free one still there.

        Till then each evicted block costs at most one hit, the last one. Counting stops past
        `limit`.
        """
        queued = [hit for hit in hits if hit.extent.is_queued]
        end_of = {id(hit.extent): hit.end for hit in queued}
        ahead = 0
        for extent in self.queue:
            end = end_of.get(id(extent))
            if end is not None:
                if queued.pop().extent is not extent:
                    return ahead + extent.end - end
                others = [hit.end for hit in queued if hit.extent is extent]
                if others:
                    return ahead + extent.end - others[-1]
            ahead += extent.num_blocks
            if ahead > limit:
                break
        return ahead

    # -- taking and holding ----------------------------------------------------------------------

    def take(self, num_blocks: int) -> None:
        """Take blocks off the head of the free queue; their hashes are lost (lazy eviction)."""
        queue = self.queue
        extent = queue.head.next
        left = extent.end - extent.first - num_blocks
        if left > 0 and left >= extent.num_hashed:
            extent.end -= num_blocks
            queue.num_blocks -= num_blocks
        else:
            self._take_across(num_blocks)

    def _take_across(self, num_blocks: int) -> None:
        """`take` where it uses up extents or loses hashes."""
        queue = self.queue
        if num_blocks > queue.num_blocks:
            raise InvariantError(f"2: took {num_blocks} KV blocks of {queue.num_blocks} free")
        queue.num_blocks -= num_blocks
        while num_blocks > 0:
            extent = queue.head.next
            left = extent.end - extent.first - num_blocks
            if left > 0:
                extent.end -= num_blocks
                num_blocks = 0
            else:
                num_blocks = -left
                left = 0
                extent.end = extent.first
                queue.drop_empty(extent)
            if extent.num_hashed > left:
                self._drop_hashes(extent, left)

    def _drop_hashes(self, extent: Extent, num_hashed: int) -> None:
        """Only the first `num_hashed` blocks can be hit from now on."""
        extent.num_hashed = num_hashed
        if not num_hashed:
            self._forget(extent)

    def hold(self, request: Request, hits: list[Hit]) -> None:
        """Let a request hold the blocks of its hits."""
        rests: dict[int, Extent] = {}
        for found, first, end in hits:
            extent = found if first < found.end else rests[id(found)]
            if extent.first < first:
                extent = self._split(extent, first)
            if end < extent.end:
                rests[id(found)] = self._split(extent, end)
            if not extent.holders:
                self.queue.remove(extent)
            extent.holders.append(request)
            request.extents.append(extent)
        request.first_unhashed_extent = len(request.extents)

    def name_blocks(self, request: Request, end_block: int, num_hashed_blocks: int) -> None:
        """Name the shared blocks among a request's blocks up to `end_block`, and hash.

        The blocks have been taken before. Positions `request.num_blocks .. end_block - 1` that lie
        in shared nodes become extents; blocks before position `num_hashed_blocks` become hittable.
        """
        position = request.num_blocks
        if position < request.shared_blocks and position < end_block:
            self._make_extents(request, position, end_block)
        self._hash_extents(request, num_hashed_blocks)

    def _hash_extents(self, request: Request, num_hashed_blocks: int) -> None:
        index = request.first_unhashed_extent
        extents = request.extents
        while index < len(extents):
            extent = extents[index]
            owner = extent.owner
            base = self._first_block[owner] if owner >= 0 else request.shared_blocks
            size = extent.end - extent.first
            hashed = min(num_hashed_blocks - base - extent.first, size)
            if hashed > extent.num_hashed:
                self._hash(extent, hashed)
            if extent.num_hashed < extent.end - extent.first:
                break
            index += 1
        request.first_unhashed_extent = index

    def _make_extents(self, request: Request, position: int, end_block: int) -> None:
        for node in request.kv_path:
            first = self._first_block[node]
            end = first + self._num_blocks[node]
            if end <= position:
                continue
            if position >= end_block:
                return
            if end > end_block:
                end = end_block
            if position > first and self._extends_extents and request.extents:
                extent = request.extents[-1]
                is_whole = extent.owner == node and extent.end == position - first
                if is_whole and len(extent.holders) == 1:
                    extent.end = end - first
                    last = len(request.extents) - 1
                    if request.first_unhashed_extent > last:
                        request.first_unhashed_extent = last
                    position = end
                    continue
            extent = Extent(node, position - first, end - first)
            extent.holders.append(request)
            request.extents.append(extent)
            position = end

    def _hash(self, extent: Extent, num_hashed: int) -> None:
        """Make the first `num_hashed` blocks hittable; later ones count as hashed later."""
        copies = self._copies.setdefault(extent.owner, [])
        if not extent.num_hashed:
            copies.append(extent)
            extent.num_hashed = num_hashed
        elif copies[-1] is extent:
            extent.num_hashed = num_hashed
        else:
            late = self._split(extent, extent.first + extent.num_hashed)
            late.num_hashed = num_hashed - extent.num_hashed
            copies.append(late)

    def _split(self, extent: Extent, position: int) -> Extent:
        """Cut an extent before `position`; returns its second part."""
        second = Extent(
            extent.owner,
            position,
            extent.end,
            max(0, extent.first + extent.num_hashed - position),
        )
        extent.num_hashed = min(extent.num_hashed, position - extent.first)
        extent.end = position
        second.key = extent.key
        if extent.is_queued:
            self.queue.place_before(second, extent)
        if second.num_hashed:
            copies = self._copies[extent.owner]
            copies.insert(copies.index(extent) + 1, second)
        second.holders = list(extent.holders)
        for holder in second.holders:
            at = holder.extents.index(extent) + 1
            holder.extents.insert(at, second)
            if holder.first_unhashed_extent >= at:
                holder.first_unhashed_extent += 1
        return second

    # -- release ---------------------------------------------------------------------------------

    def release(self, request: Request, num_hashed_blocks: int, can_resume: bool) -> None:
        """Free all blocks of a request, last block first.

        Args:
            request: holds `request.num_blocks` blocks, named ones in `request.extents`.
            num_hashed_blocks: leading blocks whose content is known and complete.
            can_resume: true after a preemption, when it may find its private blocks again.
        """
        if request.output_node >= 0 and self.prefix_caching:
            self.name_output(request, num_hashed_blocks)
        extents = request.extents
        if not extents and not can_resume:
            self._release_anonymous(request.num_blocks)
            request.num_blocks = 0
            return
        named = extents[-1] if extents else None
        covered = 0
        if named is not None:
            base = self._first_block[named.owner] if named.owner >= 0 else request.shared_blocks
            covered = base + named.end
        private = request.num_blocks - covered
        if private:
            if can_resume and num_hashed_blocks > covered and self.prefix_caching:
                self._release_private(request, covered, num_hashed_blocks)
            else:
                self._release_anonymous(private)
        for extent in reversed(extents):
            self._release_extent(request, extent, can_resume)
        request.extents = []
        request.num_blocks = 0
        request.first_unhashed_extent = 0

    def name_output(self, request: Request, num_hashed_blocks: int) -> None:
        """Name and hash what a request has written of its output node so far."""
        named = request.extents[-1] if request.extents else None
        covered = self._first_block[named.owner] + named.end if named is not None else 0
        end = min(num_hashed_blocks, request.shared_blocks)
        if covered < end:
            self._make_extents(request, covered, end)
        self._hash_extents(request, num_hashed_blocks)

    def _release_private(self, request: Request, covered: int, num_hashed_blocks: int) -> None:
        owner = private_owner(request.request_id)
        first = covered - request.shared_blocks
        extent = Extent(owner, first, request.num_blocks - request.shared_blocks)
        extent.num_hashed = min(num_hashed_blocks - covered, extent.num_blocks)
        self._copies.setdefault(owner, []).append(extent)
        self._append(extent)

    def _release_extent(self, request: Request, extent: Extent, can_resume: bool) -> None:
        extent.holders.remove(request)
        if extent.holders:
            return
        if (extent.owner < 0 and not can_resume) or not extent.num_hashed:
            if extent.num_hashed:
                self._forget(extent)
            self._release_anonymous(extent.num_blocks)
        else:
            self._append(extent)

    def _release_anonymous(self, num_blocks: int) -> None:
        if self._eviction is None:
            self.queue.append_anonymous(num_blocks)
        else:
            self._append_by_key(Extent(ANONYMOUS, 0, num_blocks))

    def _append_by_key(self, extent: Extent) -> None:
        assert self._eviction is not None
        key = self._eviction.key(extent.owner, extent.first, extent.num_blocks, self._num_releases)
        extent.key = float(key)
        self._num_releases += 1
        self.queue.insert_by_key(extent)

    def _forget(self, extent: Extent) -> None:
        copies = self._copies[extent.owner]
        copies.remove(extent)
        if not copies:
            del self._copies[extent.owner]

    # -- integrity -------------------------------------------------------------------------------

    def check_integrity(self, num_held_blocks: int, held: list[Extent]) -> None:
        """Check block conservation: free + held = usable, and every list against the others.

        Args:
            num_held_blocks: blocks that running requests hold, shared ones counted once.
            held: the named extents they hold, each once.

        Raises:
            InvariantError: names the broken rule.
        """
        counted = sum(extent.num_blocks for extent in self.queue)
        if counted != self.num_free:
            raise InvariantError(
                f"2: free queue holds {counted} blocks, counter says {self.num_free}"
            )
        if self.num_free + num_held_blocks != self.num_usable_blocks:
            raise InvariantError(
                f"2: KV blocks: {self.num_free} free + {num_held_blocks} held != "
                f"{self.num_usable_blocks} usable"
            )
        known = {id(extent) for extent in self.queue} | {id(extent) for extent in held}
        for owner, copies in self._copies.items():
            for extent in copies:
                if id(extent) not in known or not extent.num_hashed:
                    raise InvariantError(f"2: hash map of {owner} holds a dead {extent}")
        for extent in held:
            if extent.is_queued or not extent.holders:
                raise InvariantError(f"2: {extent} is held and free at once")
