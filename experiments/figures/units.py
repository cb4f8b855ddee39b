"""Titles and units of metrics on axes. Data stay in SI base units; only axes are scaled."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from experiments.quantities import ABSENT

_TITLES = {
    "ttft": "TTFT",
    "tpot": "TPOT",
    "itl": "ITL",
    "e2e": "E2E latency",
    "queue": "Queueing time",
    "prefill": "Prefill time",
    "frontend_in": "Front end, way in",
    "frontend_out": "Front end, way out",
    "request_rate": "Finished requests",
    "output_tokens": "Output",
    "total_tokens": "Prompts and output",
    "goodput": "Goodput",
    "slo_attainment_ratio": "SLO attainment",
    "prefix_hit_ratio": "Prefix hits",
    "l2_hit_ratio": "L2 hits",
    "hbm_bytes": "HBM traffic",
    "mean_batch_size": "Batch size",
    "kv_usage_mean_ratio": "KV usage",
    "load_imbalance_ratio": "Load imbalance",
    "scheduler_cpu_ratio": "Scheduler time",
    "makespan": "Makespan",
    "offered_rate": "Offered rate",
}
_STATISTICS = {"mean": "mean", "p50": "median", "p90": "p90", "p99": "p99"}
_NO_SCALE = {"load_imbalance_ratio": "max / mean", "mean_batch_size": "requests"}
_RATE_UNITS = {"output_tokens_per_s": "tokens/s", "total_tokens_per_s": "tokens/s"}


@dataclass(frozen=True, slots=True)
class Unit:
    """How a quantity is written: value x factor, then the name."""

    factor: float
    name: str


def title_of(metric: str) -> str:
    """Words for a metric of result.json, such as ``"TTFT p99"``; no unit."""
    if metric in _TITLES:
        return _TITLES[metric]
    stem = metric.removesuffix("_s").removesuffix("_per")
    name, _, statistic = stem.rpartition("_")
    if statistic in _STATISTICS:
        return f"{_TITLES.get(name, name.replace('_', ' '))} {_STATISTICS[statistic]}"
    stem = stem.removeprefix("num_")
    return _TITLES.get(stem, stem.replace("_", " ").capitalize())


def unit_of(metric: str, values: Iterable[float]) -> Unit:
    """Unit in which values of a metric are short to write.

    Args:
        metric: name with its unit as suffix, as in result.json.
        values: what is to be written, in the unit of the suffix; NaNs are ignored.
    """
    sizes = np.abs(np.fromiter(values, dtype=np.float64))
    largest = float(np.max(sizes, initial=0.0, where=np.isfinite(sizes)))
    if metric in _NO_SCALE:
        return Unit(1.0, _NO_SCALE[metric])
    if metric.endswith("_per_s"):
        return Unit(1.0, _RATE_UNITS.get(metric, "requests/s"))
    if metric.endswith("_s"):
        return _time_unit(largest)
    if metric.endswith("_ratio"):
        return Unit(100.0, "%")
    if metric.endswith("_bytes"):
        return Unit(1e-12, "TB") if largest >= 1e12 else Unit(1e-9, "GB")
    return Unit(1.0, "count")


def _time_unit(largest_s: float) -> Unit:
    if largest_s >= 1.0 or largest_s == 0.0:
        return Unit(1.0, "s")
    return Unit(1e3, "ms") if largest_s >= 1e-3 else Unit(1e6, "µs")


def brief(value: float) -> str:
    """Three significant digits without trailing zeros, for a rate."""
    if not np.isfinite(value):
        return ABSENT
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def load_text(rate_per_s: float, users: float) -> str:
    """A load for a label: ``"16 users"`` or ``"5.3 requests/s"``; empty where neither is known."""
    if np.isfinite(users):
        return "1 user" if users == 1 else f"{users:,.0f} users"
    return f"{brief(rate_per_s)} requests/s" if np.isfinite(rate_per_s) else ""
