"""Measured over predicted prefill attention by chunk and prefix, fast for one number.

Chunks and contexts per chunk token (`1 + prefix / chunk`) lie on nodes: those measured, and the
ends of their reach. Within a cell of nodes the factor is bilinear in the logarithms.
"""

from bisect import bisect_right
from math import log2
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hwmodels.kernels.arrays import Numbers
from hwmodels.tables.axes import prefill_places
from hwmodels.tables.residuals import Residuals
from sim.interfaces import FloatArray


class _Cell(NamedTuple):
    """Corner of a cell, one over its sides, and factors `a + b x + c y + d x y` within it."""

    chunk_octave: float
    prefix_octave: float
    chunk_ratio: float
    prefix_ratio: float
    constant: float
    by_chunk: float
    by_prefix: float
    by_both: float


class PrefillFactors:
    """Factors of prefill chunks of one batch size and head shape.

    Args:
        residuals: of prefill attention.
        chunk_octaves: nodes of the chunk, ascending; see `hwmodels.tables.nodes`.
        prefix_octaves: nodes of `1 + prefix / chunk`, ascending.
        batch_size: equal chunks in one call.
        num_heads: query heads on one GPU.
        num_kv_heads: KV heads on one GPU.
    """

    def __init__(
        self,
        residuals: Residuals,
        chunk_octaves: list[float],
        prefix_octaves: list[float],
        batch_size: float,
        num_heads: float,
        num_kv_heads: float,
    ) -> None:
        self._residuals = residuals
        self._chunks, self._prefixes = chunk_octaves, prefix_octaves
        self._batch_size, self._heads = batch_size, (num_heads, num_kv_heads)
        self._cells: dict[tuple[int, int], _Cell] = {}

    def factor(self, chunk_tokens: float, prefix_tokens: float) -> float:
        """Factor of one call; 1 where nothing was measured.

        Args:
            chunk_tokens: new tokens, >= 1.
            prefix_tokens: context before them, >= 0.
        """
        chunk, prefix = log2(chunk_tokens), log2(1.0 + prefix_tokens / chunk_tokens)
        key = (bisect_right(self._chunks, chunk), bisect_right(self._prefixes, prefix))
        cell = self._cells.get(key) or self._cell(key)
        x = (chunk - cell.chunk_octave) * cell.chunk_ratio
        y = (prefix - cell.prefix_octave) * cell.prefix_ratio
        return cell.constant + cell.by_chunk * x + (cell.by_prefix + cell.by_both * x) * y

    def factors(self, chunk_tokens: Numbers, prefix_tokens: Numbers) -> FloatArray:
        """The same for arrays, which broadcast."""
        chunk, prefix = np.broadcast_arrays(
            np.asarray(chunk_tokens, dtype=np.float64), np.asarray(prefix_tokens, dtype=np.float64)
        )
        pairs = zip(chunk.ravel().tolist(), prefix.ravel().tolist(), strict=True)
        return np.array([self.factor(*pair) for pair in pairs]).reshape(chunk.shape)

    def covers(self, chunk_tokens: Numbers, prefix_tokens: Numbers) -> NDArray[np.bool_]:
        """Whether a measured point is near a call; arrays broadcast."""
        chunk = np.asarray(chunk_tokens, dtype=np.float64)
        ratio = 1.0 + np.asarray(prefix_tokens, dtype=np.float64) / chunk
        places = prefill_places(self._batch_size, chunk, ratio, *self._heads)
        covered: NDArray[np.bool_] = self._residuals.covers(places).reshape(ratio.shape)
        return covered

    def _cell(self, key: tuple[int, int]) -> _Cell:
        """Constants of a cell by the numbers of the nodes above its lower corner."""
        x_at, y_at = key
        chunks, prefixes = self._chunks, self._prefixes
        if not 0 < x_at < len(chunks) or not 0 < y_at < len(prefixes):
            found = self._cells[key] = _Cell(0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0)
            return found
        low_x, high_x = chunks[x_at - 1], chunks[x_at]
        low_y, high_y = prefixes[y_at - 1], prefixes[y_at]
        places = prefill_places(
            self._batch_size,
            np.exp2([low_x, high_x, low_x, high_x]),
            np.exp2([low_y, low_y, high_y, high_y]),
            *self._heads,
        )
        corner, along, above, across = self._residuals.factor(places).tolist()
        found = self._cells[key] = _Cell(
            chunk_octave=low_x,
            prefix_octave=low_y,
            chunk_ratio=1.0 / (high_x - low_x),
            prefix_ratio=1.0 / (high_y - low_y),
            constant=corner,
            by_chunk=along - corner,
            by_prefix=above - corner,
            by_both=across - along - above + corner,
        )
        return found
