"""A KV cache that says what can be hit in it, as that changes.

The behaviour is that of `sim.kv_cache.KvCache`. Kept only where a router matches prefixes.
"""

from mypy_extensions import mypyc_attr

from sim.extents import Extent
from sim.interfaces import EvictionPolicy
from sim.kv_cache import KvCache
from sim.prefix_index_feed import PrefixFeed
from sim.prefix_tree import BlockGeometry


@mypyc_attr(allow_interpreted_subclasses=True)
class IndexedKvCache(KvCache):
    """Blocks of one instance whose hittable ones a feed is told of.

    Args:
        num_gpu_blocks: as `KvCache`.
        geometry: as `KvCache`.
        prefix_caching: as `KvCache`.
        eviction: as `KvCache`.
        feed: told of every change.
        instance_id: whose cache this is.
    """

    __slots__ = ("_instance_id", "_leading", "_tell", "_tells_all")

    def __init__(
        self,
        num_gpu_blocks: int,
        geometry: BlockGeometry,
        prefix_caching: bool,
        eviction: EvictionPolicy | None,
        feed: PrefixFeed,
        instance_id: int,
    ) -> None:
        super().__init__(num_gpu_blocks, geometry, prefix_caching, eviction)
        self._tell = feed.note
        self._tells_all = feed.wants_every_change
        self._instance_id = instance_id
        self._leading = feed.leading_of(instance_id)

    def _hash(self, extent: Extent, num_hashed: int) -> None:
        """Make the first `num_hashed` blocks hittable; later ones count as hashed later."""
        KvCache._hash(self, extent, num_hashed)
        owner = extent.owner
        if owner >= 0:
            leading, end = self._leading.get(owner, 0), extent.first + num_hashed
            if extent.first <= leading < end:
                is_only = len(self._copies[owner]) == 1
                self._note(owner, leading, end if is_only else self._covered_from(owner, end))

    def _drop_hashes(self, extent: Extent, num_hashed: int) -> None:
        # This is `KvCache._drop_hashes`, spelled out because it runs for every evicted extent.
        extent.num_hashed = num_hashed
        if not num_hashed:
            self._forget(extent)
        owner = extent.owner
        if owner >= 0:
            leading, end = self._leading.get(owner, 0), extent.first + num_hashed
            if end < leading:
                copies = self._copies.get(owner)
                is_only = copies is None or (len(copies) == 1 and copies[0] is extent)
                self._note(owner, leading, end if is_only else self._covered_from(owner, end))

    def _covered_from(self, owner: int, position: int) -> int:
        """End of the hashed blocks that follow `position` without a gap."""
        copies = self._copies[owner]
        while True:
            for extent in copies:
                end = extent.first + extent.num_hashed
                if extent.first <= position < end:
                    position = end
                    break
            else:
                return position

    def _note(self, owner: int, before: int, leading: int) -> None:
        if leading:
            self._leading[owner] = leading
        else:
            del self._leading[owner]
        if self._tells_all or not before or not leading:
            self._tell(owner, self._instance_id, leading)
        else:
            size = self._num_blocks[owner]
            if before == size or leading == size:
                self._tell(owner, self._instance_id, leading)
