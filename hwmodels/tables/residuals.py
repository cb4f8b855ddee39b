"""Ratios of measured to predicted times, interpolated between scattered points.

Not modelled: noise. A measured point counts as exact, an outlier too.
"""

import numpy as np
from numpy.typing import NDArray

from hwmodels.tables.nodes import FADED, REACH, node_above, nodes_of
from sim.interfaces import FloatArray

APART = 4.0
"""Distance along an axis that no grid spans: kinds that never speak for one another."""

_MOST_CORNERS_AXES = 4


class Residuals:
    """Factors `measured / form` at points, interpolated in between.

    The logarithm is averaged over the nearest points, 2 to the power of the axes up to 16, by the
    weights `((R - d) / (R d))^2` (Franke and Little), d being the distance of a point and R that of
    the nearest one left out: the average meets every point and has no jump where a neighbour comes
    or goes. It counts in full up to `REACH` from the nearest point and falls to 0 at `FADED`.

    Where a grid is coarser than an octave along an axis, its median step counts as 1 between its
    points; beyond the outermost ones an octave does.

    Where points lie dense in some axes, all the nearest ones may be on one side along another. On
    an axis of choice factors are therefore linear between those of the values measured.

    Args:
        coordinates: places of the points, no two alike. Shape (points, axes).
        factors: measured over predicted time there, above 0. Shape (points,).
        along: number of the axis with linear factors; None: none.
    """

    def __init__(
        self, coordinates: FloatArray, factors: FloatArray, along: int | None = None
    ) -> None:
        from scipy.spatial import cKDTree  # slow to import, and only tables need it

        order = np.lexsort(coordinates.T)  # ties must not depend on the order of the points
        self._units = np.array([_step(axis) for axis in coordinates.T])
        self._tree = cKDTree(coordinates[order] / self._units)
        self._low, self._high = coordinates.min(axis=0), coordinates.max(axis=0)
        self._logs: FloatArray = np.log(factors[order])
        num_points, num_axes = coordinates.shape
        wanted = 2 ** min(num_axes, _MOST_CORNERS_AXES)
        self._num_neighbours = min(wanted + 1, num_points)
        self._along = along
        self._nodes = np.array([] if along is None else nodes_of(coordinates[:, along].tolist()))

    def factor(self, coordinates: FloatArray) -> FloatArray:
        """Factors at places, shape (places,) of shape (places, axes)."""
        if self._along is None:
            return self._scattered(coordinates)
        place, nodes = coordinates[:, self._along], self._nodes
        at = node_above(nodes, place)
        ends = np.concatenate([coordinates, coordinates])
        ends[:, self._along] = np.concatenate([nodes[at - 1], nodes[at]])
        before, after = np.split(self._scattered(ends), 2)
        share = np.clip((place - nodes[at - 1]) / (nodes[at] - nodes[at - 1]), 0.0, 1.0)
        factors: FloatArray = before + (after - before) * share
        return factors

    def _scattered(self, coordinates: FloatArray) -> FloatArray:
        """Factors of the nearest points alone."""
        distance, index = self._nearest(coordinates, self._num_neighbours)
        far = np.maximum(distance[:, 0], self._beyond(coordinates))
        fade = np.clip((FADED - far) / (FADED - REACH), 0.0, 1.0)
        factors: FloatArray = np.exp(fade * _averaged(distance, self._logs[index]))
        return factors

    def covers(self, coordinates: FloatArray) -> NDArray[np.bool_]:
        """Whether a measured point is within `REACH` of each place. Shape (places,)."""
        distance, _ = self._nearest(coordinates, 1)
        far = np.maximum(distance[:, 0], self._beyond(coordinates))
        is_covered: NDArray[np.bool_] = far <= REACH
        return is_covered

    def _nearest(
        self, coordinates: FloatArray, num_points: int
    ) -> tuple[FloatArray, NDArray[np.int64]]:
        """Distances and numbers of the nearest points, the nearest first: (places, points) each."""
        ranks = np.arange(1, num_points + 1)  # a list keeps the axis where it has one entry
        distance, index = self._tree.query(coordinates / self._units, k=ranks)
        return np.asarray(distance), np.asarray(index)

    def _beyond(self, coordinates: FloatArray) -> FloatArray:
        """How far places are outside the ranges of all axes, shape (places,)."""
        outside = np.maximum(self._low - coordinates, coordinates - self._high)
        beyond: FloatArray = np.maximum(outside.max(axis=1), 0.0)
        return beyond


def _step(axis: FloatArray) -> float:
    """Median step between the values of an axis, at least `REACH`."""
    steps = np.diff(np.unique(axis))
    within = steps[steps < APART]
    return max(float(np.median(within)), REACH) if within.size else REACH


def _averaged(distance: FloatArray, values: FloatArray) -> FloatArray:
    """Weighted means over the neighbours, shape (places,) of shape (places, neighbours)."""
    if distance.shape[1] == 1:
        return values[:, 0]
    is_met = distance[:, 0] == 0.0
    near = np.where(distance[:, :-1] > 0.0, distance[:, :-1], 1.0)
    limit = distance[:, -1:]
    weights = ((limit - distance[:, :-1]) / (limit * near)) ** 2
    weights = np.where(weights.sum(axis=1, keepdims=True) > 0.0, weights, 1.0)  # all equally far
    mean = (weights * values[:, :-1]).sum(axis=1) / weights.sum(axis=1)
    averaged: FloatArray = np.where(is_met, values[:, 0], mean)
    return averaged
