"""KV caches that tell what they lose, and the tier that takes it in.

Here finished private blocks are told apart from blocks that were never written: they carry hashes
too, so an engine writes them to the tiers, where they take room until they are evicted, though
nobody will ask for them. They behave as anonymous blocks otherwise.
"""

from collections.abc import Callable
from itertools import pairwise
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

from sim.errors import InvariantError
from sim.extents import ANONYMOUS, Extent, private_owner
from sim.interfaces import EvictionPolicy
from sim.kv_cache import KvCache
from sim.prefix_index_cache import IndexedKvCache
from sim.prefix_tree import BlockGeometry
from sim.request import Request

if TYPE_CHECKING:
    _Cache = KvCache
else:
    _Cache = object

SPENT = ANONYMOUS + 1
"""Owner of full blocks whose content nobody can ask for again."""

Tell = Callable[[float, int, int, int], None]
"""Told of (time in seconds, owner, first block, end block)."""


class Run(NamedTuple):
    """Blocks `first .. end - 1` of an owner."""

    owner: int
    first: int
    end: int


class _TellsEvictions(_Cache):
    """What all these caches do beside their own.

    Attributes:
        now_s: time of what is done to the cache, seconds; set by whoever does it.
        tell_evicted: told of blocks with content that are lost, last one first; None if nobody is.
    """

    now_s: float = 0.0
    tell_evicted: Tell | None = None

    def take(self, num_blocks: int) -> None:
        """Take blocks off the head of the free queue, and tell of the contents lost."""
        tell = self.tell_evicted
        if tell is not None and num_blocks <= self.queue.num_blocks:
            extent = self.queue.head.next
            left = num_blocks
            while left > 0:
                size = extent.end - extent.first
                lost = min(left, size)
                if extent.owner == SPENT:
                    tell(self.now_s, SPENT, 0, lost)
                else:
                    first = extent.end - lost
                    end = extent.first + extent.num_hashed
                    if end > first:
                        tell(self.now_s, extent.owner, first, end)
                left -= lost
                extent = extent.next
        super().take(num_blocks)

    def evicts_nothing(self, num_blocks: int) -> bool:
        """Whether the next blocks of the free queue, so many of them, have no content."""
        extent = self.queue.head.next
        while num_blocks > 0:
            size = extent.end - extent.first
            if extent.owner == SPENT or extent.num_hashed > max(size - num_blocks, 0):
                return False
            num_blocks -= size
            extent = extent.next
        return True

    def _append_spent(self, num_blocks: int) -> None:
        """Put finished private blocks at the tail."""
        if num_blocks <= 0:
            return
        spent = Extent(SPENT, 0, num_blocks)
        if self._eviction is not None:
            self._append_by_key(spent)
        else:
            self.queue.append(spent)


class _Tiered(_TellsEvictions):
    """The cache of a GPU with tiers behind it.

    Attributes:
        tell_computed: told of blocks that have been computed; None if nobody is.
    """

    tell_computed: Tell | None = None
    _num_partial: int = 0
    _num_told: dict[int, int]

    def _begin_tiering(self) -> None:
        self._num_told = {}

    def note_computed(self, request: Request, first_block: int, end_block: int) -> None:
        """Tell of full blocks that the planned step computes, those told of before left out."""
        if self.tell_computed is None:
            return
        position = self._num_told.get(request.request_id, first_block)
        self._num_told[request.request_id] = max(position, end_block)
        for run in self.runs_of(request, position, end_block):
            self.tell_computed(self.now_s, *run)

    def runs_of(self, request: Request, first_block: int, end_block: int) -> list[Run]:
        """Blocks `first_block .. end_block - 1` of a request, by owner."""
        runs: list[Run] = []
        for node in request.kv_path:
            base, size = self._first_block[node], self._num_blocks[node]
            low, high = max(first_block - base, 0), min(end_block - base, size)
            if high > low:
                runs.append(Run(node, low, high))
        base = request.shared_blocks
        low, high = max(first_block - base, 0), end_block - base
        if high > low:
            runs.append(Run(private_owner(request.request_id), low, high))
        return runs

    def release(self, request: Request, num_hashed_blocks: int, can_resume: bool) -> None:
        """Free all blocks of a request, and tell of those that its decoding has filled."""
        self._num_partial = max(0, request.num_blocks - num_hashed_blocks)
        told = self._num_told.pop(request.request_id, None)
        if told is not None and self.tell_computed is not None:
            for run in self.runs_of(request, told, num_hashed_blocks):
                self.tell_computed(self.now_s, *run)
        super().release(request, num_hashed_blocks, can_resume)

    def _release_anonymous(self, num_blocks: int) -> None:
        """The last blocks of a request come first: those that are not full."""
        partial = min(num_blocks, self._num_partial)
        self._num_partial -= partial
        if partial:
            super()._release_anonymous(partial)
        self._append_spent(num_blocks - partial)


class TieredKvCache(_Tiered, KvCache):
    """KV blocks of a GPU with tiers behind them.

    Args:
        args: as `KvCache`.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._begin_tiering()


class TieredIndexedKvCache(_Tiered, IndexedKvCache):
    """The same where a router matches prefixes, which sees the blocks of the GPU only.

    Args:
        args: as `IndexedKvCache`.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._begin_tiering()


class KvTier(_TellsEvictions, KvCache):
    """KV blocks in slower memory: nobody holds them, and of each content there is one copy.

    Args:
        num_blocks: its capacity, blocks.
        geometry: the prefix tree in blocks.
        eviction: order of eviction; None means least recently used.

    Attributes:
        num_stored: blocks that were put in and were not there.
        num_evicted: blocks that were lost.
    """

    def __init__(
        self, num_blocks: int, geometry: BlockGeometry, eviction: EvictionPolicy | None = None
    ) -> None:
        super().__init__(num_blocks + 1, geometry, True, eviction)
        self._num_empty = num_blocks
        self.queue.head.next.key = -inf  # empty blocks are taken before any content
        self._latest = Extent(ANONYMOUS, 0, 0)
        self.num_stored = 0
        self.num_evicted = 0

    @property
    def num_resident(self) -> int:
        """Blocks with content."""
        return self.num_usable_blocks - self._num_empty

    def runs_from(self, request: Request, first_block: int, end_block: int) -> list[Run]:
        """Blocks of a request that are here without a gap, from `first_block` on."""
        runs: list[Run] = []
        position = first_block
        for node in request.kv_path:
            base = self._first_block[node]
            high = min(base + self._num_blocks[node], end_block)
            if high <= position:
                continue
            found = base + self._covered(node, position - base, high - base)
            if found > position:
                runs.append(Run(node, position - base, found - base))
                position = found
            if found < high:
                return runs
        if request.num_preemptions and end_block > position >= request.shared_blocks:
            owner, base = private_owner(request.request_id), request.shared_blocks
            found = base + self._covered(owner, position - base, end_block - base)
            if found > position:
                runs.append(Run(owner, position - base, found - base))
        return runs

    def has_of(self, owner: int) -> bool:
        """Whether there is a block of an owner that can be asked for."""
        return owner in self._copies

    def missing_runs(self, owner: int, first: int, end: int) -> list[Run]:
        """Parts of a run that are not here, last one first."""
        missing: list[Run] = []
        while end > first:
            extent = self._holding(owner, end - 1)
            if extent is not None:
                end = extent.first
                continue
            low = self._end_below(owner, first, end)
            missing.append(Run(owner, low, end))
            end = low
        return missing

    def refresh(self, owner: int, first: int, end: int) -> None:
        """What of a run is here becomes the most recently used, its first block last."""
        while end > first and owner in self._copies:
            extent = self._holding(owner, end - 1)
            if extent is None:
                end = self._end_below(owner, first, end)
            else:
                low = max(first, extent.first)
                self._move_to_tail(extent, low, end)
                end = low

    def put(self, owner: int, first: int, end: int) -> None:
        """Store a run, last block first; what is here already becomes the most recently used."""
        while end > first:
            is_new = owner not in self._copies
            extent = None if is_new else self._holding(owner, end - 1)
            if extent is not None:
                low = max(first, extent.first)
                self._move_to_tail(extent, low, end)
            else:
                low = first if is_new else self._end_below(owner, first, end)
                low = max(low, end - self.num_usable_blocks)
                self._store(owner, low, end)
            end = low

    def _store(self, owner: int, first: int, end: int) -> None:
        size = end - first
        evicted = max(0, size - self._num_empty)
        self._num_empty -= size - evicted
        self.num_stored += size
        self.num_evicted += evicted
        self.take(size)
        if owner == SPENT:
            self._append_spent(size)
        else:
            self._append_run(owner, first, end)

    def _append_run(self, owner: int, first: int, end: int) -> None:
        """Put blocks at the tail; they merge with blocks that follow them and came before."""
        latest = self._latest
        is_next = latest.is_queued and latest.owner == owner and latest.first == end
        if is_next and self._eviction is None:  # then the latest one is the last one
            latest.first = first
            latest.num_hashed += end - first
            self.queue.num_blocks += end - first
            return
        extent = Extent(owner, first, end, end - first)
        self._copies.setdefault(owner, []).append(extent)
        self._append(extent)
        self._latest = extent

    def _append_spent(self, num_blocks: int) -> None:
        latest = self._latest
        if latest.is_queued and latest.owner == SPENT and self._eviction is None:
            latest.end += num_blocks
            self.queue.num_blocks += num_blocks
            return
        self._latest = spent = Extent(SPENT, 0, num_blocks)
        self._append(spent)

    def _move_to_tail(self, extent: Extent, first: int, end: int) -> None:
        if end < extent.end:
            self._split(extent, end)
        if first > extent.first:
            extent = self._split(extent, first)
        self.queue.remove(extent)
        self._forget(extent)
        self._append_run(extent.owner, first, end)

    def _holding(self, owner: int, position: int) -> Extent | None:
        for extent in self._copies.get(owner, ()):
            if extent.first <= position < extent.end:
                return extent
        return None

    def _covered(self, owner: int, position: int, end: int) -> int:
        """End of the blocks that follow `position` without a gap, at most `end`."""
        while position < end:
            extent = self._holding(owner, position)
            if extent is None:
                return position
            position = extent.end
        return end

    def _end_below(self, owner: int, first: int, position: int) -> int:
        """End of the nearest blocks before `position`, at least `first`."""
        for extent in self._copies.get(owner, ()):
            if first < extent.end <= position:
                first = extent.end
        return first

    def check(self) -> None:
        """Check the conservation of blocks.

        Raises:
            InvariantError: names what is broken.
        """
        self.check_integrity(0, [])
        if self.num_stored - self.num_evicted != self.num_resident:
            raise InvariantError(
                f"2: a tier took {self.num_stored} KV blocks, lost {self.num_evicted} and has "
                f"{self.num_resident}"
            )
        full = sum(e.num_blocks for e in self.queue if e.num_hashed or e.owner == SPENT)
        if full != self.num_resident:
            raise InvariantError(f"2: a tier has {full} KV blocks, counter {self.num_resident}")
        for owner, copies in self._copies.items():
            ends = sorted((e.first, e.end) for e in copies)
            if any(before[1] > after[0] for before, after in pairwise(ends)):
                raise InvariantError(f"2: a tier has two copies of a block of {owner}")
