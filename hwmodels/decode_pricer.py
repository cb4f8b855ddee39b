"""Decode attention priced step by step in plain Python, for the middle of a simulation.

The same form as `hwmodels.kernels.decode_attention`, with all that depends on the number of
requests and of splits alone worked out once: a step then takes half a microsecond, where an array
call takes fifty. Both agree up to rounding.
"""

from dataclasses import dataclass, replace
from math import ceil

from mypy_extensions import mypyc_attr

from hwmodels.kernels.decode_attention import DecodeAttentionModel
from hwmodels.model_shape import ModelShape
from hwmodels.tables.decode_factors import DecodeFactors
from hwmodels.tables.kernels import TabledDecodeAttention

BLOCK_TOKENS = 128
"""Context tokens that a thread block takes at a time."""


@mypyc_attr(allow_interpreted_subclasses=True)
@dataclass(slots=True, kw_only=True)
class BatchPrice:
    """Constants of a batch size and a number of splits, all layers.

    Attributes:
        fixed_s: launch, combine, swap and waves.
        splits: parts of each context.
        full_waves: whole waves of thread blocks.
        cta_token_s: one thread block alone, per token of its part.
        alone_token_s: the same per context token of the batch, where nothing is split.
        wave_token_s: a full wave, per context token of the batch.
        rest_token_s: the last wave, per context token of the batch; 0 if there is none.
        has_rest: whether a last wave is not full.
        slope_s: all waves per context token of the batch, where nothing is split.
        straggler_token_s: per token by which the longest context exceeds the weighted mean.
        requests_per_wave: requests whose thread blocks run together.
    """

    fixed_s: float
    splits: int
    full_waves: int
    cta_token_s: float
    alone_token_s: float
    wave_token_s: float
    rest_token_s: float
    has_rest: bool
    slope_s: float
    straggler_token_s: float
    requests_per_wave: float


@mypyc_attr(allow_interpreted_subclasses=True)
class DecodePricer:
    """Prices the attention of decode batches of one model on one GPU.

    Args:
        model: the kernel.
        shard: the part of the model that the GPU holds.
        l2_bytes_per_s: rate of L2; None if every byte comes from HBM.
        can_split: whether contexts may be split.

    Attributes:
        largest_split: batches up to this size may be split.
        is_tabled: whether measured points correct the form.
        saved_share: share of a token's time that L2 saves: all of it where thread blocks have a
            rate of their own, else what the rate of L2 leaves.
    """

    def __init__(
        self,
        model: DecodeAttentionModel,
        shard: ModelShape,
        l2_bytes_per_s: float | None = None,
        can_split: bool = True,
    ) -> None:
        self._slots = model.split_slots
        # Measured over predicted time, for a kernel with a table.
        self._factors: DecodeFactors | None = None
        if can_split and isinstance(model, TabledDecodeAttention):
            self._factors = model.residuals.of(
                shard.num_attention_heads, shard.num_kv_heads, shard.head_dim
            )
        self.is_tabled = self._factors is not None
        if not can_split:
            model = replace(model, split_slots=1)
        self._model = model
        self._shard = shard
        self._is_grouped = shard.num_attention_heads > shard.num_kv_heads
        self._query_tiles = -(-shard.num_attention_heads // (shard.num_kv_heads * 64))
        self._ctas_each = shard.num_kv_heads * self._query_tiles
        rate = model.cta_gqa_bytes_per_s if self._is_grouped else model.cta_mha_bytes_per_s
        self.saved_share = 1.0
        if rate is None and l2_bytes_per_s is not None:
            self.saved_share = 1.0 - min(model.hbm_bytes_per_s / l2_bytes_per_s, 1.0)
        self.largest_split = 0
        if can_split and (self._is_grouped or model.can_split_mha):
            # The largest batch whose thread blocks leave enough slots for a split.
            self.largest_split = ceil(0.8 * model.split_slots / self._ctas_each) + 1
        self._prices: dict[tuple[int, int], BatchPrice] = {}
        self._unsplit: dict[int, BatchPrice] = {}

    def price(self, batch_size: int, longest: int) -> BatchPrice:
        """Constants for a batch whose longest context has `longest` tokens."""
        if batch_size > self.largest_split:
            return self._unsplit.get(batch_size) or self._price_unsplit(batch_size)
        key = (batch_size, -(-longest // BLOCK_TOKENS))
        return self._prices.get(key) or self._price_split(*key)

    def attention_s(
        self,
        batch_size: int,
        context_tokens: int,
        squares: int,
        longest: int,
        saved_tokens: float = 0.0,
    ) -> float:
        """Attention of all layers in one step, seconds.

        Args:
            batch_size: requests, >= 1.
            context_tokens: sum of their contexts.
            squares: sum of the squares.
            longest: the longest one.
            saved_tokens: context tokens that do not come from HBM, as a negative number.
        """
        price = self.price(batch_size, longest)
        fixed_s, late_s = straggler(price, batch_size, context_tokens, squares, longest)
        offset_s, slope_s = self.line(price, batch_size, context_tokens, saved_tokens)
        varying_s = context_tokens * slope_s - late_s / context_tokens
        attention_s = (fixed_s + offset_s) + varying_s
        if self._factors is None:
            return attention_s
        return attention_s * self._factors.factor(batch_size, context_tokens / batch_size)

    def line(
        self, price: BatchPrice, batch_size: int, context_tokens: int, saved_tokens: float
    ) -> tuple[float, float]:
        """Time to stream the contexts: a constant, and per context token, seconds.

        Holds as long as the same bounds bind, a thread block's own rate or that of the memory, and
        a part of a split context has the same length.
        """
        if price.splits > 1:
            return self._split_line(price, batch_size, context_tokens, saved_tokens)
        if not saved_tokens:
            return 0.0, price.slope_s
        saved = saved_tokens * self.saved_share
        alone_s = context_tokens * price.alone_token_s
        return _stream_line(price, saved, context_tokens, alone_s, 0.0, price.alone_token_s)

    def _split_line(
        self, price: BatchPrice, batch_size: int, context_tokens: int, saved_tokens: float
    ) -> tuple[float, float]:
        """The same where contexts are split: a part is whole blocks, or the mean context."""
        mean = context_tokens / batch_size
        parts = ceil(ceil(mean / BLOCK_TOKENS) / price.splits) * BLOCK_TOKENS
        saved = saved_tokens * self.saved_share
        if parts < mean:
            alone_s = parts * price.cta_token_s
            return _stream_line(price, saved, context_tokens, alone_s, alone_s, 0.0)
        token_s = price.cta_token_s / batch_size
        return _stream_line(price, saved, context_tokens, context_tokens * token_s, 0.0, token_s)

    def _price_unsplit(self, batch_size: int) -> BatchPrice:
        found = self._unsplit[batch_size] = self._constants(batch_size, 1)
        return found

    def _price_split(self, batch_size: int, blocks: int) -> BatchPrice:
        shard = self._shard
        splits = self._model.splits(
            batch_size, blocks * BLOCK_TOKENS, shard.num_attention_heads, shard.num_kv_heads
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
        requests_per_wave = max(self._slots / (self._ctas_each * splits), 1.0)
        fixed_s += model.combine_s if splits > 1 else 0.0
        if self._is_grouped and shard.num_kv_heads > 1 and batch_size > 1:
            fixed_s += model.head_swap_s
        straggler_s = layers * token_bytes / model.straggler_bytes_per_s if splits == 1 else 0.0
        return BatchPrice(
            fixed_s=layers * fixed_s,
            splits=splits,
            full_waves=full,
            cta_token_s=cta_token_s,
            alone_token_s=alone_s,
            wave_token_s=wave_s,
            rest_token_s=rest_s,
            has_rest=rest > 0,
            slope_s=slope_s,
            straggler_token_s=straggler_s,
            requests_per_wave=requests_per_wave,
        )


def straggler(
    price: BatchPrice, batch_size: int, context_tokens: int, squares: int, longest: int
) -> tuple[float, float]:
    """Fixed time with the constant part of the straggler, and what its other part is over the sum
    of the contexts, seconds and seconds times tokens.

    The straggler is the longest context less the token-weighted mean. While all contexts grow
    alike, the longest less the plain mean and the variance stay, so that both parts are the same
    in every step of a run, to the last bit.
    """
    token_s = price.straggler_token_s / batch_size
    excess = batch_size * longest - context_tokens
    spread = batch_size * squares - context_tokens * context_tokens
    return price.fixed_s + excess * token_s, spread * token_s


def _stream_line(
    price: BatchPrice,
    saved: float,
    context_tokens: int,
    alone_s: float,
    alone_offset_s: float,
    alone_slope_s: float,
) -> tuple[float, float]:
    """Full waves, then the last one, each bound by a thread block alone or by the memory.

    Args:
        price: of the batch.
        saved: context tokens that the memory is spared, not positive.
        context_tokens: sum of the contexts.
        alone_s: time of a thread block alone.
        alone_offset_s, alone_slope_s: the same as a constant and per context token.
    """
    hbm_tokens = context_tokens + saved
    offset_s, slope_s = price.full_waves * alone_offset_s, price.full_waves * alone_slope_s
    wave_s, rest_s = price.wave_token_s, price.rest_token_s
    if alone_s <= hbm_tokens * wave_s:
        slope_s = price.full_waves * wave_s
        offset_s = saved * slope_s
    if price.has_rest:
        if alone_s > hbm_tokens * rest_s:
            slope_s += alone_slope_s
            offset_s += alone_offset_s
        else:
            slope_s += rest_s
            offset_s += saved * rest_s
    return offset_s, slope_s
