"""Quantities that jump at events, reduced to their time means over equal spans."""

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]


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
