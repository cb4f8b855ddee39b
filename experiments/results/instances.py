"""What each instance of a cluster got and found in its cache, for result.json."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from sim.front_end_records import engine_view
from sim.metrics import BoolArray, Metrics
from sim.records import SimulationResult


def instance_metrics(result: SimulationResult, is_counted: BoolArray) -> list[Metrics]:
    """One row per instance.

    Requests, their share and their hits are over those that count; `mean_requests` is the time mean
    of requests in the system (waiting or running) from the first arrival to the last end of the
    whole run. A request that is handed over counts where it was prefilled, its hit too, until it
    joins the decode batch, and then where it decodes.

    Args:
        result: the records.
        is_counted: requests that count. Shape (n,).
    """
    requests, prompts = result.requests, result.workload.prompt_tokens
    entered, handed_over = _entered(result), _handed_over(result)
    sojourns = _request_seconds(result)
    first_s, last_s = requests.arrival_span_s
    ends_s = requests.finish_s[requests.is_completed]
    last_s = max(last_s, float(ends_s.max())) if len(ends_s) else last_s
    if result.num_unfinished:
        last_s = result.end_s
    sent = int(np.count_nonzero(is_counted & (requests.instance >= 0)))
    rows: list[Metrics] = []
    for index in range(len(result.instances)):
        came = (entered == index) & is_counted
        num_here = int(np.count_nonzero(came))
        num_here += int(np.count_nonzero(handed_over & is_counted & (requests.instance == index)))
        is_admitted = came & (requests.cached_tokens >= 0)
        prompt_tokens = int(prompts[is_admitted].sum())
        cached_tokens = int(requests.cached_tokens[is_admitted].sum())
        rows.append(
            {
                "num_requests": num_here,
                "request_share_ratio": _ratio(num_here, sent),
                "prompt_tokens": prompt_tokens,
                "cached_tokens": cached_tokens,
                "prefix_hit_ratio": _ratio(cached_tokens, prompt_tokens),
                "mean_requests": _ratio(sojourns[index], last_s - first_s),
            }
        )
    return rows


def _handed_over(result: SimulationResult) -> BoolArray:
    """Which requests went on to another instance. Shape (n,)."""
    if result.handover is None:
        return np.zeros(result.workload.num_requests, dtype=np.bool_)
    return result.handover.is_handed_over


def _entered(result: SimulationResult) -> npt.NDArray[np.int64]:
    """The first instance of each request, -1 where none. Shape (n,)."""
    if result.handover is None:
        return result.requests.instance
    first = result.handover.prefill_instance
    return np.where(first >= 0, first, result.requests.instance)


def _request_seconds(result: SimulationResult) -> Sequence[float]:
    """Sum of the times that requests spent on each instance, seconds."""
    requests = engine_view(result).requests
    entered, handed_over = _entered(result), _handed_over(result)
    is_here = entered >= 0
    end_s = np.where(requests.is_completed, requests.finish_s, result.end_s)
    left_s = end_s
    sums = np.zeros(len(result.instances))
    if result.handover is not None:
        joined_s = result.handover.decode_start_s
        left_s = np.where(handed_over & ~np.isnan(joined_s), joined_s, end_s)
        is_joined = handed_over & ~np.isnan(joined_s)
        spent_s = (end_s - joined_s)[is_joined]
        sums += np.bincount(requests.instance[is_joined], spent_s, minlength=len(sums))
    spent_s = (left_s - requests.arrival_s)[is_here]
    sums += np.bincount(entered[is_here], spent_s, minlength=len(sums))
    return [float(seconds) for seconds in sums]


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole > 0 else None
