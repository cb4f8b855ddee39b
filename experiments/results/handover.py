"""What requests.parquet and the terminal say of the way from prefill to decode."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from experiments.quantities import amount, duration, percent
from sim.cluster_spec import ClusterSpec
from sim.disaggregation.spec import Disaggregation
from sim.records import SimulationResult


def handover_columns(result: SimulationResult) -> dict[str, tuple[Any, Any]]:
    """Columns (values, is null) by name; none where one instance prefills and decodes.

    `instance` is where a request ended; `prefill_instance` where its first token came from.
    """
    records, requests = result.handover, result.requests
    if records is None:
        return {}
    moved = records.is_handed_over
    has_token = ~np.isnan(requests.first_token_s)
    prefill = np.where(moved, records.prefill_instance, requests.instance)
    decodes = moved & ~np.isnan(records.decode_start_s)
    return {
        "prefill_instance": (prefill, ~has_token),
        "decode_instance": (requests.instance, ~decodes),
        "transfer_start_s": _times(records.transfer_start_s),
        "transfer_end_s": _times(records.transfer_end_s),
        "transfer_bytes": (records.transfer_bytes, ~moved),
        "decode_start_s": _times(records.decode_start_s),
    }


def _times(values: Any) -> tuple[Any, Any]:
    return values, np.isnan(values)


def handover_line(metrics: Mapping[str, Any]) -> str:
    """The hand-over and the roles in one line."""
    text = (
        f"hand-over: {duration(metrics['handover_mean_s'])} between first token and decode batch "
        f"(p99 {duration(metrics['handover_p99_s'])}), KV under way for "
        f"{duration(metrics['transfer_mean_s'])}; busy: prefill "
        f"{percent(metrics['prefill_busy_ratio'])}, decode {percent(metrics['decode_busy_ratio'])}"
    )
    if metrics["mixed_busy_ratio"] is not None:
        text += f", mixed {percent(metrics['mixed_busy_ratio'])}"
    return f"{text}, links out of prefill {percent(metrics['send_busy_ratio'])}"


def roles_line(spec: ClusterSpec, parts: Disaggregation) -> str:
    """How many instances have which role, and the link between them."""
    mixed = f", {parts.num_mixed} both" if parts.num_mixed else ""
    blocks = parts.decode.num_gpu_blocks
    decode = "" if blocks == spec.num_gpu_blocks else f" with {blocks:,} KV blocks"
    link = parts.peer_link
    size = parts.prefill_buffer_bytes
    buffer = f" with a buffer of {amount(size)} off its KV blocks" if size else ""
    return (
        f"  {spec.num_instances - parts.num_mixed} prefill{buffer}{mixed}, "
        f"{parts.decode.num_instances} decode{decode}; KV moves at {amount(link.bytes_per_s)}/s, "
        f"{duration(link.latency_s)} latency"
    )
