"""Cascade attention of vLLM v1: when it is used, and what its pass over the common prefix costs.

A cascade step reads the prefix that all requests share once for all queries, in a pass of its own,
then each request's own suffix, and merges both partial results.
"""

import numpy as np
import numpy.typing as npt

from hwmodels.kernels.arrays import Numbers, as_times, sizes
from hwmodels.kernels.prefill_attention import PrefillAttentionModel
from sim.interfaces import FloatArray

MIN_PREFIX_TOKENS = 256
"""Shorter common prefixes are never cascaded. Source: vLLM v1, FlashAttention backend."""
MIN_BATCH_SIZE = 8
"""Smaller batches are never cascaded. Source: vLLM v1, FlashAttention backend."""
BLOCK_TOKENS = 16
"""Default KV block of vLLM v1."""

_RULE_TILE = 128
"""Queries and KV tokens per tile as the rule counts them. Source: vLLM v1."""
_QUERY_TILE = 64
"""Queries per thread block of the prefix pass."""
_ELEMENT_BYTES = 2

BoolArray = npt.NDArray[np.bool_]


def common_prefix_tokens(
    shared_tokens: int, smallest_computed_tokens: int, block_tokens: int = BLOCK_TOKENS
) -> int:
    """Common prefix as the engine sees it, tokens: whole KV blocks that are computed everywhere.

    Args:
        shared_tokens: leading tokens whose KV all *running* requests hold, also those that the step
            does not schedule.
        smallest_computed_tokens: fewest computed tokens of a request of the batch.
        block_tokens: tokens of a KV block, >= 1.

    Source: vLLM v1, KV cache manager and GPU model runner: leading blocks whose reference count is
    the number of running requests, capped at the smallest count of computed tokens.
    """
    return min(shared_tokens, smallest_computed_tokens) // block_tokens * block_tokens


def uses_cascade(
    batch_size: Numbers,
    prefix_tokens: Numbers,
    num_heads: int,
    num_kv_heads: int,
    num_sms: int,
    *,
    longest_query_tokens: Numbers = 1,
    is_plain_attention: bool = True,
) -> BoolArray:
    """Whether the FlashAttention backend of vLLM v1 cascades a step. Arrays broadcast.

    Never under 256 common tokens or 8 requests, or with sliding windows, ALiBi or local attention.
    Then always if the model has one query head per KV head or a request has more than one query in
    the step. Otherwise if the cascade needs strictly fewer waves, counted in tiles of KV:
    `ceil(heads ceil(B/128) / SMs) ceil(prefix/128)
    < ceil(B kv_heads ceil((heads/kv_heads)/128) ceil(prefix/128) / SMs)`.

    Args:
        batch_size: requests of the step, B.
        prefix_tokens: common prefix of whole blocks, see `common_prefix_tokens`.
        num_heads: query heads on this GPU.
        num_kv_heads: KV heads on this GPU.
        num_sms: processors of the GPU.
        longest_query_tokens: most tokens that one request computes in the step.
        is_plain_attention: no sliding window, ALiBi or local attention.

    Source: vLLM v1, FlashAttention backend, `use_cascade_attention`; on by default until pull
    request 36318 (March 2026).
    """
    batch, prefix = sizes("batch_size", batch_size), sizes("prefix_tokens", prefix_tokens, 0.0)
    queries = sizes("longest_query_tokens", longest_query_tokens)
    is_long = (prefix >= MIN_PREFIX_TOKENS) & (batch >= MIN_BATCH_SIZE)
    prefix_tiles = np.ceil(prefix / _RULE_TILE)
    cascade_tiles = np.ceil(num_heads * np.ceil(batch / _RULE_TILE) / num_sms) * prefix_tiles
    group_tiles = -(-(num_heads // num_kv_heads) // _RULE_TILE)
    plain_tiles = np.ceil(batch * (num_kv_heads * group_tiles) * prefix_tiles / num_sms)
    is_better = (cascade_tiles < plain_tiles) | (queries > 1) | (num_heads == num_kv_heads)
    is_used: BoolArray = np.asarray(is_long & is_better & is_plain_attention)[()]
    return is_used


def prefix_pass_s(
    prefill: PrefillAttentionModel,
    num_queries: Numbers,
    prefix_tokens: Numbers,
    num_heads: int,
    num_kv_heads: int,
    head_dim: int = 128,
) -> FloatArray:
    """Seconds of the pass over the common prefix in one layer; arrays broadcast.

    `launch + max(waves * tile, bytes / io rate)`: thread blocks of 64 queries of one head, of which
    one runs on a processor at a time and takes the prefill kernel's tail, one tile over the whole
    prefix. No split of the prefix, and no packing of the query heads of a KV head. The prefill
    form itself, total work plus a tail, would count the tiles twice: mostly they fill less than
    one wave.

    Args:
        prefill: form and constants of the prefill kernel.
        num_queries: queries, one per request of a decode step.
        prefix_tokens: common prefix.
        num_heads: query heads on this GPU.
        num_kv_heads: KV heads on this GPU.
        head_dim: width of a head.

    Source: derived here from the fitted prefill form; checked only against whole decode steps.
    """
    queries, prefix = sizes("num_queries", num_queries), sizes("prefix_tokens", prefix_tokens, 0.0)
    tile_flops = 4.0 * head_dim * _QUERY_TILE * prefix
    waves = np.ceil(num_heads * np.ceil(queries / _QUERY_TILE) / prefill.num_sms)
    tile_s = prefill.tail_weight * prefill.num_sms * tile_flops / prefill.flops_per_s
    elements = 2.0 * head_dim * (num_heads * queries + num_kv_heads * prefix)
    io_s = _ELEMENT_BYTES * elements / prefill.io_bytes_per_s
    return as_times(prefill.launch_s + np.maximum(waves * tile_s, io_s))
