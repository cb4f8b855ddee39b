"""How a metric and its values are shown."""

import math

from experiments.quantities import ABSENT, amount, digits, duration, percent
from experiments.results.gpu_time import TITLES as GPU_SHARES
from experiments.stats.directions import unit_of

DEFAULT_METRICS = (
    "ttft_mean_s",
    "ttft_p99_s",
    "tpot_mean_s",
    "tpot_p99_s",
    "e2e_mean_s",
    "e2e_p99_s",
    "goodput_per_s",
    "slo_attainment_ratio",
    "prefix_hit_ratio",
    "load_imbalance_ratio",
    "l2_hit_ratio",
    "output_token_hbm_bytes",
    "gpu_attention_decode_ratio",
    "gpu_attention_prefill_ratio",
)
"""Shown unless others are asked for, where the runs have them."""

_TITLES = {
    "num_requests": "requests",
    "request_rate_per_s": "finished (requests/s)",
    "output_tokens_per_s": "output (tokens/s)",
    "total_tokens_per_s": "tokens (tokens/s)",
    "goodput_per_s": "goodput (requests/s)",
    "slo_attainment_ratio": "SLO met",
    "prefix_hit_ratio": "prefix hits",
    "l2_hit_ratio": "L2 hits",
    "hbm_bytes": "HBM traffic",
    "mean_batch_size": "batch size",
    "kv_usage_mean_ratio": "KV usage",
    "num_gpu_blocks": "KV blocks",
    "scheduler_cpu_ratio": "scheduler CPU",
    "load_imbalance_ratio": "load imbalance",
    "makespan_s": "makespan",
    "step_p50_s": "step p50",
    "step_p99_s": "step p99",
    "step_p999_s": "step p99.9",
    "kv_reserved_mean_bytes": "reserved KV (mean)",
    "commit_time_ratio": "commits (of step time)",
    "iteration_bubble_ratio": "waiting for the longest (of decode time)",
    "gpu_time_s": "GPU time",
    "output_token_gpu_s": "GPU time (per output token)",
    "output_token_hbm_bytes": "HBM traffic (per output token)",
    **{name: f"{title} (of GPU time)" for name, title in GPU_SHARES.items()},
}
_ACRONYMS = ("ttft", "tpot", "itl", "e2e")


def title_of(metric: str) -> str:
    """Heading of a metric, with its unit where the values carry none."""
    if metric in _TITLES:
        return _TITLES[metric]
    words = metric.removeprefix("num_").removesuffix("_s").split("_")
    return " ".join(word.upper() if word in _ACRONYMS else word for word in words)


def shown(metric: str, value: float) -> str:
    """A value of a metric, with its unit where the heading has none."""
    if math.isnan(value):
        return ABSENT
    unit = unit_of(metric)
    if unit == "s":
        return duration(value)
    if _is_share(metric):
        return percent(value)
    return amount(value) if unit == "bytes" else _number(value)


def shown_difference(metric: str, difference: float, relative: float) -> str:
    """A difference, signed: relative, but in percentage points for shares."""
    if math.isnan(difference):
        return ABSENT
    if difference == 0:
        return "equal"
    if _is_share(metric):
        return f"{100 * difference:+.1f} points"
    if math.isnan(relative):
        return f"{'+' if difference > 0 else '-'}{shown(metric, abs(difference))}"
    return f"{100 * relative:+.1f} %"


def _is_share(metric: str) -> bool:
    """Whether a metric is a part of a whole, shown as a percentage."""
    return metric.endswith("_ratio") and metric != "load_imbalance_ratio"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == round(value) else digits(value)
