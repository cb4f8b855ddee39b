"""Which arguments each tabled kernel has, how far apart two of them are, and what its form says.

Distances are octaves, weighted by what the residuals of the fitted forms show: sizes that change
the kernel's work alike count in full, widths that only scale it count half.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from hwmodels.kernels.arrays import Numbers
from hwmodels.kernels.decode_attention import DecodeAttentionModel
from hwmodels.tables.residuals import APART
from sim.interfaces import FloatArray

Columns = Mapping[str, FloatArray]

HEAD_DIM = 128
"""Width of a head in tables of attention; other widths have no measured points."""

HALF = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class TabledKernel:
    """What makes a point of one kernel's table.

    Attributes:
        columns: arguments of a point, sizes of at least 1 unless said otherwise.
        shape_columns: arguments that make a shape; whole shapes are held out.
        coordinates: places of points, shape (points, axes), of columns of shape (points,).
        form_s: seconds by the fitted form, shape (points,).
        may_be_zero: arguments whose smallest value is 0.
        along: number of the axis along which factors are linear; None where the scalar forms of
            attention see to it.
    """

    columns: tuple[str, ...]
    shape_columns: tuple[str, ...]
    coordinates: Callable[[Columns], FloatArray]
    form_s: Callable[[Any, Columns], FloatArray]
    may_be_zero: tuple[str, ...] = ()
    along: int | None = None


def octaves(values: Numbers) -> FloatArray:
    """Base-2 logarithms as an array."""
    logs: FloatArray = np.log2(np.asarray(values, dtype=np.float64))
    return logs


def stacked(*axes: Numbers) -> FloatArray:
    """Axes that broadcast, side by side: shape (places, axes)."""
    columns = np.broadcast_arrays(*(np.asarray(axis, dtype=np.float64) for axis in axes))
    return np.stack([column.reshape(-1) for column in columns], axis=1)


def gemm_places(m: Numbers, n: Numbers, k: Numbers) -> FloatArray:
    """Places of matrix products, shape (places, 3)."""
    return stacked(octaves(m), octaves(n), octaves(k))


def decode_places(
    batch_size: Numbers, context_tokens: Numbers, num_heads: Numbers, num_kv_heads: Numbers
) -> FloatArray:
    """Places of decode batches of one context length, shape (places, 5).

    One query head per KV head is a kernel of its own, apart from grouped queries.
    """
    heads, kv_heads = np.asarray(num_heads), np.asarray(num_kv_heads)
    return stacked(
        octaves(batch_size),
        octaves(context_tokens),
        octaves(kv_heads),
        HALF * octaves(heads / kv_heads),
        APART * (heads == kv_heads),
    )


def prefill_places(
    batch_size: Numbers,
    chunk_tokens: Numbers,
    context_per_chunk: Numbers,
    num_heads: Numbers,
    num_kv_heads: Numbers,
) -> FloatArray:
    """Places of prefill chunks, shape (places, 5).

    Args:
        batch_size: sequences.
        chunk_tokens: new tokens of each.
        context_per_chunk: `1 + prefix / chunk`.
        num_heads: query heads.
        num_kv_heads: KV heads.
    """
    heads = np.asarray(num_heads)
    return stacked(
        octaves(batch_size),
        octaves(chunk_tokens),
        octaves(context_per_chunk),
        octaves(heads),
        HALF * octaves(heads / np.asarray(num_kv_heads)),
    )


def moe_places(
    num_tokens: Numbers,
    hidden_size: Numbers,
    intermediate_size: Numbers,
    top_k: Numbers,
    num_experts: Numbers,
) -> FloatArray:
    """Places of layers of routed experts, shape (places, 5)."""
    return stacked(
        octaves(num_tokens),
        HALF * octaves(hidden_size),
        HALF * octaves(intermediate_size),
        octaves(top_k),
        octaves(num_experts),
    )


def all_reduce_places(num_bytes: Numbers, num_gpus: Numbers) -> FloatArray:
    """Places of all-reduces, shape (places, 2); group sizes never speak for one another."""
    return stacked(octaves(np.maximum(num_bytes, 1.0)), APART * octaves(num_gpus))


def _gemm_form_s(form: Any, columns: Columns) -> FloatArray:
    times_s: FloatArray = form.time_s(columns["m"], columns["n"], columns["k"])
    return times_s


def _decode_form_s(form: DecodeAttentionModel, columns: Columns) -> FloatArray:
    heads = np.stack([columns["num_heads"], columns["num_kv_heads"]], axis=1)
    batch, context = columns["batch_size"], columns["context_tokens"]
    total = batch * context
    times_s = np.empty(batch.size)
    for num_heads, num_kv_heads in np.unique(heads, axis=0).astype(np.int64).tolist():
        of = (heads == (num_heads, num_kv_heads)).all(axis=1)
        squares = total[of] * context[of]
        times_s[of] = form.time_s(
            batch[of], total[of], context[of], squares, num_heads, num_kv_heads, HEAD_DIM
        )
    return times_s


def _prefill_form_s(form: Any, columns: Columns) -> FloatArray:
    names = ("batch_size", "chunk_tokens", "prefix_tokens", "num_heads", "num_kv_heads")
    times_s: FloatArray = form.time_s(*(columns[name] for name in names), HEAD_DIM)
    return times_s


def _moe_form_s(form: Any, columns: Columns) -> FloatArray:
    names = ("num_tokens", "hidden_size", "intermediate_size", "top_k", "num_experts")
    times_s: FloatArray = form.time_s(*(columns[name] for name in names))
    return times_s


def _all_reduce_form_s(form: Any, columns: Columns) -> FloatArray:
    times_s: FloatArray = form.time_s(columns["num_bytes"], columns["num_gpus"])
    return times_s


_ALL_REDUCE = TabledKernel(
    columns=("num_bytes", "num_gpus"),
    shape_columns=("num_bytes", "num_gpus"),
    coordinates=lambda columns: all_reduce_places(columns["num_bytes"], columns["num_gpus"]),
    form_s=_all_reduce_form_s,
    along=0,
)

TABLED_KERNELS: dict[str, TabledKernel] = {
    "gemm": TabledKernel(
        columns=("m", "n", "k"),
        shape_columns=("n", "k"),
        coordinates=lambda columns: gemm_places(columns["m"], columns["n"], columns["k"]),
        form_s=_gemm_form_s,
        along=0,
    ),
    "decode_attention": TabledKernel(
        columns=("batch_size", "context_tokens", "num_heads", "num_kv_heads"),
        shape_columns=("num_heads", "num_kv_heads"),
        coordinates=lambda columns: decode_places(
            columns["batch_size"],
            columns["context_tokens"],
            columns["num_heads"],
            columns["num_kv_heads"],
        ),
        form_s=_decode_form_s,
    ),
    "prefill_attention": TabledKernel(
        columns=("batch_size", "chunk_tokens", "prefix_tokens", "num_heads", "num_kv_heads"),
        shape_columns=("num_heads", "num_kv_heads"),
        coordinates=lambda columns: prefill_places(
            columns["batch_size"],
            columns["chunk_tokens"],
            1.0 + columns["prefix_tokens"] / columns["chunk_tokens"],
            columns["num_heads"],
            columns["num_kv_heads"],
        ),
        form_s=_prefill_form_s,
        may_be_zero=("prefix_tokens",),
    ),
    "moe": TabledKernel(
        columns=("num_tokens", "hidden_size", "intermediate_size", "top_k", "num_experts"),
        shape_columns=("hidden_size", "intermediate_size", "top_k", "num_experts"),
        coordinates=lambda columns: moe_places(
            columns["num_tokens"],
            columns["hidden_size"],
            columns["intermediate_size"],
            columns["top_k"],
            columns["num_experts"],
        ),
        form_s=_moe_form_s,
        along=0,
    ),
    "all_reduce": _ALL_REDUCE,
    "nccl": _ALL_REDUCE,
}
"""Kernels that a table may hold, by the field of `KernelModels`."""
