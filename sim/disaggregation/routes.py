"""The links between the stages of KV, as ports that transfers share.

Each instance has four ports, one per direction: what its GPUs send to those of other instances and
get from them, and what they send to the memory of the host and get from it. A transfer between two
instances holds the sending port of one and the receiving port of the other. A prefill buffer lies
in the memory of its instance's GPUs: from the cache beside it nothing has to be moved over a link,
so no way leads there.
"""

from collections.abc import Sequence

from sim.disaggregation.moving import (
    DECODE_GPU,
    HOST_POOL,
    PREFILL_BUFFER,
    PREFILL_GPU,
    Stage,
)
from sim.disaggregation.spec import Disaggregation
from sim.transfer_network import Port

Way = tuple[tuple[Port, ...], float]
"""(ports, latency in seconds)."""


class Routes:
    """Ports of all instances.

    Args:
        spec: rates and latencies.
        prefill_ids: instances that prefill only.
        decode_ids: instances that take KV.

    Attributes:
        sending: per instance, to other instances.
        receiving: per instance, from other instances.
        to_host: per instance; empty without a host link.
        from_host: per instance; empty without a host link.
    """

    def __init__(
        self, spec: Disaggregation, prefill_ids: Sequence[int], decode_ids: Sequence[int]
    ) -> None:
        peer, host = spec.peer_link, spec.host_link
        num_instances = len(prefill_ids) + len(decode_ids)
        self._ways: dict[tuple[Stage, Stage], Way | None] = {}
        self._stages = {Stage(HOST_POOL, 0)}
        for kind, ids in (
            (PREFILL_GPU, prefill_ids),
            (PREFILL_BUFFER, prefill_ids),
            (DECODE_GPU, decode_ids),
        ):
            self._stages |= {Stage(kind, instance_id) for instance_id in ids}
        self.sending = [Port(peer.bytes_per_s) for _ in range(num_instances)]
        self.receiving = [Port(peer.bytes_per_s) for _ in range(num_instances)]
        self.to_host: list[Port] = []
        self.from_host: list[Port] = []
        self._peer_latency_s = peer.latency_s
        self._host_latency_s = 0.0
        if host is not None:
            self._host_latency_s = host.latency_s
            self.to_host = [Port(host.bytes_per_s) for _ in range(num_instances)]
            self.from_host = [Port(host.bytes_per_s) for _ in range(num_instances)]

    def between(self, start: Stage, end: Stage) -> Way | None:
        """The way from one stage to another, None if there is none."""
        try:
            return self._ways[start, end]
        except KeyError:
            way = self._ways[start, end] = self._find(start, end)
            return way

    def _find(self, start: Stage, end: Stage) -> Way | None:
        if end not in self._stages:
            return None
        on_gpu = (PREFILL_GPU, PREFILL_BUFFER, DECODE_GPU)
        if start.kind in on_gpu and end.kind in (PREFILL_BUFFER, DECODE_GPU):
            if start.owner == end.owner:
                return None
            return (self.sending[start.owner], self.receiving[end.owner]), self._peer_latency_s
        if not self.to_host:
            return None
        if start.kind in on_gpu and end.kind == HOST_POOL:
            return (self.to_host[start.owner],), self._host_latency_s
        if start.kind == HOST_POOL and end.kind in (PREFILL_BUFFER, DECODE_GPU):
            return (self.from_host[end.owner],), self._host_latency_s
        return None
