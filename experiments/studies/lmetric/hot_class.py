"""A class of requests behind one long prefix among others, and how its load is spread."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from experiments.studies.lmetric.measures import HOT, FloatArray, RunTable
from experiments.studies.lmetric.sources import FLOOD_FACTOR, Source

NUM_REQUESTS: Mapping[str, int] = {"quick": 5000, "full": 15_000}
"""Of both classes."""

BURST_PART = 0.1
"""Part of the others' requests that come before the first of the class."""

RATE_PER_S = 20.0

NUM_SAMPLES = 400
"""Times at which the load is looked at."""

_BACKGROUND = {
    "prompt": "{kind: lognormal, mean: 4000, cv: 1, low: 64, high: 20000}",
    "output": "{kind: lognormal, mean: 400, cv: 1, low: 1, high: 2000}",
}
"""Ours: prompts as long as half of Mooncake's, so that a minute holds the requests of a trace."""


def hot_source(share: float, prefix_tokens: int) -> Source:
    """A trace whose class has this share of the arrivals while it lasts.

    Args:
        share: of the class, > 0 and < 1.
        prefix_tokens: what its prompts share.
    """
    return Source(
        label="hot class",
        generated={size: _sections(share, prefix_tokens, n) for size, n in NUM_REQUESTS.items()},
        generated_flood={
            size: _sections(share, prefix_tokens, FLOOD_FACTOR * n)
            for size, n in NUM_REQUESTS.items()
        },
    )


def _sections(share: float, prefix_tokens: int, num_requests: int) -> dict[str, str]:
    lasts_s = num_requests / RATE_PER_S
    rest, hot = "trace.parts.rest.trace", f"trace.parts.{HOT}.trace"
    num_rest = round(num_requests * (1 - share))
    num_hot = round(num_requests * share * (1 - BURST_PART))
    return {
        "trace": "mix",
        "~trace.parts.chat": "",
        "~trace.parts.batch": "",
        f"+trace@{rest}": "synthetic",
        f"{rest}.num_requests": f"{num_rest}",
        f"{rest}.rate_per_s": f"{RATE_PER_S * (1 - share):.6g}",
        f"~{rest}.prompt": "",
        f"+{rest}.prompt": _BACKGROUND["prompt"],
        f"~{rest}.output": "",
        f"+{rest}.output": _BACKGROUND["output"],
        f"+trace@{hot}": "prefix_groups",
        f"{hot}.num_groups": "1",
        f"{hot}.prefix_tokens": f"{prefix_tokens}",
        f"{hot}.num_requests": f"{num_hot}",
        f"{hot}.rate_per_s": f"{RATE_PER_S * share:.6g}",
        f"~{hot}.output": "",
        f"+{hot}.output": _BACKGROUND["output"],
        f"+trace.parts.{HOT}.start_s": f"{BURST_PART * lasts_s:.6g}",
    }


@dataclass(frozen=True, slots=True)
class Balance:
    """How a class and the others lay on the instances of a run, from its first request on.

    Attributes:
        num_holders: |M|, mean over the arrivals of the class.
        condition: x / x_bar over |M| / |M_bar|, of the means; above 1 the paper's fluid model lets
            the holders' load grow beyond that of the others.
        violated: share of the class's arrivals at which that ratio, of that moment, is above 1.
        with_stay: the same times the ratio of the classes' mean times in the system.
        load_ratio: requests per holder over requests per other instance, means over time; NaN where
            all are holders.
        stay_ratio: mean time in the system of the class over that of the others.
        on_holders: share of the class that went to instances which held its prefix.
    """

    num_holders: float
    condition: float
    violated: float
    with_stay: float
    load_ratio: float
    stay_ratio: float
    on_holders: float


def balance_of(run: RunTable, num_instances: int) -> Balance:
    """Measure a run.

    Args:
        run: its requests, of which some are hot.
        num_instances: of the cluster.
    """
    is_hot = run.values("is_hot") > 0
    arrival_s, finish_s = run.values("arrival_s"), run.values("finish_s")
    instance = run.values("instance")
    held_from_s = np.full(num_instances, np.inf)
    is_known = is_hot & ~np.isnan(run.values("first_token_s"))
    np.minimum.at(
        held_from_s, instance[is_known].astype(int), run.values("first_token_s")[is_known]
    )
    begin_s, end_s = float(arrival_s[is_hot].min()), float(arrival_s.max())
    times_s = np.linspace(begin_s, end_s, NUM_SAMPLES, endpoint=False)
    sizes = _sizes(times_s, arrival_s, finish_s, instance, num_instances)
    holds = held_from_s[np.newaxis, :] <= times_s[:, np.newaxis]
    is_split = holds.any(axis=1) & ~holds.all(axis=1)
    on = _mean(sizes[is_split][holds[is_split]])
    off = _mean(sizes[is_split][~holds[is_split]])
    hot_s, later = arrival_s[is_hot], arrival_s >= begin_s
    holders = (held_from_s[np.newaxis, :] <= hot_s[:, np.newaxis]).sum(axis=1)
    share = float(is_hot[later].mean())
    num_holders = float(holders.mean())
    stays = finish_s - arrival_s
    stay_ratio = _mean(stays[is_hot]) / _mean(stays[~is_hot & later])
    others = num_instances - num_holders
    condition = share / (1 - share) / (num_holders / others) if others > 0 else 0.0
    hits = held_from_s[instance[is_hot].astype(int)] <= hot_s
    return Balance(
        num_holders=num_holders,
        condition=condition,
        violated=float((share * (num_instances - holders) > (1 - share) * holders).mean()),
        with_stay=condition * stay_ratio,
        load_ratio=on / off if off else float("nan"),
        stay_ratio=stay_ratio,
        on_holders=float(hits.mean()),
    )


def _sizes(
    times_s: FloatArray,
    arrival_s: FloatArray,
    finish_s: FloatArray,
    instance: FloatArray,
    num_instances: int,
) -> FloatArray:
    """Requests in each instance at some times. Shape (times, instances)."""
    sizes = np.empty((len(times_s), num_instances))
    for k in range(num_instances):
        own = instance == k
        came = np.searchsorted(np.sort(arrival_s[own]), times_s, side="right")
        gone = np.searchsorted(np.sort(finish_s[own]), times_s, side="right")
        sizes[:, k] = came - gone
    return sizes


def _mean(values: FloatArray) -> float:
    return float(np.nanmean(values)) if len(values) else float("nan")
