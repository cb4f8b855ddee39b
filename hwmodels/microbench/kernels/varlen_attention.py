"""Attention of sequences with any numbers of queries over paged keys and values.

Prefill chunks, decodes beside them in one call, and the pass over a common prefix. One thread
block takes a tile of queries of one head: no splits, and query heads of a KV head are not packed
together, as in variable-length calls of FlashAttention 2.
"""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl

from hwmodels.microbench.kernels.decode_attention import BLOCK_TOKENS, LOG2_E, Partials


@dataclass(frozen=True, slots=True, kw_only=True)
class Sequences:
    """Sequences with their queries; all tensors int32.

    Attributes:
        pages: pages of each sequence, shape (sequences, most pages of one).
        num_tokens: tokens with keys and values, the queries' own included where the attention is
            causal, shape (sequences,).
        first_query: row of its first query, shape (sequences,).
        num_queries: its queries; they are its last tokens, shape (sequences,).
        tile_sequence: sequence of each tile of queries, shape (tiles,).
        tile_start: first query of each tile, counted in its sequence, shape (tiles,).
        tile_rows: queries of a tile.
    """

    pages: torch.Tensor
    num_tokens: torch.Tensor
    first_query: torch.Tensor
    num_queries: torch.Tensor
    tile_sequence: torch.Tensor
    tile_start: torch.Tensor
    tile_rows: int


def num_tile_rows(most_queries: int) -> int:
    """Queries of a tile, for calls whose longest sequence has that many queries."""
    return 128 if most_queries > 64 else 64


@triton.jit(do_not_specialize=["pages_stride"])
def _varlen_kernel(
    query,
    keys,
    values,
    pages,
    num_tokens,
    first_query,
    num_queries,
    tile_sequence,
    tile_start,
    result,
    log_sums,
    scale,
    pages_stride,
    num_heads: tl.constexpr,
    num_kv_heads: tl.constexpr,
    tile_rows: tl.constexpr,
    block_tokens: tl.constexpr,
    page_tokens: tl.constexpr,
    head_dim: tl.constexpr,
    is_causal: tl.constexpr,
    is_partial: tl.constexpr,
):
    tile = tl.program_id(0)
    head = tl.program_id(1)
    kv_head = head // (num_heads // num_kv_heads)
    sequence = tl.load(tile_sequence + tile)
    start_row = tl.load(tile_start + tile)
    queries = tl.load(num_queries + sequence)
    context = tl.load(num_tokens + sequence)

    row = start_row + tl.arange(0, tile_rows)
    is_row = row < queries
    query_row = (tl.load(first_query + sequence) + row).to(tl.int64)
    width = tl.arange(0, head_dim)
    row_at = (query_row * num_heads + head)[:, None] * head_dim + width[None, :]
    q = tl.load(query + row_at, mask=is_row[:, None], other=0.0)

    last = context
    if is_causal:
        last = tl.minimum(context, context - queries + start_row + tile_rows)
    largest = tl.full((tile_rows,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((tile_rows,), dtype=tl.float32)
    weighted = tl.zeros((tile_rows, head_dim), dtype=tl.float32)
    for start in range(0, last, block_tokens):
        token = start + tl.arange(0, block_tokens)
        is_token = token < context
        page = tl.load(
            pages + sequence.to(tl.int64) * pages_stride + token // page_tokens,
            mask=is_token,
            other=0,
        ).to(tl.int64)
        slot = page * page_tokens + token % page_tokens
        kv_at = (slot * num_kv_heads + kv_head)[:, None] * head_dim + width[None, :]
        k = tl.load(keys + kv_at, mask=is_token[:, None], other=0.0)
        v = tl.load(values + kv_at, mask=is_token[:, None], other=0.0)
        score = tl.dot(q, tl.trans(k)) * scale
        is_seen = is_token[None, :]
        if is_causal:
            is_seen = is_seen & (token[None, :] <= (context - queries + row)[:, None])
        score = tl.where(is_seen, score, float("-inf"))
        new_largest = tl.maximum(largest, tl.max(score, axis=1))
        weight = tl.exp2(score - new_largest[:, None])
        fade = tl.exp2(largest - new_largest)
        total = total * fade + tl.sum(weight, axis=1)
        weighted = weighted * fade[:, None] + tl.dot(weight.to(v.dtype), v)
        largest = new_largest

    answer = weighted / total[:, None]
    if is_partial:
        tl.store(log_sums + query_row * num_heads + head, largest + tl.log2(total), mask=is_row)
        tl.store(result + row_at, answer, mask=is_row[:, None])
    else:
        tl.store(result + row_at, answer.to(result.dtype.element_ty), mask=is_row[:, None])


def varlen_attention(
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    sequences: Sequences,
    result: torch.Tensor | Partials,
    *,
    is_causal: bool = True,
) -> None:
    """Attention of every query over its sequence.

    Args:
        query: bf16, shape (queries, heads, head width).
        keys: bf16, shape (pages, page tokens, KV heads, head width).
        values: as `keys`.
        sequences: which queries read what.
        result: bf16, shape of `query`; or partial results, written to slot 0.
        is_causal: whether a query sees its sequence up to itself, or all of it.
    """
    _, num_heads, head_dim = query.shape
    _, page_tokens, num_kv_heads, _ = keys.shape
    _varlen_kernel[(sequences.tile_sequence.numel(), num_heads)](
        query,
        keys,
        values,
        sequences.pages,
        sequences.num_tokens,
        sequences.first_query,
        sequences.num_queries,
        sequences.tile_sequence,
        sequences.tile_start,
        result.values if isinstance(result, Partials) else result,
        result.log_sums if isinstance(result, Partials) else result,
        LOG2_E / head_dim**0.5,
        sequences.pages.stride(0),
        num_heads=num_heads,
        num_kv_heads=num_kv_heads,
        tile_rows=sequences.tile_rows,
        block_tokens=BLOCK_TOKENS,
        page_tokens=page_tokens,
        head_dim=head_dim,
        is_causal=is_causal,
        is_partial=isinstance(result, Partials),
        num_warps=8 if sequences.tile_rows > 64 else 4,
        num_stages=2,
    )
