"""Arrivals: rate over time and burstiness."""

from dataclasses import dataclass

import numpy as np

from sim.workload import FloatArray, IntArray, Workload

FANO_WINDOWS_S = (0.1, 1.0, 10.0, 60.0, 600.0)
"""Lengths of the windows in which arrivals are counted."""

FEWEST_WINDOWS = 10
"""Fewer windows give no variance worth the name."""

MOST_BINS = 150
_STEPS = (1.0, 2.0, 5.0)


@dataclass(frozen=True, slots=True)
class Burstiness:
    """How far arrivals are from regular (0) and from a Poisson process (1).

    Attributes:
        mean_rate_per_s: gaps over the time from the first to the last arrival; None if that is 0.
        inter_arrival_cv: standard deviation over mean of the gaps between arrivals, or None.
        fano: variance over mean of the arrivals in windows of so many seconds, from the first
            arrival on, whole windows only.
    """

    mean_rate_per_s: float | None
    inter_arrival_cv: float | None
    fano: dict[float, float]


@dataclass(frozen=True, slots=True)
class RateOverTime:
    """Load in bins of equal length.

    Attributes:
        start_s: beginning of each bin, seconds. Shape (num_bins,).
        bin_s: length of a bin, seconds.
        requests_per_s: arrivals in each bin over its length.
        prompt_tokens_per_s: their prompt tokens over its length.
        output_tokens_per_s: their output tokens over its length.
    """

    start_s: FloatArray
    bin_s: float
    requests_per_s: FloatArray
    prompt_tokens_per_s: FloatArray
    output_tokens_per_s: FloatArray


def burstiness(arrival_s: FloatArray) -> Burstiness:
    """Burstiness of arrivals in order of time."""
    span_s = float(arrival_s[-1] - arrival_s[0])
    if not span_s > 0:
        return Burstiness(None, None, {})
    gaps = np.diff(arrival_s)
    fano = {}
    for window_s in FANO_WINDOWS_S:
        num_windows = int(span_s / window_s)
        if num_windows >= FEWEST_WINDOWS:
            counts = _counts(arrival_s - arrival_s[0], window_s, num_windows)
            fano[window_s] = float(counts.var() / counts.mean())
    return Burstiness(len(gaps) / span_s, float(gaps.std() / gaps.mean()), fano)


def rate_over_time(workload: Workload) -> RateOverTime:
    """Load over time in bins of 1, 2 or 5 times a power of ten seconds."""
    arrival_s = workload.arrival_s
    first_s, last_s = float(arrival_s[0]), float(arrival_s[-1])
    bin_s = _bin_length_s(last_s - first_s)
    first = np.floor(first_s / bin_s)
    index = np.floor(arrival_s / bin_s).astype(np.int64) - int(first)
    num_bins = int(index[-1]) + 1

    def per_s(weights: IntArray | None) -> FloatArray:
        values: FloatArray = np.bincount(index, weights, num_bins) / bin_s
        return values

    return RateOverTime(
        start_s=(first + np.arange(num_bins)) * bin_s,
        bin_s=bin_s,
        requests_per_s=per_s(None),
        prompt_tokens_per_s=per_s(workload.prompt_tokens),
        output_tokens_per_s=per_s(workload.output_tokens),
    )


def _counts(time_s: FloatArray, window_s: float, num_windows: int) -> IntArray:
    index = np.floor(time_s / window_s).astype(np.int64)
    counts: IntArray = np.bincount(index[index < num_windows], minlength=num_windows)
    return counts


def _bin_length_s(span_s: float) -> float:
    """Shortest round length of which at most `MOST_BINS` cover the span."""
    if not span_s > 0:
        return 1.0
    least_s = span_s / MOST_BINS
    power = 10.0 ** np.floor(np.log10(least_s))
    lengths = (*(step * power for step in _STEPS), 10.0 * power)
    return float(next(length for length in lengths if length >= least_s * (1 - 1e-9)))
