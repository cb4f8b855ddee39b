"""Invariants 13 and 14 of `sim.invariants`, on the records and the state at the end of a run."""

from math import ulp

import numpy as np
import numpy.typing as npt

from sim.disaggregation.cluster import DisaggregatedCluster
from sim.errors import InvariantError
from sim.records import SimulationResult
from sim.transfer_network import Port


def check_handover(
    result: SimulationResult, cluster: DisaggregatedCluster, *, is_whole: bool
) -> None:
    """Check that KV was there before it was read, and that none was lost or made up.

    Raises:
        InvariantError: names the rule and the first request or instance that breaks it.
    """
    records, requests = result.handover, result.requests
    assert records is not None
    has_decoded = ~np.isnan(records.decode_start_s)
    early = ~(records.decode_start_s >= records.transfer_end_s) & has_decoded
    _refuse("13: decodes before its KV is there", early)
    early = ~(records.transfer_end_s >= requests.first_token_s) & has_decoded
    _refuse("13: its KV was moved before it was computed", early)
    early = ~(requests.finish_s > records.decode_start_s) & has_decoded & requests.is_completed
    _refuse("13: ends before it decodes", early)
    moved = records.is_handed_over & requests.is_completed
    _refuse("13: decodes without a hand-over", moved & ~has_decoded)
    if sum(records.sent_bytes) != sum(records.received_bytes):
        raise InvariantError(
            f"14: {sum(records.sent_bytes)} bytes sent, {sum(records.received_bytes)} received"
        )
    routes = cluster.handover.routes
    ports = (*routes.sending, *routes.receiving, *routes.to_host, *routes.from_host)
    for port in ports:
        _check_port(port, result.end_s)
    if is_whole:
        _check_emptiness(result, cluster, ports)


def _check_port(port: Port, end_s: float) -> None:
    """What went through at the port's rates is what was to go through, but for rounded times."""
    if port.transfers:
        return
    rounded = port.num_parts * ulp(end_s) * port.bytes_per_s
    if not abs(port.carried_bytes - port.num_bytes) <= 1e-9 * port.num_bytes + 2 * rounded:
        raise InvariantError(f"14: a link carried {port.carried_bytes} bytes of {port.num_bytes}")


def _check_emptiness(
    result: SimulationResult, cluster: DisaggregatedCluster, ports: tuple[Port, ...]
) -> None:
    records, handover = result.handover, cluster.handover
    assert records is not None
    asked = int(records.transfer_bytes.sum())
    between = sum(records.sent_bytes)
    if asked != between + records.host_bytes:
        raise InvariantError(
            f"14: KV of {asked} bytes, links carried {between} and {records.host_bytes}"
        )
    if handover.moving or handover.stores.used_bytes or any(port.transfers for port in ports):
        raise InvariantError("14: KV is left between the instances")
    for instance in cluster.instances:
        if instance.kv.num_free != instance.kv.num_usable_blocks:
            raise InvariantError(f"14: KV is left on instance {instance.instance_id}")


def _refuse(rule: str, is_broken: npt.NDArray[np.bool_]) -> None:
    if is_broken.any():
        raise InvariantError(f"{rule} (row {int(np.argmax(is_broken))})")
