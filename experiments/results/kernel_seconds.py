"""What each kernel took in every run of steps, worked out from the records as the ledger does.

Logits are counted as if every chunk completed its prompt; the attention is what the rest of a step
leaves, that of decodes and chunks together.
"""

from collections.abc import Callable

import numpy as np

from experiments.results.run_shapes import FloatArray, RunShapes
from hwmodels.calibrated import CalibratedCost, TokenTimes

ATTENTION = "attention"
"""Stands for all kernels of attention."""


def kernel_times(cost: CalibratedCost, shapes: RunShapes) -> dict[str, FloatArray]:
    """Seconds of each run by kernel, all attention under one name. Shape (runs,) each.

    Args:
        cost: priced the runs.
        shapes: the runs.
    """
    steps, shard = shapes.num_steps, cost.shard
    num_requests = shapes.num_decodes + shapes.num_chunks
    layers = steps[:, None] * _lookup(cost.layer_times, shapes.num_tokens)
    logits = steps[:, None] * _lookup(cost.logits_times, num_requests)
    host_s = steps * cost.host_s(num_requests.astype(np.int64))
    rest_s = layers.sum(axis=1) + logits.sum(axis=1) + host_s
    experts_s = np.zeros(len(steps))
    if shard.num_experts:
        distinct, index = np.unique(shapes.num_tokens, return_inverse=True)
        layer_s = cost.device.moe_time_s(
            distinct,
            shard.hidden_size,
            shard.moe_intermediate_size,
            shard.experts_per_token,
            shard.num_experts,
        )
        experts_s = steps * shard.num_layers * np.asarray(layer_s)[index]
    gemm_s, small_ops_s, collective_s = layers.T
    return {
        "gemm": gemm_s + logits[:, 0] - experts_s,
        "moe": experts_s,
        "small_ops": small_ops_s,
        "all_reduce": collective_s,
        ATTENTION: np.maximum(shapes.duration_s - rest_s, 0.0),
    }


def _lookup(times_of: Callable[[int], TokenTimes], sizes: FloatArray) -> FloatArray:
    """Times by term of steps of so many tokens. Shape (sizes, terms)."""
    distinct, index = np.unique(sizes.astype(np.int64), return_inverse=True)
    table = np.array([times_of(size) for size in distinct.tolist()]).reshape(-1, 3)
    times: FloatArray = table[index]
    return times
