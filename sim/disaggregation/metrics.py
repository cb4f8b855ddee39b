"""Figures of what lies between prefill and decode, and of each kind of instances.

`ttft` and `tpot` of a run are those of its users: the first token comes from the prefill instance,
and what a request then waits for its decode batch is part of the time per output token. Here is
that wait, and both figures with it moved to the other side.
"""

import numpy as np
import numpy.typing as npt

from sim.disaggregation.records import HandoverRecords, PoolRecords
from sim.kv_usage import block_seconds
from sim.records import SimulationResult

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]


def handover_times(
    result: SimulationResult, is_counted: BoolArray, output_tokens: IntArray
) -> dict[str, FloatArray]:
    """Times of finished requests that were handed over, by the name of their metric, seconds.

    * `handover`: first token to joining the decode batch.
    * `transfer`: start of the transfer to the arrival of the KV at the decode instance.
    * `ttft_decode_ready`: arrival to joining the decode batch, for all finished requests: those
      that were not handed over are ready with their first token.
    * `tpot_decode`: joining the decode batch to the last token, per token after the first.

    Args:
        result: the records.
        is_counted: requests that count. Shape (n,).
        output_tokens: tokens that each request has produced. Shape (n,).
    """
    records, requests = result.handover, result.requests
    assert records is not None
    is_done = requests.is_completed & is_counted
    moved = is_done & records.is_handed_over
    ready_s = np.where(moved, records.decode_start_s, requests.first_token_s)
    decode_s = requests.finish_s[moved] - records.decode_start_s[moved]
    return {
        "handover": records.decode_start_s[moved] - requests.first_token_s[moved],
        "transfer": records.transfer_end_s[moved] - records.transfer_start_s[moved],
        "ttft_decode_ready": ready_s[is_done] - requests.arrival_s[is_done],
        "tpot_decode": decode_s / (output_tokens[moved] - 1),
    }


def pool_metrics(result: SimulationResult, makespan_s: float) -> dict[str, float | int | None]:
    """Per kind of instances: share of time in steps, and of KV blocks in use; traffic of the links.

    Shares are of the makespan, means over the instances; None for kinds that the cluster lacks.
    """
    records = result.handover
    assert records is not None
    metrics: dict[str, float | int | None] = {}
    pools = {pool.name: pool for pool in records.pools}
    for name in ("prefill", "mixed", "decode"):
        pool = pools.get(name)
        metrics[f"{name}_busy_ratio"] = _busy_ratio(result, pool, makespan_s)
        metrics[f"{name}_kv_usage_mean_ratio"] = _kv_usage(result, pool, makespan_s)
    return metrics | _traffic(records, makespan_s)


def _busy_ratio(
    result: SimulationResult, pool: PoolRecords | None, makespan_s: float
) -> float | None:
    if pool is None or makespan_s <= 0:
        return None
    steps = [result.instances[i] for i in pool.instances]
    busy_s = sum(float((one.step_end_s - one.step_start_s).sum()) for one in steps)
    return busy_s / (makespan_s * len(pool.instances))


def _kv_usage(
    result: SimulationResult, pool: PoolRecords | None, makespan_s: float
) -> float | None:
    if pool is None or makespan_s <= 0:
        return None
    usable = (pool.num_gpu_blocks - 1) * len(pool.instances)
    return sum(block_seconds(result, i) for i in pool.instances) / (makespan_s * usable)


def _traffic(records: HandoverRecords, makespan_s: float) -> dict[str, float | int | None]:
    receives = [i for pool in records.pools if pool.name != "prefill" for i in pool.instances]
    sends = [i for pool in records.pools if pool.name == "prefill" for i in pool.instances]
    is_known = makespan_s > 0
    sent_s = sum(records.sent_busy_s[i] for i in sends)
    received_s = sum(records.received_busy_s[i] for i in receives)
    return {
        "num_handed_over": int(records.is_handed_over.sum()),
        "transfer_bytes": sum(records.sent_bytes) + records.host_bytes,
        "send_busy_ratio": sent_s / (makespan_s * len(sends)) if is_known else None,
        "receive_busy_ratio": received_s / (makespan_s * len(receives)) if is_known else None,
        "host_pool_peak_bytes": records.host_peak_bytes,
        "prefill_buffer_peak_bytes": records.buffer_peak_bytes,
    }
