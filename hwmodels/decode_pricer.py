"""Decode attention priced step by step in plain Python, for the middle of a simulation.

The same form as `hwmodels.kernels.decode_attention`, with all that depends on the number of
requests and of splits alone worked out once: a step then takes half a microsecond, where an array
call takes fifty. Both agree up to rounding.
"""

from math import ceil
from typing import NamedTuple

from hwmodels.kernels.decode_attention import DecodeAttentionModel
from hwmodels.model_shape import ModelShape

_BLOCK_TOKENS = 128


class BatchPrice(NamedTuple):
    """Constants of a batch size and a number of splits, all layers.

    Attributes:
        fixed_s: launch, combine, swap and waves.
        splits: parts of each context.
        full_waves: whole waves of thread blocks.
        cta_token_s: one thread block alone, per token of its part.
        wave_token_s: a full wave, per context token of the batch.
        rest_token_s: the last wave, per context token of the batch; 0 if there is none.
        has_rest: whether a last wave is not full.
        slope_s: all waves per context token of the batch, where nothing is split.
        straggler_token_s: per token by which the longest context exceeds the weighted mean.
    """

    fixed_s: float
    splits: int
    full_waves: int
    cta_token_s: float
    wave_token_s: float
    rest_token_s: float
    has_rest: bool
    slope_s: float
    straggler_token_s: float


class DecodePricer:
    """Prices the attention of decode batches of one model on one GPU.

    Args:
        model: the kernel.
        shard: the part of the model that the GPU holds.

    Attributes:
        largest_split: batches up to this size may be split.
    """

    def __init__(self, model: DecodeAttentionModel, shard: ModelShape) -> None:
        self._model = model
        self._shard = shard
        self._is_grouped = shard.num_attention_heads > shard.num_kv_heads
        self._query_tiles = -(-shard.num_attention_heads // (shard.num_kv_heads * 64))
        self._ctas_each = shard.num_kv_heads * self._query_tiles
        can_split = self._is_grouped or model.can_split_mha
        self.largest_split = 0
        if can_split:  # the largest batch whose thread blocks leave enough slots for a split
            self.largest_split = ceil(0.8 * model.split_slots / self._ctas_each) + 1
        self._prices: dict[tuple[int, int], BatchPrice] = {}
        self._unsplit: dict[int, BatchPrice] = {}

    def price(self, batch_size: int, longest: int) -> BatchPrice:
        """Constants for a batch whose longest context has `longest` tokens."""
        if batch_size > self.largest_split:
            return self._unsplit.get(batch_size) or self._price_unsplit(batch_size)
        key = (batch_size, -(-longest // _BLOCK_TOKENS))
        return self._prices.get(key) or self._price_split(*key)

    def attention_s(
        self, batch_size: int, context_tokens: int, squares: int, longest: int
    ) -> float:
        """Attention of all layers in one step, seconds.

        Args:
            batch_size: requests, >= 1.
            context_tokens: sum of their contexts.
            squares: sum of the squares.
            longest: the longest one.
        """
        price = self.price(batch_size, longest)
        straggler_s = (longest - squares / context_tokens) * price.straggler_token_s
        if price.splits == 1:
            return price.fixed_s + context_tokens * price.slope_s + straggler_s
        return price.fixed_s + _split_stream_s(price, batch_size, context_tokens) + straggler_s

    def _price_unsplit(self, batch_size: int) -> BatchPrice:
        found = self._unsplit[batch_size] = self._constants(batch_size, 1)
        return found

    def _price_split(self, batch_size: int, blocks: int) -> BatchPrice:
        shard = self._shard
        splits = self._model.splits(
            batch_size, blocks * _BLOCK_TOKENS, shard.num_attention_heads, shard.num_kv_heads
        )
        found = self._prices[batch_size, blocks] = self._constants(batch_size, int(splits))
        return found

    def _constants(self, batch_size: int, splits: int) -> BatchPrice:
        model, shard = self._model, self._shard
        layers, token_bytes = shard.num_layers, 4 * shard.head_dim
        num_ctas = batch_size * self._ctas_each * splits
        full, rest = divmod(num_ctas, model.num_sms)
        rate = model.cta_gqa_bytes_per_s if self._is_grouped else model.cta_mha_bytes_per_s
        cta_token_s = layers * token_bytes / rate if rate else 0.0
        # The share of one thread block in the bytes of the batch, per context token.
        share_s = layers * token_bytes * self._ctas_each / num_ctas / model.hbm_bytes_per_s
        wave_s, rest_s = model.num_sms * share_s, rest * share_s
        alone_s = cta_token_s / batch_size
        slope_s = full * max(alone_s, wave_s) + (max(alone_s, rest_s) if rest else 0.0)
        fixed_s = model.launch_s + model.wave_s * -(-num_ctas // model.num_sms)
        fixed_s += model.combine_s if splits > 1 else 0.0
        if self._is_grouped and shard.num_kv_heads > 1 and batch_size > 1:
            fixed_s += model.head_swap_s
        return BatchPrice(
            fixed_s=layers * fixed_s,
            splits=splits,
            full_waves=full,
            cta_token_s=cta_token_s,
            wave_token_s=wave_s,
            rest_token_s=rest_s,
            has_rest=rest > 0,
            slope_s=slope_s,
            straggler_token_s=layers * token_bytes / model.straggler_bytes_per_s / splits,
        )


def _split_stream_s(price: BatchPrice, batch_size: int, context_tokens: int) -> float:
    """Time to stream contexts that are split: a part is whole blocks, or the mean context."""
    mean = context_tokens / batch_size
    parts = ceil(ceil(mean / _BLOCK_TOKENS) / price.splits) * _BLOCK_TOKENS
    alone_s = (parts if parts < mean else mean) * price.cta_token_s
    wave_s = context_tokens * price.wave_token_s
    stream_s = price.full_waves * (alone_s if alone_s > wave_s else wave_s)
    if price.has_rest:
        rest_s = context_tokens * price.rest_token_s
        stream_s += alone_s if alone_s > rest_s else rest_s
    return stream_s
