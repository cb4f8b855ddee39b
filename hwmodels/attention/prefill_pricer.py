"""Prefill attention priced chunk by chunk in plain Python.

The form of `hwmodels.kernels.prefill_attention`, with the chunks of a step in one call of variable
lengths: one launch, and one tail, that of the longest context. With a table of measured points the
call is corrected by those of its chunks, weighted by their work.
"""

from collections.abc import Sequence

from mypy_extensions import mypyc_attr

from hwmodels.kernels.prefill_attention import PrefillAttentionModel
from hwmodels.model_shape import ModelShape
from hwmodels.tables.kernels import TabledPrefillAttention
from hwmodels.tables.prefill_factors import PrefillFactors
from sim.interfaces import PrefillChunk

_TILE = 64


@mypyc_attr(allow_interpreted_subclasses=True)
class PrefillPricer:
    """Prices the prefill attention of one model on one GPU.

    Args:
        model: the kernel.
        shard: the part of the model that the GPU holds.
    """

    def __init__(self, model: PrefillAttentionModel, shard: ModelShape) -> None:
        layers, width = shard.num_layers, shard.head_dim
        element_s = layers * 2 * width / model.io_bytes_per_s
        self.launch_s = layers * model.launch_s
        self._num_heads, self._num_sms = shard.num_attention_heads, model.num_sms
        self._pair_s = layers * 4 * width * shard.num_attention_heads / model.flops_per_s
        tail = model.tail_weight * model.num_sms
        self._tail_s = layers * tail * 4 * width * _TILE / model.flops_per_s
        self._query_s = 2 * shard.num_attention_heads * element_s
        self._context_s = 2 * shard.num_kv_heads * element_s
        # Measured over predicted time, for a kernel with a table.
        self._factors: PrefillFactors | None = None
        if isinstance(model, TabledPrefillAttention):
            self._factors = model.residuals.of(
                1, shard.num_attention_heads, shard.num_kv_heads, width
            )

    def chunks_s(self, chunks: Sequence[PrefillChunk]) -> float:
        """Seconds of all layers of the chunks of one step (at least one)."""
        work_s, longest, corrected_s = 0.0, 0, 0.0
        for new_tokens, prefix_tokens, _ in chunks:
            tiles = -(-new_tokens // _TILE)
            pairs = _TILE * (tiles * prefix_tokens + _TILE // 2 * tiles * (tiles + 1))
            context_tokens = prefix_tokens + new_tokens
            moved_s = new_tokens * self._query_s + context_tokens * self._context_s
            chunk_s = pairs * self._pair_s + moved_s
            work_s += chunk_s
            if self._factors is not None:
                corrected_s += chunk_s * self._factors.factor(new_tokens, prefix_tokens)
            if context_tokens > longest:
                longest = context_tokens
        call_s = self.launch_s + work_s + longest * self._tail_s
        return call_s if self._factors is None else call_s * (corrected_s / work_s)

    def prefix_pass_s(self, num_queries: int, prefix_tokens: int) -> float:
        """Seconds of all layers of the pass over a common prefix; the form is `kernels.cascade`."""
        waves = -(-self._num_heads * -(-num_queries // _TILE) // self._num_sms)
        moved_s = num_queries * self._query_s + prefix_tokens * self._context_s
        return self.launch_s + max(waves * prefix_tokens * self._tail_s, moved_s)
