"""Time of one variable-length attention call that holds decodes and prefill chunks, one layer.

The call is the prefill kernel: a decode is a chunk of one token, padded to a whole tile of queries,
and no context is split. Without decodes the time is that of `PrefillAttentionModel`; without chunks
an engine calls the decode kernel instead. Not modelled: the order in which blocks start, a rounding
to whole waves of blocks, splits.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from hwmodels.kernels.arrays import Numbers, as_times, sizes
from hwmodels.kernels.decode_attention import DecodeAttentionModel
from hwmodels.kernels.parameters import BYTES, SECONDS, WEIGHT, check_parameters
from hwmodels.kernels.prefill_attention import PrefillAttentionModel
from sim.errors import ConfigError
from sim.interfaces import FloatArray

TILE_TOKENS = 64
"""Query tokens, or query heads of one KV head, of a tile."""
KV_BYTES = 4
"""Bytes of a key and a value element, 16 bit each."""
_ELEMENT_BYTES = 2


class _Chunks(NamedTuple):
    """Chunks of each step: tiles of queries over context tokens, and what they move. (steps,)."""

    tile_pairs: FloatArray
    longest_context: FloatArray
    most_tiles: FloatArray
    new_tokens: FloatArray
    context_tokens: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class MixedAttentionModel:
    """`launch + io + blocks + max(compute, memory) + longest`.

    compute is the tiled FLOPs of the chunks, and a tile per decode, head and context token, at the
    prefill kernel's rate. memory is the decodes' contexts at the decode kernel's rate. A kernel
    that does not pack gives every query head a thread block of its own, so that the heads of a
    group read the same KV: each from memory again to a share of `x^2 / (1 + x^2)`, x the bytes of
    one KV head's contexts over `l2_reach_bytes`, times a share of `1 / (1 + y^2)`, y the processors
    over the decodes times `resident_weight`: blocks start head by head, and heads of few decodes
    run side by side and hit. longest is the longest single block, which the
    others do not hide: the prefill kernel's tail of the longest chunk, or `longest_weight` of the
    time that the longest context of a decode takes at the rate of one block, whichever is more.
    blocks is the fixed time of the decodes' blocks, and of the blocks without work that a grid as
    wide as the longest chunk starts for every decode.

    Source: fitted form; mixed rows of the unequal-length grid of casys-kaist/LLMServingSim (MIT),
    an RTX PRO 6000 with FlashAttention 2. FlashAttention 3 packs the query heads of every call of
    variable lengths (`should_pack_gqa` in its hopper/heuristics.h) and starts no idle blocks.

    Attributes:
        block_s: fixed time of a decode's thread block on its processor.
        idle_block_s: the same of a thread block without work.
        longest_weight: share of the longest context's time that the other blocks do not hide.
        l2_reach_bytes: contexts of one KV head at which half of the repeated reads miss L2.
        resident_weight: decodes per processor at which half of a group's heads run side by side.
        packs_queries: whether the query heads of a KV head share thread blocks, of which only those
            with work start (FlashAttention 3); else as FlashAttention 2.
    """

    block_s: float = field(metadata=SECONDS)
    idle_block_s: float = field(metadata=SECONDS)
    longest_weight: float = field(metadata=WEIGHT)
    l2_reach_bytes: float = field(metadata=BYTES)
    packs_queries: bool
    resident_weight: float = field(default=0.0, metadata=WEIGHT)

    def __post_init__(self) -> None:
        check_parameters(self)

    def blocks_each(self, num_heads: int, num_kv_heads: int) -> int:
        """Thread blocks of one decode."""
        if not self.packs_queries:
            return num_heads
        return num_kv_heads * -(-num_heads // (num_kv_heads * TILE_TOKENS))

    def time_s(
        self,
        decode: DecodeAttentionModel,
        prefill: PrefillAttentionModel,
        batch_size: Numbers,
        context_tokens_sum: Numbers,
        context_tokens_max: Numbers,
        chunk_tokens: Numbers,
        prefix_tokens: Numbers,
        chunk_step: Numbers,
        num_heads: int,
        num_kv_heads: int,
        head_dim: int = 128,
        hbm_tokens: Numbers | None = None,
    ) -> FloatArray:
        """Seconds of one layer in each step, shape (steps,).

        Args:
            decode: the device's decode kernel: memory rate, and that of one thread block.
            prefill: the device's prefill kernel.
            batch_size: decodes of each step, 0 or more, shape (steps,).
            context_tokens_sum: sum of their context lengths, tokens, shape (steps,).
            context_tokens_max: the longest of them; 0 without decodes.
            chunk_tokens: new tokens of each prefill chunk, shape (chunks,).
            prefix_tokens: context tokens before each chunk, 0 or more.
            chunk_step: step of each chunk, from 0, in any order; every step has one at least.
            num_heads: query heads on this GPU.
            num_kv_heads: KV heads on this GPU.
            head_dim: width of a head.
            hbm_tokens: context tokens of the decodes that come from HBM, shape (steps,), where L2
                serves shared ones; None: all.

        Raises:
            ConfigError: a size is too small, a step has no chunk, or a chunk has no step.
        """
        batch = sizes("batch_size", np.atleast_1d(batch_size), 0.0)
        total = sizes("context_tokens", np.atleast_1d(context_tokens_sum), 0.0)
        longest = sizes("context_tokens_max", np.atleast_1d(context_tokens_max), 0.0)
        loaded = total if hbm_tokens is None else sizes("hbm_tokens", np.atleast_1d(hbm_tokens), 0)
        chunks = _joined_chunks(chunk_tokens, prefix_tokens, chunk_step, len(batch))
        num_blocks = self.blocks_each(num_heads, num_kv_heads)
        token_bytes = float(KV_BYTES * head_dim)

        tile_s = 4.0 * head_dim * TILE_TOKENS / prefill.flops_per_s
        compute_s = (num_heads * chunks.tile_pairs + num_blocks * total) * tile_s
        reuse = loaded * (token_bytes / self.l2_reach_bytes)
        resident = self.resident_weight * prefill.num_sms / np.maximum(batch, 1.0)
        missed = reuse * reuse / (1.0 + reuse * reuse) / (1.0 + resident * resident)
        reads = num_kv_heads + (num_blocks - num_kv_heads) * missed
        memory_s = loaded * reads * (token_bytes / decode.hbm_bytes_per_s)

        tail_s = prefill.tail_weight * prefill.num_sms * tile_s * chunks.longest_context
        block_rate = decode.straggler_bytes_per_s
        decode_tail_s = longest * (self.longest_weight * token_bytes / block_rate)
        idle_s = 0.0 if self.packs_queries else self.idle_block_s * (chunks.most_tiles - 1.0)
        blocks_s = batch * (self.block_s + idle_s) * (num_blocks / prefill.num_sms)
        elements = 2.0 * num_heads * chunks.new_tokens + 2.0 * num_kv_heads * chunks.context_tokens
        io_s = _ELEMENT_BYTES * head_dim * elements / prefill.io_bytes_per_s
        work_s = np.maximum(compute_s, memory_s) + np.maximum(tail_s, decode_tail_s)
        return as_times(prefill.launch_s + io_s + blocks_s + work_s)


def _joined_chunks(
    chunk_tokens: Numbers, prefix_tokens: Numbers, chunk_step: Numbers, num_steps: int
) -> _Chunks:
    """Sums and maxima of the chunks of each step."""
    chunk = sizes("chunk_tokens", np.atleast_1d(chunk_tokens))
    prefix = sizes("prefix_tokens", np.atleast_1d(prefix_tokens), 0.0)
    step = np.atleast_1d(np.asarray(chunk_step, dtype=np.int64))
    chunk, prefix, step = np.broadcast_arrays(chunk, prefix, step)
    if not step.size or step.min() < 0 or step.max() >= num_steps:
        raise ConfigError(f"chunk_step must be from 0 to {num_steps - 1}, one entry per chunk")
    if not np.bincount(step, minlength=num_steps).all():
        raise ConfigError("every step needs a prefill chunk; price others by the decode kernel")
    tiles = np.ceil(chunk / TILE_TOKENS)
    tile_pairs = tiles * (prefix + TILE_TOKENS / 2.0 * (tiles + 1.0))
    sums = [
        np.bincount(step, values, num_steps).astype(np.float64)
        for values in (tile_pairs, chunk, chunk + prefix)
    ]
    longest, most = np.zeros(num_steps), np.zeros(num_steps)
    np.maximum.at(longest, step, chunk + prefix)
    np.maximum.at(most, step, tiles)
    return _Chunks(
        tile_pairs=sums[0],
        longest_context=longest,
        most_tiles=most,
        new_tokens=sums[1],
        context_tokens=sums[2],
    )
