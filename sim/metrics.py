"""The figures of a run, from its records.

Latencies are those of finished requests, as their users see them; percentiles use NumPy's linear
method. A figure that is not modelled or has no requests behind it is None.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from sim.disaggregation.metrics import handover_times, pool_metrics
from sim.front_end_metrics import front_end_load, front_end_parts, queueing_times
from sim.front_end_records import engine_view, user_view
from sim.inter_token import token_gaps, weighted_percentiles
from sim.kv_usage import kv_usage_mean_ratio
from sim.recorder import COMPLETED, REJECTED, UNFINISHED
from sim.records import SimulationResult
from sim.system_size import load_imbalance_ratio
from sim.tiers.records import tier_metrics

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]
Metrics = dict[str, float | int | None]

PERCENTILES = (50, 90, 99)


def counted_requests(
    result: SimulationResult, warmup_s: float = 0.0, warmup_requests: int = 0
) -> BoolArray:
    """Requests that figures count: those that do not arrive during the warm-up. Shape (n,).

    Args:
        result: the records.
        warmup_s: earlier arrivals do not count, seconds of simulated time.
        warmup_requests: the first so many requests do not count either.
    """
    is_counted: BoolArray = ~(result.requests.arrival_s < warmup_s)
    is_counted[:warmup_requests] = False
    return is_counted


def summarize(
    result: SimulationResult,
    *,
    slo_ttft_s: float,
    slo_tpot_s: float,
    is_counted: BoolArray | None = None,
) -> Metrics:
    """All metrics of a run, keys with unit suffixes in a fixed order.

    There are more with a front end, where prefill and decode are apart, and with tiers behind the
    prefix caches.

    Figures of requests are over those that count. Figures of the machine (batch size, KV usage,
    preemptions, traffic, imbalance) are over the whole run.

    Args:
        result: the records.
        slo_ttft_s: time to first token that a good request must not exceed, seconds.
        slo_tpot_s: time per output token that a good request must not exceed, seconds; one-token
            outputs meet it.
        is_counted: requests that count, None for all. Shape (n,).
    """
    if is_counted is None:
        is_counted = np.ones(result.workload.num_requests, dtype=np.bool_)
    seen = user_view(result)
    status = result.requests.status[is_counted]
    is_done = result.requests.is_completed & is_counted
    arrival_s = seen.requests.arrival_s[is_done]
    ttft_s = seen.requests.first_token_s[is_done] - arrival_s
    tpot_s = tpot_of(seen)[is_done]
    makespan_s = makespan_of(seen, is_counted)
    is_good = (ttft_s <= slo_ttft_s) & ~(tpot_s > slo_tpot_s)
    metrics: Metrics = {
        "num_requests": len(status),
        "num_finished": int(np.count_nonzero(status == COMPLETED)),
        "num_rejected": int(np.count_nonzero(status == REJECTED)),
        "num_unfinished": int(np.count_nonzero(status == UNFINISHED)),
        "num_warmup_requests": result.workload.num_requests - len(status),
        "makespan_s": makespan_s,
        **_rates(result, is_done, is_counted, makespan_s),
        **_spread("ttft", ttft_s),
        **_spread("tpot", tpot_s[~np.isnan(tpot_s)]),
        **_itl(seen, is_counted),
        **_spread("e2e", seen.requests.finish_s[is_done] - arrival_s),
        **_spread("queue", queueing_times(result, is_done)),
        **_front_end(result, is_done),
        **_handover(result, is_counted, makespan_s),
        "goodput_per_s": _ratio(int(is_good.sum()), makespan_s),
        "slo_attainment_ratio": _ratio(int(is_good.sum()), len(status)),
        "prefix_hit_ratio": prefix_hit_ratio(result, is_counted),
        **_tiers(result, is_counted),
        **_machine(engine_view(result)),
    }
    return metrics


def _front_end(result: SimulationResult, is_done: BoolArray) -> Metrics:
    """Parts of the time to first token and business of the front end; nothing without one."""
    parts = front_end_parts(result, is_done)
    if parts is None:
        return {}
    found: Metrics = {}
    for name, values in parts.items():
        found |= _spread(name, values)
    load = front_end_load(result)
    found["frontend_in_busy_ratio"] = None if load is None else load.busy_in_ratio
    found["frontend_out_busy_ratio"] = None if load is None else load.busy_out_ratio
    found["frontend_busy_ratio"] = None if load is None else load.busy_ratio
    return found


def _handover(result: SimulationResult, is_counted: BoolArray, makespan_s: float) -> Metrics:
    """What lay between prefill and decode; nothing where one instance does both."""
    if result.handover is None:
        return {}
    found: Metrics = {}
    for name, times_s in handover_times(result, is_counted, tokens_generated(result)).items():
        found |= _spread(name, times_s)
    return found | pool_metrics(result, makespan_s)


def _tiers(result: SimulationResult, is_counted: BoolArray) -> Metrics:
    """What the tiers behind the prefix caches did; nothing without them."""
    if result.tiers is None:
        return {}
    prompts, hits = result.workload.prompt_tokens, result.requests.cached_tokens
    return tier_metrics(result.tiers, prompts, hits, is_counted)


def tpot_of(result: SimulationResult) -> FloatArray:
    """Time per output token after the first, per request; NaN for one-token outputs."""
    tokens = tokens_generated(result)
    with np.errstate(invalid="ignore", divide="ignore"):
        spread = result.requests.finish_s - result.requests.first_token_s
        tpot: FloatArray = np.where(tokens > 1, spread / (tokens - 1), np.nan)
    return tpot


def tokens_generated(result: SimulationResult) -> npt.NDArray[np.int64]:
    """Output tokens that each request has produced (less than asked if cut or unfinished)."""
    requests = result.requests
    tokens = np.where(requests.first_step > 0, requests.last_step - requests.first_step + 1, 0)
    for row, pairs in requests.more_intervals.items():
        tokens[row] = sum(pairs[1::2]) - sum(pairs[0::2]) + len(pairs) // 2
    if result.handover is not None:
        tokens += result.handover.is_handed_over
    return tokens


def makespan_of(result: SimulationResult, is_counted: BoolArray | None = None) -> float:
    """From the first arrival to the last finish, or to the end of a run that was cut short."""
    requests = result.requests
    if is_counted is None:
        is_counted = np.ones(len(requests.status), dtype=np.bool_)
    arrivals = requests.arrival_s[is_counted & ~np.isnan(requests.arrival_s)]
    first_s = float(arrivals.min()) if len(arrivals) else np.nan
    finishes = requests.finish_s[requests.is_completed & is_counted]
    if (requests.status[is_counted] == UNFINISHED).any():
        return 0.0 if np.isnan(first_s) else max(0.0, result.end_s - first_s)
    return float(finishes.max() - first_s) if len(finishes) else 0.0


def prefix_hit_ratio(result: SimulationResult, is_counted: BoolArray | None = None) -> float | None:
    """Cached tokens / prompt tokens at first admissions."""
    is_admitted = result.requests.cached_tokens >= 0
    if is_counted is not None:
        is_admitted &= is_counted
    prompts = int(result.workload.prompt_tokens[is_admitted].sum())
    return _ratio(int(result.requests.cached_tokens[is_admitted].sum()), prompts)


def _rates(
    result: SimulationResult, is_done: BoolArray, is_counted: BoolArray, makespan_s: float
) -> Metrics:
    output = int(tokens_generated(result)[is_counted].sum())
    prompts = int(result.workload.prompt_tokens[is_done].sum())
    return {
        "request_rate_per_s": _ratio(int(is_done.sum()), makespan_s),
        "output_tokens_per_s": _ratio(output, makespan_s),
        "total_tokens_per_s": _ratio(output + prompts, makespan_s),
    }


def _machine(result: SimulationResult) -> Metrics:
    costs = result.costs
    busy_s = weighted = 0.0
    for instance in result.instances:
        if not len(instance.step_end_s):
            continue
        step = instance.run_column("first_step")
        ends = instance.step_end_s[step + instance.run_column("num_steps") - 1]
        duration_s = ends - instance.step_start_s[step]
        batch = instance.run_column("num_decodes") + instance.run_column("num_prefills")
        busy_s += float(duration_s.sum())
        weighted += float((duration_s * batch).sum())
    return {
        "l2_hit_ratio": _ratio(costs.l2_hit_bytes, costs.l2_read_bytes),
        "hbm_bytes": costs.hbm_bytes,
        "mean_batch_size": _ratio(weighted, busy_s),
        "kv_usage_mean_ratio": kv_usage_mean_ratio(result, makespan_of(result)),
        "num_gpu_blocks": result.num_gpu_blocks,
        "num_preemptions": int(result.requests.num_preemptions.sum()),
        "scheduler_cpu_ratio": _scheduler_cpu_ratio(result),
        "load_imbalance_ratio": load_imbalance_ratio(result),
    }


def _scheduler_cpu_ratio(result: SimulationResult) -> float | None:
    """CPU time of the schedulers / time of the steps on the GPU; None if not simulated.

    Steps do not count what they waited for the scheduler.
    """
    cpu_s = gpu_s = 0.0
    for instance in result.instances:
        if instance.scheduler_cpu_s is None:
            return None
        cpu_s += instance.scheduler_cpu_s
        durations_s = instance.step_end_s - instance.step_start_s
        gpu_s += float(durations_s.sum()) - instance.costs.scheduler_s
    return _ratio(cpu_s, gpu_s)


def _itl(result: SimulationResult, is_counted: BoolArray) -> Metrics:
    gaps_s, weights = token_gaps(result, is_counted)
    if not len(gaps_s):
        return _spread("itl", gaps_s)
    mean = float((gaps_s * weights).sum() / weights.sum())
    values = weighted_percentiles(gaps_s, weights, list(PERCENTILES))
    return _named("itl", [mean, *values])


def _spread(name: str, values: FloatArray) -> Metrics:
    if not len(values):
        return _named(name, [None] * (1 + len(PERCENTILES)))
    found = np.percentile(values, PERCENTILES).tolist()
    return _named(name, [float(values.mean()), *found])


def _named(name: str, values: Sequence[float | None]) -> Metrics:
    keys = [f"{name}_mean_s", *(f"{name}_p{p}_s" for p in PERCENTILES)]
    return dict(zip(keys, values, strict=True))


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole > 0 else None
