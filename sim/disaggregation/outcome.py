"""The records of a hand-over at the end of a run."""

import numpy as np

from sim.disaggregation.cluster import DisaggregatedCluster
from sim.disaggregation.decode_instance import DecodeInstance
from sim.disaggregation.moving import HOST_POOL, PREFILL_BUFFER
from sim.disaggregation.prefill_instance import PrefillInstance
from sim.disaggregation.records import HandoverRecords, PoolRecords
from sim.transfer_network import Port


def handover_records(cluster: DisaggregatedCluster, end_s: float) -> HandoverRecords:
    """What a cluster did between prefill and decode, up to `end_s`; its instances have stopped."""
    log, handover = cluster.handover_log, cluster.handover
    routes, stores = handover.routes, handover.stores
    between = [
        one.between.total
        for one in cluster.instances
        if isinstance(one, PrefillInstance | DecodeInstance)
    ]
    return HandoverRecords(
        prefill_instance=np.frombuffer(log.prefill_instance, np.int64),
        prefill_step=np.frombuffer(log.prefill_step, np.int64),
        transfer_start_s=np.frombuffer(log.transfer_start_s, np.float64),
        transfer_end_s=np.frombuffer(log.transfer_end_s, np.float64),
        transfer_bytes=np.frombuffer(log.transfer_bytes, np.int64),
        decode_start_s=np.frombuffer(log.decode_start_s, np.float64),
        pools=_pools(cluster),
        more_block_seconds=tuple(between),
        sent_busy_s=tuple(port.busy_until(end_s) for port in routes.sending),
        received_busy_s=tuple(port.busy_until(end_s) for port in routes.receiving),
        sent_bytes=tuple(port.num_bytes for port in routes.sending),
        received_bytes=tuple(port.num_bytes for port in routes.receiving),
        host_bytes=_total((*routes.to_host, *routes.from_host)),
        host_peak_bytes=stores.peak_bytes(HOST_POOL),
        buffer_peak_bytes=stores.peak_bytes(PREFILL_BUFFER),
    )


def _pools(cluster: DisaggregatedCluster) -> tuple[PoolRecords, ...]:
    ends = (0, cluster.num_prefill, cluster.spec.num_instances, len(cluster.instances))
    names = ("prefill", "mixed", "decode")
    return tuple(
        PoolRecords(
            name=name,
            instances=range(first, end),
            num_gpu_blocks=cluster.instances[first].kv.num_usable_blocks + 1,
        )
        for name, first, end in zip(names, ends[:-1], ends[1:], strict=True)
        if end > first
    )


def _total(ports: tuple[Port, ...]) -> int:
    return sum(port.num_bytes for port in ports)
