"""Decode attention over paged keys and values, with and without splits.

Works on nodes: a node is a run of tokens that some requests, its members, read. In plain decode
each request is a node of its own with one member; a shared prefix is a node with many. All query
heads of one KV head and all members of a node form the rows of one tile, cut where it is too high.
Blocks of a node follow one another in the launch: KV heads first, then splits, tiles and nodes.
"""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl

BLOCK_TOKENS = 64
"""Tokens that a thread block reads at a time."""
MAX_ROWS = 64
"""Rows of a tile at most."""
_MIN_ROWS = 16
"""Smallest matrix operand."""
LOG2_E = 1.4426950408889634


@dataclass(frozen=True, slots=True, kw_only=True)
class Nodes:
    """Runs of tokens and who reads them; all tensors int32.

    Attributes:
        pages: pages of each node, shape (nodes, most pages of a node).
        num_tokens: tokens of each node, at least 1, shape (nodes,).
        members: requests of each node, by their rows in the queries, shape (nodes, members).
    """

    pages: torch.Tensor
    num_tokens: torch.Tensor
    members: torch.Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Partials:
    """Results over parts of the contexts, to be merged.

    Attributes:
        values: float32, normalised, shape (slots, requests, heads, head width).
        log_sums: float32, base-2 logarithms of the softmax sums, minus infinity where a part is
            empty, shape (slots, requests, heads).
    """

    values: torch.Tensor
    log_sums: torch.Tensor


def num_tile_rows(num_members: int, queries_per_kv: int) -> int:
    """Rows of the tile of a thread block."""
    packed: int = triton.next_power_of_2(num_members * queries_per_kv)
    return max(_MIN_ROWS, min(MAX_ROWS, packed))


@triton.jit(
    do_not_specialize=[
        "pages_stride",
        "num_members",
        "num_requests",
        "num_tiles",
        "first_slot",
        "num_splits",
    ]
)
def _decode_kernel(
    query,
    keys,
    values,
    pages,
    num_tokens,
    members,
    result,
    log_sums,
    scale,
    pages_stride,
    num_members,
    num_requests,
    num_tiles,
    first_slot,
    num_splits,
    num_kv_heads: tl.constexpr,
    queries_per_kv: tl.constexpr,
    tile_rows: tl.constexpr,
    block_tokens: tl.constexpr,
    page_tokens: tl.constexpr,
    head_dim: tl.constexpr,
    is_partial: tl.constexpr,
):
    kv_head = tl.program_id(0) % num_kv_heads
    split = tl.program_id(0) // num_kv_heads
    tile = tl.program_id(1) % num_tiles
    node = tl.program_id(1) // num_tiles
    num_heads: tl.constexpr = num_kv_heads * queries_per_kv

    row = tile * tile_rows + tl.arange(0, tile_rows)
    member = row // queries_per_kv
    is_row = member < num_members
    request = tl.load(members + node * num_members + member, mask=is_row, other=0).to(tl.int64)
    head = kv_head * queries_per_kv + row % queries_per_kv
    width = tl.arange(0, head_dim)
    row_at = (request * num_heads + head)[:, None] * head_dim + width[None, :]
    q = tl.load(query + row_at, mask=is_row[:, None], other=0.0)

    context = tl.load(num_tokens + node)
    blocks_per_split = tl.cdiv(tl.cdiv(context, block_tokens), num_splits)
    first = split * blocks_per_split * block_tokens
    last = tl.minimum(first + blocks_per_split * block_tokens, context)

    largest = tl.full((tile_rows,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((tile_rows,), dtype=tl.float32)
    weighted = tl.zeros((tile_rows, head_dim), dtype=tl.float32)
    for start in range(first, last, block_tokens):
        token = start + tl.arange(0, block_tokens)
        is_token = token < last
        page = tl.load(
            pages + node.to(tl.int64) * pages_stride + token // page_tokens,
            mask=is_token,
            other=0,
        ).to(tl.int64)
        slot = page * page_tokens + token % page_tokens
        kv_at = (slot * num_kv_heads + kv_head)[:, None] * head_dim + width[None, :]
        k = tl.load(keys + kv_at, mask=is_token[:, None], other=0.0)
        v = tl.load(values + kv_at, mask=is_token[:, None], other=0.0)
        score = tl.dot(q, tl.trans(k)) * scale
        score = tl.where(is_token[None, :], score, float("-inf"))
        new_largest = tl.maximum(largest, tl.max(score, axis=1))
        weight = tl.exp2(score - new_largest[:, None])
        fade = tl.exp2(largest - new_largest)
        total = total * fade + tl.sum(weight, axis=1)
        weighted = weighted * fade[:, None] + tl.dot(weight.to(v.dtype), v)
        largest = new_largest

    safe_total = tl.where(total > 0.0, total, 1.0)
    answer = weighted / safe_total[:, None]
    if is_partial:
        slot_at = (first_slot + split).to(tl.int64) * num_requests * num_heads
        log_sum = tl.where(total > 0.0, largest + tl.log2(safe_total), float("-inf"))
        tl.store(log_sums + slot_at + request * num_heads + head, log_sum, mask=is_row)
        tl.store(result + slot_at * head_dim + row_at, answer, mask=is_row[:, None])
    else:
        tl.store(result + row_at, answer.to(result.dtype.element_ty), mask=is_row[:, None])


def decode_attention(
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    nodes: Nodes,
    result: torch.Tensor | Partials,
    *,
    num_splits: int = 1,
    first_slot: int = 0,
) -> None:
    """Attention of every request over its node.

    Args:
        query: bf16, shape (requests, heads, head width).
        keys: bf16, shape (pages, page tokens, KV heads, head width).
        values: as `keys`.
        nodes: what is read by whom; a request belongs to one node.
        result: bf16, shape of `query`; or partial results, one slot for each split.
        num_splits: parts of a node; more than 1 needs partial results.
        first_slot: slot of the first part.
    """
    num_requests, num_heads, head_dim = query.shape
    _, page_tokens, num_kv_heads, _ = keys.shape
    num_nodes, num_members = nodes.members.shape
    queries_per_kv = num_heads // num_kv_heads
    tile_rows = num_tile_rows(num_members, queries_per_kv)
    num_tiles = -(-num_members * queries_per_kv // tile_rows)
    is_partial = isinstance(result, Partials)
    assert is_partial or num_splits == 1
    _decode_kernel[(num_kv_heads * num_splits, num_nodes * num_tiles)](
        query,
        keys,
        values,
        nodes.pages,
        nodes.num_tokens,
        nodes.members,
        result.values if isinstance(result, Partials) else result,
        result.log_sums if isinstance(result, Partials) else result,
        LOG2_E / head_dim**0.5,
        nodes.pages.stride(0),
        num_members,
        num_requests,
        num_tiles,
        first_slot,
        num_splits,
        num_kv_heads=num_kv_heads,
        queries_per_kv=queries_per_kv,
        tile_rows=tile_rows,
        block_tokens=BLOCK_TOKENS,
        page_tokens=page_tokens,
        head_dim=head_dim,
        is_partial=is_partial,
        num_warps=4,
        num_stages=2,
    )
