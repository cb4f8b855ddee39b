"""Quantities that jump at events, reduced to their time means over equal spans."""

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

MAX_CELLS = 4_000_000
"""Events times places that are held at once."""


def time_means(times_s: FloatArray, changes: FloatArray, edges_s: FloatArray) -> FloatArray:
    """Exact time means, between edges, of a quantity that is 0 before the first event.

    Args:
        times_s: shape (n,), when it changes; any order.
        changes: shape (n,), by how much.
        edges_s: shape (k + 1,), rising.

    Returns:
        Shape (k,).
    """
    if not len(times_s):
        return np.zeros(len(edges_s) - 1)
    order = np.argsort(times_s, kind="stable")
    times = times_s[order]
    levels = np.cumsum(changes[order])
    areas = np.append(0.0, np.cumsum(levels[:-1] * np.diff(times)))
    before = np.searchsorted(times, edges_s, side="right") - 1
    inside = before >= 0
    last = before.clip(0)
    integral = np.where(inside, areas[last] + levels[last] * (edges_s - times[last]), 0.0)
    means: FloatArray = np.diff(integral) / np.diff(edges_s)
    return means


def imbalance_means(
    starts_s: FloatArray,
    ends_s: FloatArray,
    where: npt.NDArray[np.int64],
    num_places: int,
    edges_s: FloatArray,
) -> FloatArray:
    """Exact time means, between edges, of (largest / mean over places) of what is inside.

    Times at which nothing is inside do not count; NaN where that is all of a span.

    Args:
        starts_s: when each thing comes. Shape (n,).
        ends_s: when it goes, NaN for never. Shape (n,).
        where: its place, 0 to num_places - 1. Shape (n,).
        num_places: how many there are.
        edges_s: shape (k + 1,), rising.

    Returns:
        Shape (k,).
    """
    is_open = np.isnan(ends_s)
    times = np.concatenate([starts_s, ends_s[~is_open]])
    places = np.concatenate([where, where[~is_open]])
    steps = np.concatenate([np.ones(len(where), np.int64), np.full(len(times) - len(where), -1)])
    order = np.argsort(times, kind="stable")
    times, places, steps = times[order], places[order], steps[order]
    ratios = np.zeros(len(times))
    sums = np.cumsum(steps)
    sizes = np.zeros(num_places, dtype=np.int64)
    rows = max(1, MAX_CELLS // num_places)
    for first in range(0, len(times), rows):
        part = slice(first, first + rows)
        changes = np.zeros((len(times[part]), num_places), dtype=np.int64)
        changes[np.arange(len(changes)), places[part]] = steps[part]
        inside = np.cumsum(changes, axis=0) + sizes
        sizes = inside[-1]
        ratios[part] = inside.max(axis=1) * num_places / np.maximum(sums[part], 1)
    is_busy = (sums > 0).astype(np.float64)
    busy = time_means(times, np.diff(is_busy, prepend=0.0), edges_s)
    weighted = time_means(times, np.diff(ratios * is_busy, prepend=0.0), edges_s)
    # Below a billionth of a span it is the dust of the sums.
    means: FloatArray = np.where(busy > 1e-9, weighted / np.where(busy > 1e-9, busy, 1.0), np.nan)
    return means


def spans_as_events(
    starts_s: FloatArray, ends_s: FloatArray, values: FloatArray | float = 1.0
) -> tuple[FloatArray, FloatArray]:
    """Events of a quantity that holds a value during each span; spans may overlap.

    An end of NaN is never reached.
    """
    heights = np.broadcast_to(np.asarray(values, dtype=np.float64), starts_s.shape)
    is_open = np.isnan(ends_s)
    times = np.concatenate([starts_s, ends_s[~is_open]])
    return times, np.concatenate([heights, -heights[~is_open]])
