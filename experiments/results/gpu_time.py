"""Where the time and the bytes of a run went, as metrics that runs can be compared by.

The whole is instances x (first arrival to last finish), warm-up included; what no cost term covers
of it is idle. Terms that no cost model knows yet are None, and so is everything of a run that was
cut short, whose last steps nobody waited for.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from experiments.quantities import percent
from experiments.results.replications import Replication
from sim.cluster_spec import ClusterSpec
from sim.cost_totals import COST_COLUMNS, CostTotals
from sim.metrics import Metrics

TERMS = tuple(name for name in COST_COLUMNS if name.endswith("_s"))
"""Cost terms that are seconds."""

TITLES = {
    "gpu_gemm_ratio": "GEMM",
    "gpu_attention_decode_ratio": "attention, decode",
    "gpu_attention_prefill_ratio": "attention, prefill",
    "gpu_collective_ratio": "collectives",
    "gpu_small_ops_ratio": "small operations",
    "gpu_launch_ratio": "launch",
    "gpu_scheduler_ratio": "scheduler",
    "gpu_transfer_ratio": "transfer",
    "gpu_idle_ratio": "idle",
}
"""Shares of the whole, which add up to 1, with their names for people."""

_SHOWN = 0.0005
"""Smaller shares would read 0.0 %."""

_NOT_MODELLED = ("scheduler_s", "transfer_s")
"""Terms that stay 0 until a cost model fills them."""


def with_gpu_metrics(one: Replication, spec: ClusterSpec) -> Replication:
    """A replication whose metrics also say where the time and the bytes went.

    Args:
        one: the replication.
        spec: the cluster that served.
    """
    requests = one.requests
    finish_s = _numbers(requests, "finish_s", np.float64)
    span_s = float(np.fmax.reduce(finish_s, initial=np.nan)) - float(
        np.fmin.reduce(_numbers(requests, "arrival_s", np.float64), initial=np.nan)
    )
    output_tokens = _numbers(requests, "output_tokens", np.int64)
    if spec.max_model_len is not None:
        left = spec.max_model_len - _numbers(requests, "prompt_tokens", np.int64)
        output_tokens = np.minimum(output_tokens, np.maximum(left, 1))
    num_tokens = int(output_tokens[~np.isnan(finish_s)].sum())
    found = gpu_metrics(
        one.costs,
        gpu_time_s=None if one.is_interrupted else spec.num_all_instances * span_s,
        num_output_tokens=num_tokens,
        has_scheduler=spec.scheduler is not None,
        has_transfers=getattr(spec.cost, "moves_blocks", False),
    )
    return replace(one, metrics={**one.metrics, **found})


def gpu_metrics(
    costs: CostTotals,
    *,
    gpu_time_s: float | None,
    num_output_tokens: int,
    has_scheduler: bool = False,
    has_transfers: bool = False,
) -> Metrics:
    """Shares of the time of all instances, and what an output token costs.

    Args:
        costs: cost terms summed over the instances.
        gpu_time_s: instances x span of the run, seconds; None or NaN where it has no end.
        num_output_tokens: tokens that its finished requests produced.
        has_scheduler: whether steps wait for the scheduler's CPU.
        has_transfers: whether steps wait for transfers.

    Returns:
        `gpu_time_s`; the shares of `TITLES`, ratios; `output_token_gpu_s`, seconds of busy
        instances per output token; `output_token_hbm_bytes`, bytes of one GPU of the instance.
    """
    if not gpu_time_s or np.isnan(gpu_time_s):
        names = ("gpu_time_s", *TITLES, "output_token_gpu_s", "output_token_hbm_bytes")
        return dict.fromkeys(names)
    seconds = {term: float(getattr(costs, term)) for term in TERMS}
    busy_s = sum(seconds.values())
    modelled = {"scheduler_s"} if has_scheduler else set()
    modelled |= {"transfer_s"} if has_transfers else set()
    shares: Metrics = {
        f"gpu_{term.removesuffix('_s')}_ratio": None
        if term in _NOT_MODELLED and not taken_s and term not in modelled
        else taken_s / gpu_time_s
        for term, taken_s in seconds.items()
    }
    shares["gpu_idle_ratio"] = max(0.0, 1.0 - busy_s / gpu_time_s)
    return {
        "gpu_time_s": gpu_time_s,
        **shares,
        "output_token_gpu_s": busy_s / num_output_tokens if num_output_tokens else None,
        "output_token_hbm_bytes": costs.hbm_bytes / num_output_tokens
        if num_output_tokens
        else None,
    }


def told_shares(metrics: Mapping[str, Any]) -> str:
    """The shares that are not zero, largest first, in one line; empty if there are none."""
    shares = [(metrics.get(name) or 0.0, title) for name, title in TITLES.items()]
    shown = sorted((item for item in shares if item[0] >= _SHOWN), key=lambda item: -item[0])
    return "; ".join(f"{title} {percent(share)}" for share, title in shown)


def _numbers(table: Any, name: str, dtype: type[np.float64 | np.int64]) -> npt.NDArray[Any]:
    """A column without the detour over pandas that `to_numpy` takes; NaN where it is null.

    Holds for columns made by `experiments.results.tables.column`, whose nulls lie over NaN.
    """
    chunks = table.column(name).chunks
    parts = [np.frombuffer(chunk.buffers()[1], dtype=dtype) for chunk in chunks if len(chunk)]
    return np.concatenate(parts) if parts else np.empty(0, dtype=dtype)
