"""Gaps between consecutive tokens (ITL), as values with weights instead of one number per token.

Inside a decode interval the gaps are step durations, shared by all requests that decode in the
step; between two intervals of a preempted request lies one longer gap, counted whole.
"""

import numpy as np
import numpy.typing as npt

from sim.records import SimulationResult

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


def token_gaps(
    result: SimulationResult, is_counted: npt.NDArray[np.bool_] | None = None
) -> tuple[FloatArray, IntArray]:
    """Gaps of finished requests: (seconds, how many gaps have this length), unsorted.

    Args:
        result: the records.
        is_counted: requests that count, None for all. Shape (n,).
    """
    gaps: list[FloatArray] = []
    weights: list[IntArray] = []
    for index, instance in enumerate(result.instances):
        rows, first, last = result.requests.intervals(index, completed_only=True)
        if is_counted is not None:
            kept = is_counted[rows]
            rows, first, last = rows[kept], first[kept], last[kept]
        ends = instance.step_end_s
        change = np.bincount(first, minlength=len(ends) + 1)[: len(ends) + 1]
        change -= np.bincount(last, minlength=len(ends) + 1)[: len(ends) + 1]
        # entry k - 1: requests whose tokens of steps k - 1 and k lie in one interval
        decoding = np.cumsum(change)[1:-1] if len(ends) > 1 else np.empty(0, np.int64)
        has_gap = decoding > 0
        gaps.append(np.diff(ends)[has_gap])
        weights.append(decoding[has_gap])
        follows = np.flatnonzero(rows[1:] == rows[:-1])
        gaps.append(ends[first[follows + 1] - 1] - ends[last[follows] - 1])
        weights.append(np.ones(len(follows), dtype=np.int64))
    if result.handover is not None:
        after_s = _gaps_at_hand_over(result, is_counted)
        gaps.append(after_s)
        weights.append(np.ones(len(after_s), dtype=np.int64))
    return np.concatenate(gaps), np.concatenate(weights)


def _gaps_at_hand_over(
    result: SimulationResult, is_counted: npt.NDArray[np.bool_] | None
) -> FloatArray:
    """From the first token, on a prefill instance, to the second one, on a decode instance."""
    requests, handover = result.requests, result.handover
    assert handover is not None
    is_told = handover.is_handed_over & requests.is_completed
    if is_counted is not None:
        is_told = is_told & is_counted
    gaps = np.full(len(is_told), np.nan)
    for index, instance in enumerate(result.instances):
        rows = np.flatnonzero(is_told & (requests.instance == index))
        second_s = instance.step_end_s[requests.first_step[rows] - 1]
        gaps[rows] = second_s - requests.first_token_s[rows]
    return gaps[is_told]


def weighted_percentiles(
    values: FloatArray, weights: IntArray, percentiles: list[float]
) -> list[float]:
    """Percentiles of values repeated `weights` times, by linear interpolation.

    Equals ``np.percentile(np.repeat(values, weights), percentiles)``. At least one weight > 0.
    """
    order = np.argsort(values, kind="stable")
    ranked = values[order]
    ends = np.cumsum(weights[order])
    total = int(ends[-1])
    found: list[float] = []
    for percentile in percentiles:
        position = percentile / 100 * (total - 1)
        below = int(position)
        low = float(ranked[np.searchsorted(ends, below, side="right")])
        above = min(below + 1, total - 1)
        high = float(ranked[np.searchsorted(ends, above, side="right")])
        found.append(low + (high - low) * (position - below))
    return found
