"""Measured over predicted decode attention by batch size and mean context, fast for one number.

Contexts lie on nodes: those measured, and the ends of their reach. Between two nodes the factor is
linear in the logarithm of the context, so that a run of steps costs one row of factors.
"""

from bisect import bisect_right
from math import log2

import numpy as np
from numpy.typing import NDArray

from hwmodels.kernels.arrays import Numbers
from hwmodels.tables.axes import decode_places, octaves
from hwmodels.tables.nodes import SAME, node_above
from hwmodels.tables.residuals import Residuals
from sim.interfaces import FloatArray


class DecodeFactors:
    """Factors of the decode batches of one head shape.

    Args:
        residuals: of decode attention.
        context_octaves: nodes, ascending; see `hwmodels.tables.nodes`.
        num_heads: query heads on one GPU.
        num_kv_heads: KV heads on one GPU.
    """

    def __init__(
        self,
        residuals: Residuals,
        context_octaves: list[float],
        num_heads: int,
        num_kv_heads: int,
    ) -> None:
        self._residuals = residuals
        self._nodes = context_octaves
        self._node_array = np.array(context_octaves)
        self._heads = (num_heads, num_kv_heads)
        self._first, self._last = context_octaves[0], context_octaves[-1]
        self._rows: dict[float, list[float]] = {}
        self._covered: dict[float, NDArray[np.bool_]] = {}

    def factor(self, batch_size: float, mean_context_tokens: float) -> float:
        """Factor of one batch; 1 where nothing was measured.

        Args:
            batch_size: requests, >= 1.
            mean_context_tokens: mean of their contexts, >= 1.
        """
        row = self._rows.get(batch_size) or self._row(batch_size)
        place = log2(mean_context_tokens)
        if place <= self._first or place >= self._last:
            return 1.0
        nodes = self._nodes
        at = bisect_right(nodes, place)
        low, before = nodes[at - 1], row[at - 1]
        return before + (row[at] - before) * ((place - low) / (nodes[at] - low))

    def factors(self, batch_size: Numbers, mean_context_tokens: Numbers) -> FloatArray:
        """The same for arrays, which broadcast."""
        batch, mean = np.broadcast_arrays(
            np.asarray(batch_size, dtype=np.float64),
            np.asarray(mean_context_tokens, dtype=np.float64),
        )
        sizes, which = np.unique(batch, return_inverse=True)
        rows = np.array([self._rows.get(size) or self._row(size) for size in sizes.tolist()])
        place, at = self._cells(mean)
        row, low = which.reshape(batch.shape), self._node_array[at - 1]
        before = rows[row, at - 1]
        share = (place - low) / (self._node_array[at] - low)
        inside = (place > self._first) & (place < self._last)
        factors: FloatArray = np.where(inside, before + (rows[row, at] - before) * share, 1.0)
        return factors

    def covers(self, batch_size: Numbers, mean_context_tokens: Numbers) -> NDArray[np.bool_]:
        """Whether measured points are near a batch: at both nodes about its mean context."""
        batch, mean = np.broadcast_arrays(
            np.asarray(batch_size, dtype=np.float64),
            np.asarray(mean_context_tokens, dtype=np.float64),
        )
        sizes, which = np.unique(batch, return_inverse=True)
        near = np.stack([self._covered_row(size) for size in sizes.tolist()])
        place, at = self._cells(mean)
        row = which.reshape(batch.shape)
        is_node = np.abs(place - self._node_array[at - 1]) <= SAME
        is_covered = near[row, at - 1] & (near[row, at] | is_node)
        inside = (place >= self._first) & (place <= self._last)
        covered: NDArray[np.bool_] = is_covered & inside
        return covered

    def _cells(self, mean: FloatArray) -> tuple[FloatArray, NDArray[np.int64]]:
        """Octaves of contexts, and the node above each, within the nodes."""
        place = octaves(mean)
        return place, node_above(self._node_array, place)

    def _places(self, batch_size: float) -> FloatArray:
        return decode_places(batch_size, 2.0**self._node_array, *self._heads)

    def _row(self, batch_size: float) -> list[float]:
        found: list[float] = self._residuals.factor(self._places(batch_size)).tolist()
        self._rows[batch_size] = found
        return found

    def _covered_row(self, batch_size: float) -> NDArray[np.bool_]:
        if batch_size not in self._covered:
            self._covered[batch_size] = self._residuals.covers(self._places(batch_size))
        return self._covered[batch_size]
