"""What a step has to compute and move: FLOPs and HBM bytes per kind of operator, no device.

All functions take the part of the model that one GPU holds (`ModelShape.sharded`) and return exact
integers. Bytes are those that must cross HBM at least once if nothing survives in L2 from one
operator to the next; weights are read once per step. Not counted: sampling, biases and norm scales.
"""

from typing import NamedTuple

from hwmodels.model_shape import ModelShape


class Work(NamedTuple):
    """FLOPs and HBM bytes of one GPU."""

    flops: int
    hbm_bytes: int


def matmul_work(num_rows: int, inner: int, outer: int, dtype_bytes: int) -> Work:
    """`C[num_rows, outer] = A[num_rows, inner] B[inner, outer]`, each matrix moved once."""
    elements = num_rows * inner + inner * outer + num_rows * outer
    return Work(2 * num_rows * inner * outer, elements * dtype_bytes)


def distinct_experts(num_experts: int, experts_per_token: int, num_tokens: int) -> float:
    """Expected number of experts that at least one of the tokens visits.

    `E (1 - (1 - k/E)^T)` for tokens that choose independently and evenly.
    """
    missed_ratio = (1.0 - experts_per_token / num_experts) ** num_tokens
    return num_experts * (1.0 - missed_ratio)


def layer_matmuls(shape: ModelShape, num_tokens: int) -> list[Work]:
    """The matrix products of one layer over `num_tokens` tokens, one entry per kernel."""
    hidden, dtype = shape.hidden_size, shape.dtype_bytes
    qkv = shape.query_size + 2 * shape.kv_size
    products = [(hidden, qkv), (shape.query_size, hidden)]
    for width in (shape.intermediate_size, shape.shared_expert_intermediate_size):
        if width:
            products += [(hidden, shape.mlp_up_matrices * width), (width, hidden)]
    if shape.num_experts:
        products.append((hidden, shape.num_experts))
    works = [matmul_work(num_tokens, inner, outer, dtype) for inner, outer in products]
    return works + _expert_matmuls(shape, num_tokens)


def _expert_matmuls(shape: ModelShape, num_tokens: int) -> list[Work]:
    """Grouped products of the routed experts: rows of all, weights of the distinct ones."""
    if not shape.num_experts:
        return []
    rows = num_tokens * shape.experts_per_token
    visited = distinct_experts(shape.num_experts, shape.experts_per_token, num_tokens)
    width, hidden = shape.moe_intermediate_size, shape.hidden_size
    works = []
    for inner, outer in ((hidden, shape.mlp_up_matrices * width), (width, hidden)):
        elements = rows * (inner + outer) + round(visited * (inner * outer))
        works.append(Work(2 * rows * inner * outer, elements * shape.dtype_bytes))
    return works


def logits_matmul(shape: ModelShape, num_sampled: int) -> Work:
    """Output projection of the positions that are sampled; nothing if there are none."""
    if not num_sampled:
        return Work(0, 0)
    return matmul_work(num_sampled, shape.hidden_size, shape.vocab_size, shape.dtype_bytes)


def small_ops_bytes(shape: ModelShape, num_tokens: int) -> int:
    """Traffic of the element-wise operators: embedding, norms, rotary positions, activation.

    Per token and layer: two norms that also add the residual (two rows read, two written each),
    rotary positions in place, and the MLP's activation.
    """
    residual_norm = 4 * shape.hidden_size
    has_rotary = not shape.num_position_embeddings
    rotary = 2 * (shape.query_size + shape.kv_size) if has_rotary else 0
    width = (
        shape.intermediate_size
        + shape.shared_expert_intermediate_size
        + shape.experts_per_token * shape.moe_intermediate_size
    )
    activation = (shape.mlp_up_matrices + 1) * width
    layer = 2 * residual_norm + rotary + activation
    embedding = 2 * shape.hidden_size
    elements = shape.num_layers * layer + embedding + residual_norm
    return num_tokens * elements * shape.dtype_bytes


def attention_flops_per_pair(shape: ModelShape) -> int:
    """FLOPs of one query token against one context token, all layers and heads."""
    return 4 * shape.num_layers * shape.query_size


def attention_bytes_per_new_token(shape: ModelShape) -> int:
    """Bytes of a new token besides its context: query read, output and own KV written."""
    query_and_output = 2 * shape.num_layers * shape.query_size * shape.dtype_bytes
    return query_and_output + shape.kv_bytes_per_token


def decode_attention_work(shape: ModelShape, num_requests: int, context_tokens: int) -> Work:
    """Attention of a decode batch whose contexts sum to `context_tokens`, all layers."""
    return Work(
        context_tokens * attention_flops_per_pair(shape),
        context_tokens * shape.kv_bytes_per_token
        + num_requests * attention_bytes_per_new_token(shape),
    )


def causal_pairs(new_tokens: int, prefix_tokens: int) -> int:
    """Pairs of query and visible context token of a prefill chunk after a prefix."""
    return new_tokens * prefix_tokens + new_tokens * (new_tokens + 1) // 2


def prefill_attention_work(shape: ModelShape, new_tokens: int, prefix_tokens: int) -> Work:
    """Causal attention of one prefill chunk, all layers; its context is read once."""
    return Work(
        causal_pairs(new_tokens, prefix_tokens) * attention_flops_per_pair(shape),
        (new_tokens + prefix_tokens) * shape.kv_bytes_per_token
        + new_tokens * attention_bytes_per_new_token(shape),
    )


def all_reduce_bytes(shape: ModelShape, num_tokens: int) -> int:
    """Message of one all-reduce over the hidden states of `num_tokens` tokens."""
    return num_tokens * shape.hidden_size * shape.dtype_bytes


def num_all_reduces(shape: ModelShape) -> int:
    """All-reduces per step under tensor parallelism.

    Two per layer (after attention and after the MLP) and one for the vocabulary-parallel embedding.
    """
    return 2 * shape.num_layers + 1
