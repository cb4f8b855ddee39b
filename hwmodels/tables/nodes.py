"""Nodes of an axis along which factors are linear."""

from collections.abc import Iterable
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from sim.interfaces import FloatArray

REACH = 1.0
"""Distance up to which a measured point speaks for its surroundings: an octave along one axis.
Chosen: a cell of a grid of octaves in three axes lies within 0.87 of its corners."""

FADED = 2.0
"""Distance from which on nothing measured counts. Chosen: twice the reach."""

SAME = 1e-9
"""Distance of values that are one."""


def nodes_of(measured: Iterable[float]) -> list[float]:
    """Ascending nodes: the values measured, and where their reach ends beside a wide gap.

    Args:
        measured: octaves of at least one point.
    """
    values = distinct(measured)
    edges = [(-np.inf, values[0]), *pairwise(values), (values[-1], np.inf)]
    nodes = list(values)
    for low, high in edges:
        for step in (REACH, FADED):
            if 2 * step <= high - low:
                nodes += [edge for edge in (low + step, high - step) if np.isfinite(edge)]
    return distinct(nodes)


def distinct(values: Iterable[float]) -> list[float]:
    """Ascending values that differ by more than `SAME`."""
    ordered = sorted(set(values))
    kept = ordered[:1]
    kept += [after for before, after in pairwise(ordered) if after - before > SAME]
    return kept


def node_above(nodes: FloatArray, places: FloatArray) -> NDArray[np.int64]:
    """Number of the upper node of the cell that holds each place; the last cells are open."""
    above: NDArray[np.int64] = np.searchsorted(nodes, places, side="right")
    return np.clip(above, 1, len(nodes) - 1)
