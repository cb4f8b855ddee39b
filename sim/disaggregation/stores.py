"""Memory for KV that is no cache of an instance: the pool of the host, the prefill buffers."""

from collections.abc import Iterable

from sim.disaggregation.moving import HOST_POOL, PREFILL_BUFFER, Stage
from sim.disaggregation.spec import Disaggregation
from sim.errors import InvariantError


class _Store:
    """Bytes in use of so many."""

    __slots__ = ("capacity_bytes", "peak_bytes", "used_bytes")

    def __init__(self, capacity_bytes: int) -> None:
        self.capacity_bytes = capacity_bytes
        self.used_bytes = self.peak_bytes = 0


class Stores:
    """The host pool, and a buffer per prefill instance.

    Args:
        spec: their sizes.
        prefill_ids: instances with a buffer.
    """

    def __init__(self, spec: Disaggregation, prefill_ids: Iterable[int]) -> None:
        self._stores = {Stage(HOST_POOL, 0): _Store(spec.host_pool_bytes)}
        for instance_id in prefill_ids:
            self._stores[Stage(PREFILL_BUFFER, instance_id)] = _Store(spec.prefill_buffer_bytes)

    def capacity_bytes(self, stage: Stage) -> int:
        """Size of a store."""
        return self._stores[stage].capacity_bytes

    def free_bytes(self, stage: Stage) -> int:
        """Room that is left in a store."""
        store = self._stores[stage]
        return store.capacity_bytes - store.used_bytes

    def reserve(self, stage: Stage, num_bytes: int) -> bool:
        """Take room, if there is enough."""
        store = self._stores[stage]
        if num_bytes > store.capacity_bytes - store.used_bytes:
            return False
        store.used_bytes += num_bytes
        store.peak_bytes = max(store.peak_bytes, store.used_bytes)
        return True

    def release(self, stage: Stage, num_bytes: int) -> None:
        """Give room back."""
        store = self._stores[stage]
        store.used_bytes -= num_bytes
        if store.used_bytes < 0:
            raise InvariantError(f"14: more KV left {stage} than came")

    def peak_bytes(self, kind: int) -> int:
        """Most KV that a store of a kind held at once."""
        return max((s.peak_bytes for at, s in self._stores.items() if at.kind == kind), default=0)

    @property
    def used_bytes(self) -> int:
        """KV in all stores now."""
        return sum(store.used_bytes for store in self._stores.values())
