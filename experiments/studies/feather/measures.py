"""What the studies of Feather measure, seed by seed."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from experiments.studies.measured import Measure

if TYPE_CHECKING:
    import pandas as pd

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

BLOCK_TOKENS = 16
"""Only whole KV blocks of a prefix are found again (vLLM)."""


OUTPUT = Measure("output_tokens_per_s", "output", "tokens/s")
MAKESPAN = Measure("makespan_s", "makespan", "s")
BATCH = Measure("mean_batch_size", "mean batch", "requests")
TBT = Measure("itl_mean_s", "TBT mean", "ms", 1e3)
TBT_P99 = Measure("itl_p99_s", "TBT p99", "ms", 1e3)
TPOT = Measure("tpot_mean_s", "TPOT mean", "ms", 1e3)
WAIT = Measure("longest_wait_s", "longest wait", "s")
LEAST_SERVED = Measure("least_served_ratio", "least served group at half time", "%", 100)
MOST_SERVED = Measure("most_served_ratio", "most served group at half time", "%", 100)
FIRST_DONE = Measure("first_done_s", "until the first group is done", "s")
LEAST_TOKENS = Measure(
    "least_group_tokens_per_s", "output of the least served group until then", "tokens/s"
)
MOST_TOKENS = Measure(
    "most_group_tokens_per_s", "output of the most served group until then", "tokens/s"
)
LEAST_WAIT = Measure("least_group_wait_s", "longest wait in the group that waits least", "s")
PREFIX_HITS = Measure("prefix_hit_ratio", "prefix hits", "%", 100)
L2_HITS = Measure("l2_hit_ratio", "L2 hits", "%", 100)
RECOMPUTED = Measure("recomputed_tokens", "recomputed prefill", "tokens")
PREEMPTIONS = Measure("num_preemptions", "preemptions", "count")
HBM_RATE = Measure("hbm_gb_per_s", "HBM traffic while busy", "GB/s")
CPU_SHARE = Measure("scheduler_cpu_ratio", "scheduler CPU / busy GPU time", "%", 100)
CPU_REQUEST = Measure("scheduler_cpu_request_s", "scheduler CPU per request", "ms", 1e3)

_GPU_PARTS = {
    "gemm": "GEMM",
    "attention_decode": "attention, decode",
    "attention_prefill": "attention, prefill",
    "small_ops": "small operations",
    "launch": "launch",
}

GPU_TIMES = tuple(Measure(f"{part}_s", f"GPU: {title}", "s") for part, title in _GPU_PARTS.items())
"""Of the whole run, with the prefills of the warm start."""

MEASURES = (
    *(OUTPUT, MAKESPAN, BATCH, TBT, TBT_P99, TPOT, WAIT, LEAST_SERVED, MOST_SERVED),
    *(FIRST_DONE, LEAST_TOKENS, MOST_TOKENS, LEAST_WAIT),
    *(PREFIX_HITS, L2_HITS, RECOMPUTED, PREEMPTIONS, HBM_RATE, *GPU_TIMES),
)


def of_metrics(metrics: Mapping[str, float | None]) -> dict[str, float]:
    """Measures that follow from the metrics of a run; NaN where it has none."""
    values = {
        name: float("nan") if value is None else float(value) for name, value in metrics.items()
    }
    busy_s = values["gpu_time_s"] * (1 - values["gpu_idle_ratio"])
    values["hbm_gb_per_s"] = values["hbm_bytes"] / busy_s / 1e9
    if "scheduler_cpu_ratio" in values:
        on_gpu_s = busy_s - values["gpu_scheduler_ratio"] * values["gpu_time_s"]
        cpu_s = values["scheduler_cpu_ratio"] * on_gpu_s
        values["scheduler_cpu_request_s"] = cpu_s / values["num_requests"]
    for part in _GPU_PARTS:
        values[f"{part}_s"] = values[f"gpu_{part}_ratio"] * values["gpu_time_s"]
    return values


def longest_wait_s(requests: "pd.DataFrame") -> float:
    """Longest time from arrival to first admission, seconds; of counted requests."""
    return float((requests["admitted_s"] - requests["arrival_s"]).max())


def recomputed_tokens(requests: "pd.DataFrame", prefix_tokens: int, num_cold: int) -> int:
    """Prompt tokens that were computed although the same prefix had been computed before.

    What a preempted request computes again is not among them.

    Args:
        requests: counted requests, each behind a prefix.
        prefix_tokens: tokens of every prefix.
        num_cold: prefixes that one of these requests has to compute first.
    """
    whole = prefix_tokens // BLOCK_TOKENS * BLOCK_TOKENS
    lacking = np.maximum(whole - requests["cached_tokens"].to_numpy(), 0)
    return int(lacking.sum()) - num_cold * whole


def served_at_half_time(requests: "pd.DataFrame", groups: IntArray) -> FloatArray:
    """Share of every group's requests that have finished when half of the makespan is over.

    Args:
        requests: counted requests.
        groups: group of each of them. Shape (n,).

    Returns:
        One ratio per group that has requests, in the order of the groups. Shape (g,).
    """
    first_s, last_s = requests["arrival_s"].min(), requests["finish_s"].max()
    is_done = requests["finish_s"].to_numpy() <= (first_s + last_s) / 2
    _, place, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    done = np.bincount(place, weights=is_done)
    return np.asarray(done / sizes, dtype=np.float64)
