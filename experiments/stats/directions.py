"""Which way a metric is better, and its unit."""

from typing import Literal

Direction = Literal["lower", "higher"]

_LOWER = (
    "makespan_s",
    "num_rejected",
    "num_unfinished",
    "num_preemptions",
    "scheduler_cpu_ratio",
    "load_imbalance_ratio",
)
_LATENCIES = (
    "ttft_",
    "tpot_",
    "itl_",
    "e2e_",
    "queue_",
    "prefill_",
    "frontend_in_",
    "frontend_out_",
)
_NEITHER = ("frontend_busy_ratio", "frontend_in_busy_ratio", "frontend_out_busy_ratio")
_HIGHER = (
    "num_finished",
    "request_rate_per_s",
    "output_tokens_per_s",
    "total_tokens_per_s",
    "goodput_per_s",
    "slo_attainment_ratio",
    "prefix_hit_ratio",
)

_UNITS = (
    ("_tokens_per_s", "tokens/s"),
    ("_per_s", "requests/s"),
    ("_s", "s"),
    ("_ratio", "ratio"),
    ("_bytes", "bytes"),
    ("_blocks", "blocks"),
    ("_batch_size", "requests"),
)

_COUNTED = {
    "num_preemptions": "preemptions",
    "num_hotspot_alarms": "alarms",
    "num_hotspot_filters": "filters",
}


def direction_of(metric: str) -> Direction | None:
    """Whether lower or higher is better; None where neither is (bytes moved, batch size)."""
    if metric in _NEITHER:
        return None
    if metric in _LOWER or metric.startswith(_LATENCIES):
        return "lower"
    return "higher" if metric in _HIGHER else None


def unit_of(metric: str) -> str:
    """Unit of a metric, from the end of its name; a count where it has none."""
    for ending, unit in _UNITS:
        if metric.endswith(ending):
            return unit
    return _COUNTED.get(metric, "requests")
