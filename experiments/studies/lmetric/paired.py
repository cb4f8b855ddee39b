"""Differences of two runs on the same requests, with bootstrap intervals over windows of the trace.

A window is so many requests in a row of one run (seed, or stretches of a recording drawn anew).
Windows are drawn with replacement, the same ones for all policies, since all of them saw the same
requests.

`experiments.stats.noise_floor` compares means over units that were simulated apart; here a unit is
a part of a run, and percentiles are of all requests. What is noise is defined as there.

Source: block bootstrap for dependent data (Kuensch 1989), with blocks at fixed places.
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from experiments.stats.intervals import BOOTSTRAP_SEED, Interval

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

NUM_WINDOWS = 16
"""Windows of a run."""

NUM_RESAMPLES = 999
LEVEL = 0.95

_CHUNK = 50
"""Resamples at a time: they take as many times the memory of the values."""


def bootstrap(runs: Sequence[FloatArray], percentile: float | None = None) -> FloatArray:
    """A statistic of the values of all runs, then of each resample of their windows.

    Args:
        runs: one value per request, in the order of the trace; NaN counts nowhere.
        percentile: 0 to 100; None is the mean.

    Returns:
        Shape (1 + NUM_RESAMPLES,); NaN where a resample has no value.
    """
    windows = np.concatenate(
        [_windows(len(values)) + k * NUM_WINDOWS for k, values in enumerate(runs)]
    )
    values = np.concatenate(runs)
    is_known = ~np.isnan(values)
    values, windows = values[is_known], windows[is_known]
    weights = _weights(NUM_WINDOWS * len(runs))
    if percentile is None:
        return _means(values, windows, weights)
    return _percentiles(values, windows, weights, percentile / 100)


def change(mine: FloatArray, other: FloatArray) -> Interval:
    """Relative difference of two statistics on the same windows: mine / other - 1.

    Args:
        mine: from `bootstrap`.
        other: likewise.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        ratios = mine / other - 1
    known = ratios[1:][np.isfinite(ratios[1:])]
    if not len(known) or not np.isfinite(ratios[0]):
        nan = float("nan")
        return Interval(nan, nan, nan, 0)
    tail = 100 * (1 - LEVEL) / 2
    low, high = np.percentile(known, [tail, 100 - tail])
    return Interval(float(ratios[0]), float(low), float(high), len(known))


def floor_of(placebos: Sequence[Interval]) -> float:
    """The farthest from 0 that an interval of a placebo reaches; 0 without placebos."""
    ends = [abs(end) for one in placebos for end in (one.low, one.high)]
    return max((end for end in ends if np.isfinite(end)), default=0.0)


def _windows(num_requests: int) -> IntArray:
    """Window of each request of a run."""
    return np.arange(num_requests) * NUM_WINDOWS // max(num_requests, 1)


@lru_cache(maxsize=8)
def _weights(num_windows: int) -> IntArray:
    """How often each window is drawn; first, once each. Shape (resamples + 1, windows)."""
    rng = np.random.default_rng(BOOTSTRAP_SEED)
    drawn = rng.multinomial(num_windows, np.full(num_windows, 1 / num_windows), NUM_RESAMPLES)
    return np.vstack([np.ones((1, num_windows), dtype=np.int64), drawn])


def _means(values: FloatArray, windows: IntArray, weights: IntArray) -> FloatArray:
    num_windows = weights.shape[1]
    sums = np.bincount(windows, weights=values, minlength=num_windows)
    counts = np.bincount(windows, minlength=num_windows)
    with np.errstate(invalid="ignore", divide="ignore"):
        means: FloatArray = (weights @ sums) / (weights @ counts)
    return means


def _percentiles(
    values: FloatArray, windows: IntArray, weights: IntArray, share: float
) -> FloatArray:
    """Smallest value that at least this share of the values of a resample does not exceed."""
    if not len(values):
        return np.full(len(weights), np.nan)
    order = np.argsort(values, kind="stable")
    ranked, of_rank = values[order], windows[order]
    found = np.empty(len(weights))
    for first in range(0, len(weights), _CHUNK):
        below = np.cumsum(weights[first : first + _CHUNK, of_rank], axis=1, dtype=np.int64)
        least = np.ceil(share * below[:, -1:]).clip(min=1)
        place = (below >= least).argmax(axis=1)
        empty = below[:, -1] == 0
        found[first : first + _CHUNK] = np.where(empty, np.nan, ranked[place])
    return found
