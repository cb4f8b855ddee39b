"""What the kernels must compute, in float64 and in the plainest way."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Float64Array = NDArray[np.float64]


def attention(query: Float64Array, keys: Float64Array, values: Float64Array) -> Float64Array:
    """Attention of one query token over the tokens that it sees.

    `softmax(q k / sqrt(head width)) v` for each query head, with the KV head of its group.

    Args:
        query: shape (heads, head width).
        keys: shape (tokens, KV heads, head width).
        values: as `keys`.

    Returns:
        Shape (heads, head width).
    """
    num_heads, head_dim = query.shape
    group = num_heads // keys.shape[1]
    results = np.empty_like(query)
    for head in range(num_heads):
        scores = keys[:, head // group] @ query[head] / np.sqrt(head_dim)
        weights = np.exp(scores - scores.max())
        results[head] = weights @ values[:, head // group] / weights.sum()
    return results


def product(left: Float64Array, right: Float64Array) -> Float64Array:
    """Matrix product of shapes (m, k) and (k, n)."""
    return left @ right


def relative_error(results: Float64Array, expected: Float64Array) -> float:
    """Largest deviation over the largest expected size; infinite where a result is not finite."""
    if not np.isfinite(results).all():
        return float("inf")
    return float(np.abs(results - expected).max() / np.abs(expected).max())


def sampled(count: int, most: int, rng: np.random.Generator) -> Sequence[int]:
    """First, last and some others of `count` indices, at most `most` in all, rising."""
    if count <= most:
        return range(count)
    others = rng.choice(np.arange(1, count - 1), size=most - 2, replace=False)
    return [0, *sorted(int(index) for index in others), count - 1]
