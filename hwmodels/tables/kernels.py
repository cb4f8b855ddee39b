"""Kernel models whose price is the fitted form times what a table measured over it.

Each takes the place of its form in `KernelModels`: same parameters, same `time_s`. Prices are those
measured at measured points and those of the form far from them; in between they need be neither
monotone nor above the bound of the datasheet, as little as the measurements are.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hwmodels.kernels.all_reduce import AllReduceModel
from hwmodels.kernels.arrays import Numbers, as_times
from hwmodels.kernels.decode_attention import DecodeAttentionModel
from hwmodels.kernels.gemm import GemmModel
from hwmodels.kernels.moe import MoeModel
from hwmodels.kernels.prefill_attention import PrefillAttentionModel
from hwmodels.tables.attention_residuals import DecodeResiduals, PrefillResiduals
from hwmodels.tables.axes import all_reduce_places, gemm_places, moe_places
from hwmodels.tables.residuals import Residuals
from sim.interfaces import FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class TabledGemm(GemmModel):
    """Dense products.

    Attributes:
        residuals: measured over predicted time.
    """

    residuals: Residuals

    def time_s(self, m: Numbers, n: Numbers, k: Numbers) -> FloatArray:
        """Seconds of the product; arrays broadcast, scalars give a float."""
        form_s = GemmModel.time_s(self, m, n, k)
        return _times(form_s, self.residuals.factor(gemm_places(m, n, k)))

    def covers(self, m: Numbers, n: Numbers, k: Numbers) -> NDArray[np.bool_]:
        """Whether measured points are near; arrays broadcast."""
        return _shaped(self.residuals.covers(gemm_places(m, n, k)), m, n, k)


@dataclass(frozen=True, slots=True, kw_only=True)
class TabledMoe(MoeModel):
    """Routed experts.

    Attributes:
        residuals: measured over predicted time.
    """

    residuals: Residuals

    def time_s(
        self,
        num_tokens: Numbers,
        hidden_size: Numbers,
        intermediate_size: Numbers,
        top_k: Numbers,
        num_experts: Numbers,
    ) -> FloatArray:
        """Seconds of one layer's experts; arrays broadcast, scalars give a float."""
        sizes = (num_tokens, hidden_size, intermediate_size, top_k, num_experts)
        return _times(MoeModel.time_s(self, *sizes), self.residuals.factor(moe_places(*sizes)))

    def covers(
        self,
        num_tokens: Numbers,
        hidden_size: Numbers,
        intermediate_size: Numbers,
        top_k: Numbers,
        num_experts: Numbers,
    ) -> NDArray[np.bool_]:
        """Whether measured points are near; arrays broadcast."""
        sizes = (num_tokens, hidden_size, intermediate_size, top_k, num_experts)
        return _shaped(self.residuals.covers(moe_places(*sizes)), *sizes)


@dataclass(frozen=True, slots=True, kw_only=True)
class TabledAllReduce(AllReduceModel):
    """All-reduce inside a node.

    Attributes:
        residuals: measured over predicted time.
    """

    residuals: Residuals

    def time_s(self, num_bytes: Numbers, num_gpus: Numbers) -> FloatArray:
        """Seconds; 0 for one GPU. Arrays broadcast, scalars give a float."""
        form_s = AllReduceModel.time_s(self, num_bytes, num_gpus)
        return _times(form_s, self.residuals.factor(all_reduce_places(num_bytes, num_gpus)))

    def covers(self, num_bytes: Numbers, num_gpus: Numbers) -> NDArray[np.bool_]:
        """Whether measured points are near; arrays broadcast."""
        near = self.residuals.covers(all_reduce_places(num_bytes, num_gpus))
        return _shaped(near, num_bytes, num_gpus)


@dataclass(frozen=True, slots=True, kw_only=True)
class TabledDecodeAttention(DecodeAttentionModel):
    """Attention of decode batches.

    Tables hold equal contexts: a batch has the factor of its size and mean context, and the form's
    straggler. Bytes that L2 serves change the form, not the factor.

    Attributes:
        residuals: measured over predicted time.
    """

    residuals: DecodeResiduals

    def time_s(
        self,
        batch_size: Numbers,
        context_tokens_sum: Numbers,
        context_tokens_max: Numbers,
        sum_squares: Numbers,
        num_heads: int,
        num_kv_heads: int,
        head_dim: int = 128,
        hbm_bytes: Numbers | None = None,
    ) -> FloatArray:
        """Seconds of one layer; arrays broadcast (one entry per step), scalars give a float."""
        form_s = DecodeAttentionModel.time_s(
            self,
            batch_size,
            context_tokens_sum,
            context_tokens_max,
            sum_squares,
            num_heads,
            num_kv_heads,
            head_dim,
            hbm_bytes,
        )
        factors = self.residuals.of(num_heads, num_kv_heads, head_dim)
        # Another choice of splits is another kernel, which nobody measured.
        if factors is None or self.split_slots != self.residuals.split_slots:
            return form_s
        batch = np.asarray(batch_size, dtype=np.float64)
        mean = np.asarray(context_tokens_sum, dtype=np.float64) / batch
        return as_times(form_s * factors.factors(batch, mean))


@dataclass(frozen=True, slots=True, kw_only=True)
class TabledPrefillAttention(PrefillAttentionModel):
    """Attention of prefill chunks.

    Attributes:
        residuals: measured over predicted time.
    """

    residuals: PrefillResiduals

    def time_s(
        self,
        batch_size: Numbers,
        chunk_tokens: Numbers,
        prefix_tokens: Numbers,
        num_heads: Numbers,
        num_kv_heads: Numbers,
        head_dim: Numbers = 128,
    ) -> FloatArray:
        """Seconds of one layer; arrays broadcast, scalars give a float."""
        sizes = (batch_size, chunk_tokens, prefix_tokens, num_heads, num_kv_heads, head_dim)
        form_s = PrefillAttentionModel.time_s(self, *sizes)
        return as_times(form_s * self.residuals.factors(*sizes))


def _times(form_s: FloatArray, factors: FloatArray) -> FloatArray:
    return as_times(form_s * factors.reshape(np.shape(form_s)))


def _shaped(values: NDArray[np.bool_], *like: Numbers) -> NDArray[np.bool_]:
    """`values`, one per place, in the shape to which `like` broadcast."""
    return values.reshape(np.broadcast_shapes(*(np.shape(item) for item in like)))
