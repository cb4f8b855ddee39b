"""Attention of mixed steps priced in plain Python, for the middle of a simulation.

The same form as `hwmodels.kernels.mixed_attention`, with the constants of a model on a GPU worked
out once: a step with one chunk then takes about a microsecond. Both agree up to rounding.
"""

from collections.abc import Sequence

from mypy_extensions import mypyc_attr

from hwmodels.kernels.decode_attention import DecodeAttentionModel
from hwmodels.kernels.mixed_attention import KV_BYTES, TILE_TOKENS, MixedAttentionModel
from hwmodels.kernels.prefill_attention import PrefillAttentionModel
from hwmodels.model_shape import ModelShape
from sim.interfaces import PrefillChunk

_HALF_TILE, _LAST_OF_TILE = TILE_TOKENS // 2, TILE_TOKENS - 1


@mypyc_attr(allow_interpreted_subclasses=True)
class MixedPricer:
    """Prices the attention of steps with prefill chunks of one model on one GPU.

    Args:
        model: the kernel.
        decode: the device's decode kernel.
        prefill: the device's prefill kernel.
        shard: the part of the model that the GPU holds.
    """

    def __init__(
        self,
        model: MixedAttentionModel,
        decode: DecodeAttentionModel,
        prefill: PrefillAttentionModel,
        shard: ModelShape,
    ) -> None:
        layers, head_dim = shard.num_layers, shard.head_dim
        heads, kv_heads = shard.num_attention_heads, shard.num_kv_heads
        num_blocks = model.blocks_each(heads, kv_heads)
        token_bytes = KV_BYTES * head_dim
        tile_s = layers * 4.0 * head_dim * TILE_TOKENS / prefill.flops_per_s
        block_s = layers * num_blocks / prefill.num_sms
        element_s = layers * 4.0 * head_dim / prefill.io_bytes_per_s
        idle_s = 0.0 if model.packs_queries else model.idle_block_s
        self._launch_s = layers * prefill.launch_s
        self._pair_s = heads * tile_s
        self._token_s = num_blocks * tile_s
        self._reuse = token_bytes / model.l2_reach_bytes
        self._read_s = layers * kv_heads * token_bytes / decode.hbm_bytes_per_s
        self._repeats = num_blocks / kv_heads - 1.0
        self._resident = model.resident_weight * prefill.num_sms
        self._tail_s = prefill.tail_weight * prefill.num_sms * tile_s
        block_token_s = token_bytes / decode.straggler_bytes_per_s
        self._longest_s = layers * model.longest_weight * block_token_s
        self._block_s = block_s * (model.block_s - idle_s)
        self._tile_block_s = block_s * idle_s
        self._new_token_s = heads * element_s
        self._context_s = kv_heads * element_s

    def attention_s(
        self,
        batch_size: int,
        context_tokens: int,
        longest: int,
        chunks: Sequence[PrefillChunk],
        hbm_tokens: float | None = None,
    ) -> float:
        """Attention of all layers in one step, seconds.

        Args:
            batch_size: decodes, 0 or more.
            context_tokens: sum of their contexts.
            longest: the longest of them; 0 without decodes.
            chunks: prefill chunks, one or more.
            hbm_tokens: context tokens of the decodes that come from HBM, where L2 serves shared
                ones; None: all.
        """
        if len(chunks) == 1:  # most steps
            ((new_sum, prefix_tokens, _),) = chunks
            most_tiles = (new_sum + _LAST_OF_TILE) // TILE_TOKENS
            pairs = most_tiles * (prefix_tokens + _HALF_TILE * (most_tiles + 1))
            context_sum = longest_chunk = prefix_tokens + new_sum
        else:
            pairs = new_sum = context_sum = longest_chunk = most_tiles = 0
            for new_tokens, prefix_tokens, _ in chunks:
                tiles = (new_tokens + _LAST_OF_TILE) // TILE_TOKENS
                pairs += tiles * (prefix_tokens + _HALF_TILE * (tiles + 1))
                context = prefix_tokens + new_tokens
                new_sum += new_tokens
                context_sum += context
                if context > longest_chunk:
                    longest_chunk = context
                if tiles > most_tiles:
                    most_tiles = tiles
        time_s = self._launch_s + new_sum * self._new_token_s + context_sum * self._context_s
        work_s = pairs * self._pair_s
        tail_s = longest_chunk * self._tail_s
        if batch_size:
            time_s += batch_size * (self._block_s + most_tiles * self._tile_block_s)
            work_s += context_tokens * self._token_s
            loaded = context_tokens if hbm_tokens is None else hbm_tokens
            reuse = loaded * self._reuse
            reuse *= reuse
            resident = self._resident / batch_size
            repeats = self._repeats / (1.0 + resident * resident)
            memory_s = loaded * self._read_s * (1.0 + repeats * (reuse / (1.0 + reuse)))
            if memory_s > work_s:
                work_s = memory_s
            decode_tail_s = longest * self._longest_s
            if decode_tail_s > tail_s:
                tail_s = decode_tail_s
        return time_s + work_s + tail_s
