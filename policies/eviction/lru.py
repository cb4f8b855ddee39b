"""Least recently used."""

from sim.interfaces import EvictionPolicy


class LRU(EvictionPolicy):
    """key = release_index: blocks released earlier are evicted earlier.

    Within one release the engine has already put the tail of a request before its head. The engine
    appends without asking for keys; `key` states the same order for whoever compares policies.

    Source: vLLM v1 `kv_cache_utils.py`, FreeKVCacheBlockQueue.
    """

    is_release_order = True

    def key(self, owner: int, first_block: int, num_blocks: int, release_index: int) -> float:
        """Number of releases before this one."""
        return float(release_index)
