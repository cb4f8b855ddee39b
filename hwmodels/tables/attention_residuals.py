"""Factors of attention kernels: one set of rows per head shape, made at the first question."""

import numpy as np

from hwmodels.kernels.arrays import Numbers
from hwmodels.kernels.decode_attention import DecodeAttentionModel
from hwmodels.kernels.prefill_attention import PrefillAttentionModel
from hwmodels.tables.axes import HEAD_DIM, octaves
from hwmodels.tables.decode_factors import DecodeFactors
from hwmodels.tables.nodes import nodes_of
from hwmodels.tables.points import MeasuredPoints
from hwmodels.tables.prefill_factors import PrefillFactors
from sim.interfaces import FloatArray


class DecodeResiduals:
    """Measured over predicted times of decode attention.

    Args:
        points: measured.
        form: fitted.

    Attributes:
        split_slots: of the form; another choice of splits was not measured.
    """

    def __init__(self, points: MeasuredPoints, form: DecodeAttentionModel) -> None:
        self.split_slots = form.split_slots
        self._residuals = points.residuals(form)
        self._nodes = nodes_of(octaves(points.columns["context_tokens"]).tolist())
        self._of: dict[tuple[int, int], DecodeFactors] = {}

    def of(self, num_heads: int, num_kv_heads: int, head_dim: int = 128) -> DecodeFactors | None:
        """Factors of a head shape on one GPU; None for a width of a head without points."""
        if head_dim != HEAD_DIM:
            return None
        heads = (num_heads, num_kv_heads)
        if heads not in self._of:
            self._of[heads] = DecodeFactors(self._residuals, self._nodes, *heads)
        return self._of[heads]


class PrefillResiduals:
    """Measured over predicted times of prefill attention.

    Args:
        points: measured.
        form: fitted.
    """

    def __init__(self, points: MeasuredPoints, form: PrefillAttentionModel) -> None:
        self._residuals = points.residuals(form)
        chunk, prefix = points.columns["chunk_tokens"], points.columns["prefix_tokens"]
        self._chunks = nodes_of(octaves(chunk).tolist())
        self._prefixes = nodes_of(octaves(1.0 + prefix / chunk).tolist())
        self._of: dict[tuple[float, float, float], PrefillFactors] = {}

    def of(
        self, batch_size: float, num_heads: float, num_kv_heads: float, head_dim: float = 128
    ) -> PrefillFactors | None:
        """Factors of a batch size and head shape; None for a width of a head without points."""
        if int(head_dim) != HEAD_DIM:
            return None
        key = (batch_size, num_heads, num_kv_heads)
        if key not in self._of:
            self._of[key] = PrefillFactors(self._residuals, self._chunks, self._prefixes, *key)
        return self._of[key]

    def factors(
        self,
        batch_size: Numbers,
        chunk_tokens: Numbers,
        prefix_tokens: Numbers,
        num_heads: Numbers,
        num_kv_heads: Numbers,
        head_dim: Numbers,
    ) -> FloatArray:
        """Factors of calls that broadcast."""
        arrays = np.broadcast_arrays(
            batch_size, chunk_tokens, prefix_tokens, num_heads, num_kv_heads, head_dim
        )
        found = np.ones(arrays[0].size)
        calls = np.stack([array.reshape(-1).astype(np.float64) for array in arrays], axis=1)
        for place, (batch, chunk, prefix, heads, kv_heads, width) in enumerate(calls.tolist()):
            factors = self.of(batch, heads, kv_heads, width)
            if factors is not None:
                found[place] = factors.factor(chunk, prefix)
        return found.reshape(arrays[0].shape)
