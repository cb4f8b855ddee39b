"""What the studies of AlignedServe measure, seed by seed."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from experiments.studies.alignedserve.mixes import SHORT_TOKENS
from experiments.studies.measured import Measure

if TYPE_CHECKING:
    import pandas as pd

OUTPUT = Measure("output_tokens_per_s", "output", "tokens/s")
TPOT = Measure("tpot_mean_s", "TPOT mean", "ms", 1e3)
TPOT_P99 = Measure("tpot_p99_s", "TPOT p99", "ms", 1e3)
TPOT_BATCH_P99 = Measure("tpot_batch_p99_s", "TPOT p99 in the decode batch", "ms", 1e3)
TTFT = Measure("ttft_mean_s", "TTFT mean", "s")
TTFT_MAX = Measure("ttft_max_s", "TTFT max", "s")
READY = Measure("ready_mean_s", "until the decode batch, mean", "s")
READY_MAX = Measure("ready_max_s", "until the decode batch, max", "s")
WAIT_SHORT = Measure("ready_max_short_s", "longest wait, short", "s")
WAIT_LONG = Measure("ready_max_long_s", "longest wait, long", "s")
DONE_SHORT = Measure("e2e_short_s", "E2E mean, short", "s")
DONE_LONG = Measure("e2e_long_s", "E2E mean, long", "s")
BATCH = Measure("mean_batch_size", "mean batch", "requests")
STEP = Measure("itl_mean_s", "ITL mean", "ms", 1e3)
FAST = Measure("iteration_fast_ratio", "iterations below 30 ms", "%", 100)
PREPARED = Measure("prepared_fast_ratio", "iterations prepared in 5 ms", "%", 100)
BUBBLE = Measure("iteration_bubble_ratio", "bubbles, share of the step", "%", 100)
BUBBLE_SPLIT = Measure("iteration_bubble_split_kv_s", "bubble if split_kv", "ms", 1e3)
BUBBLE_HEAD = Measure("iteration_bubble_per_head_s", "bubble if per_head", "ms", 1e3)
BUBBLE_PADDED = Measure("iteration_bubble_padded_s", "bubble if padded", "ms", 1e3)
MIXED = Measure("mixed_batches_ratio", "iterations that mix batches", "%", 100)
ALIGNED_SHARE = Measure("aligned_batches_ratio", "batches formed by length", "%", 100)
POOL_MEAN = Measure("host_pool_mean_bytes", "pool, mean", "GB", 1e-9)
POOL_MAX = Measure("host_pool_peak_bytes", "pool, max", "GB", 1e-9)
EVICTED = Measure("num_evicted", "evicted", "count")

MEASURES = (
    *(OUTPUT, TPOT, TPOT_P99, TPOT_BATCH_P99, TTFT, TTFT_MAX, READY, READY_MAX),
    *(WAIT_SHORT, WAIT_LONG, DONE_SHORT, DONE_LONG),
    *(BATCH, STEP, FAST, PREPARED, BUBBLE, BUBBLE_SPLIT, BUBBLE_HEAD, BUBBLE_PADDED, MIXED),
    *(ALIGNED_SHARE, POOL_MEAN, POOL_MAX, EVICTED),
)


def of_metrics(metrics: Mapping[str, float | None]) -> dict[str, float]:
    """Measures that are metrics of a run; NaN where it has none.

    A request that is not handed over is in its decode batch from its first token on.
    """
    values = {
        name: float("nan") if value is None else float(value) for name, value in metrics.items()
    }
    values["tpot_batch_p99_s"] = values.get("tpot_decode_p99_s", values["tpot_p99_s"])
    return values


def of_requests(requests: "pd.DataFrame") -> dict[str, float]:
    """Measures that need the requests: waits, and service by class.

    A request is ready when it joins a decode batch; where it is not handed over, with its first
    token.
    """
    arrival_s = requests["arrival_s"]
    ready_s = requests["first_token_s"]
    if "decode_start_s" in requests.columns:
        ready_s = requests["decode_start_s"].fillna(ready_s)
    wait_s = (ready_s - arrival_s).to_numpy()
    e2e_s = (requests["finish_s"] - arrival_s).to_numpy()
    is_short = (requests["prompt_tokens"] <= SHORT_TOKENS).to_numpy()
    values = {
        "ttft_max_s": float((requests["first_token_s"] - arrival_s).max()),
        "ready_mean_s": float(np.mean(wait_s)),
        "ready_max_s": float(np.max(wait_s)),
    }
    for name, chosen in (("short", is_short), ("long", ~is_short)):
        has_any = bool(chosen.any())
        values[f"ready_max_{name}_s"] = float(wait_s[chosen].max()) if has_any else float("nan")
        values[f"e2e_{name}_s"] = float(e2e_s[chosen].mean()) if has_any else float("nan")
    return values
