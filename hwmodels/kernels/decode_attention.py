"""Time of attention of a decode batch: split-KV kernels whose thread blocks run in waves.

One call is one layer on one GPU. A batch enters as the moments of its context lengths, so that a
run of steps, in which all lengths grow by one, is one array call. Not modelled: paged layouts with
blocks under 16 tokens, sliding windows, 8-bit KV.
"""

from dataclasses import dataclass, field

import numpy as np

from hwmodels.kernels.arrays import Numbers, as_times, sizes
from hwmodels.kernels.parameters import COUNT, RATE, SECONDS, check_parameters
from sim.errors import ConfigError
from sim.interfaces import FloatArray

_BLOCK_TOKENS = 128
"""Context tokens that a thread block takes at a time."""
_TILE_QUERIES = 64
"""Query heads of one KV head that a thread block takes together."""
_MAX_SPLITS = 128
_ENOUGH_RATIO = 0.85
"""Smallest split count whose last wave is this full, relative to the best, is taken."""
_FULL_RATIO = 0.8
"""No split once thread blocks fill this share of the slots."""
_KV_BYTES = 4
"""Bytes of a key and a value element, 16 bit each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeAttentionModel:
    """`launch + combine + swap + wave_s * waves + stream + straggler`.

    N = batch * kv_heads * ceil(q_per_kv / 64) * splits thread blocks run in waves of `num_sms`. A
    wave streams its blocks' share of the bytes at the memory rate, but no block reads faster than
    its own rate. The combine step follows a split; the swap of query heads applies to grouped
    queries of more than one request and KV head. The straggler is the longest context over the
    token-weighted mean, `(L_max - S2 / S1)` tokens at the rate of one block; none where contexts
    are split. Time is not monotone where the number of splits or of waves changes.

    Source: fitted form; decode attention tables of A100-SXM4-80GB, H100-SXM and H200-SXM, for the
    straggler a grid of unequal lengths on an RTX PRO 6000. The choice of splits is that of
    FlashAttention 2.

    Attributes:
        num_sms: processors.
        launch_s: fixed time of the kernel.
        hbm_bytes_per_s: memory rate.
        wave_s: fixed time of one wave.
        combine_s: fixed time of the combine step.
        head_swap_s: fixed time of the swap of heads.
        cta_gqa_bytes_per_s: rate of one thread block with grouped queries; None: no limit.
        cta_mha_bytes_per_s: the same with one query head per KV head.
        straggler_bytes_per_s: rate at which the longest context streams at the end.
        split_slots: thread blocks at once that the choice of splits counts on.
        can_split_mha: whether one query head per KV head may be split.
    """

    num_sms: int = field(metadata=COUNT)
    launch_s: float = field(metadata=SECONDS)
    hbm_bytes_per_s: float = field(metadata=RATE)
    wave_s: float = field(metadata=SECONDS)
    combine_s: float = field(metadata=SECONDS)
    head_swap_s: float = field(metadata=SECONDS)
    cta_gqa_bytes_per_s: float | None = field(metadata=RATE)
    cta_mha_bytes_per_s: float | None = field(metadata=RATE)
    straggler_bytes_per_s: float = field(metadata=RATE)
    split_slots: int = field(metadata=COUNT)
    can_split_mha: bool

    def __post_init__(self) -> None:
        check_parameters(self)

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
        """Seconds of one layer; arrays broadcast (one entry per step), scalars give a float.

        Args:
            batch_size: requests.
            context_tokens_sum: sum of their context lengths, tokens.
            context_tokens_max: longest context, tokens.
            sum_squares: sum of the squares of the context lengths.
            num_heads: query heads on this GPU.
            num_kv_heads: KV heads on this GPU.
            head_dim: width of a head.
            hbm_bytes: bytes that come from HBM; None: every request's whole context.

        Raises:
            ConfigError: a size is below 1.
        """
        batch, total = sizes("batch_size", batch_size), sizes("context_tokens", context_tokens_sum)
        longest = sizes("context_tokens_max", context_tokens_max)
        squares = sizes("sum_squares", sum_squares)
        is_grouped = num_heads > num_kv_heads
        query_tiles = -(-num_heads // (num_kv_heads * _TILE_QUERIES))
        token_bytes = _KV_BYTES * head_dim

        splits = self.splits(batch, longest, num_heads, num_kv_heads)
        mean = total / batch
        blocks_each = np.ceil(np.ceil(mean / _BLOCK_TOKENS) / splits)
        cta_bytes = np.minimum(blocks_each * _BLOCK_TOKENS, mean) * token_bytes
        num_ctas = batch * num_kv_heads * query_tiles * splits
        if hbm_bytes is None:
            moved_bytes = total * (token_bytes * num_kv_heads)
        else:
            moved_bytes = sizes("hbm_bytes", hbm_bytes, 0.0)
        stream_s = self._stream_s(num_ctas, cta_bytes, moved_bytes * query_tiles, is_grouped)

        excess_tokens = np.maximum(longest - squares / total, 0.0)
        straggler_s = excess_tokens * (token_bytes / self.straggler_bytes_per_s)
        fixed_s = self.launch_s + np.where(splits > 1, self.combine_s, 0.0)
        if is_grouped and num_kv_heads > 1:
            fixed_s = fixed_s + np.where(batch > 1, self.head_swap_s, 0.0)
        waves_s = self.wave_s * np.ceil(num_ctas / self.num_sms)
        return as_times(fixed_s + waves_s + stream_s + np.where(splits > 1, 0.0, straggler_s))

    def lengths_time_s(
        self,
        context_tokens: Numbers,
        num_heads: int,
        num_kv_heads: int,
        head_dim: int = 128,
        is_padded: bool = False,
    ) -> FloatArray:
        """Seconds of one layer for one batch given by its context lengths, as a float.

        Args:
            context_tokens: context length of each request, shape (requests,).
            num_heads: query heads on this GPU.
            num_kv_heads: KV heads on this GPU.
            head_dim: width of a head.
            is_padded: the kernel reads every context as if it had the length of the longest.

        Raises:
            ConfigError: no length, one below 1, or an array of another shape.
        """
        lengths = sizes("context_tokens", context_tokens)
        if lengths.ndim != 1 or not len(lengths):
            raise ConfigError(f"context_tokens must have shape (requests,), found {lengths.shape}")
        if is_padded:
            lengths = np.full_like(lengths, lengths.max())
        squares = np.square(lengths).sum()
        return self.time_s(
            len(lengths), lengths.sum(), lengths.max(), squares, num_heads, num_kv_heads, head_dim
        )

    def splits(
        self,
        batch_size: Numbers,
        context_tokens_max: Numbers,
        num_heads: int,
        num_kv_heads: int,
    ) -> FloatArray:
        """Parts into which every context is cut; whole numbers as float64, arrays broadcast.

        The fewest parts whose waves are at least 0.85 as full as those of the best choice; 1 where
        thread blocks fill 0.8 of the slots without a cut.
        """
        batch, longest = np.broadcast_arrays(
            sizes("batch_size", batch_size), sizes("context_tokens_max", context_tokens_max)
        )
        chosen = np.ones(batch.shape)
        if num_heads == num_kv_heads and not self.can_split_mha:
            return chosen
        query_tiles = -(-num_heads // (num_kv_heads * _TILE_QUERIES))
        num_ctas = batch * (num_kv_heads * query_tiles)
        is_small = num_ctas < _FULL_RATIO * self.split_slots
        if not np.any(is_small):
            return chosen
        blocks = np.ceil(longest / _BLOCK_TOKENS)
        # One number per pair: unique over one axis is many times faster than over rows.
        pairs = num_ctas[is_small] + 1j * blocks[is_small]
        distinct, index = np.unique(pairs, return_inverse=True)
        chosen[is_small] = self._best_splits(distinct.real, distinct.imag)[index]
        return chosen

    def _best_splits(self, num_ctas: FloatArray, blocks: FloatArray) -> FloatArray:
        """Choice of splits of batches that do not fill the slots. Shape (batches,) each."""
        parts = np.arange(1, _MAX_SPLITS + 1, dtype=np.float64)
        each = blocks[:, None]
        # A split that leaves the longest part as long as one split fewer gains nothing.
        fewer = np.maximum(parts - 1.0, 1.0)
        is_new = (parts == 1) | (np.ceil(each / parts) != np.ceil(each / fewer))
        is_allowed = is_new & (parts <= np.minimum(self.split_slots, each))
        waves = num_ctas[:, None] * parts / self.split_slots
        fullness = np.where(is_allowed, waves / np.ceil(waves), 0.0)
        is_enough = fullness >= _ENOUGH_RATIO * fullness.max(axis=1, keepdims=True)
        best = np.argmax(is_enough, axis=1) + 1
        chosen: FloatArray = best.astype(np.float64)
        return chosen

    def _stream_s(
        self,
        num_ctas: FloatArray,
        cta_bytes: FloatArray,
        moved_bytes: FloatArray,
        is_grouped: bool,
    ) -> FloatArray:
        """Time to stream the contexts: full waves, then the rest of the thread blocks."""
        rate = self.cta_gqa_bytes_per_s if is_grouped else self.cta_mha_bytes_per_s
        alone_s = cta_bytes / rate if rate else np.zeros_like(cta_bytes)
        share_s = moved_bytes / num_ctas / self.hbm_bytes_per_s
        full_waves = np.floor(num_ctas / self.num_sms)
        rest = num_ctas - full_waves * self.num_sms
        rest_s = np.where(rest > 0, np.maximum(alone_s, rest * share_s), 0.0)
        stream_s: FloatArray = full_waves * np.maximum(alone_s, self.num_sms * share_s) + rest_s
        return stream_s
