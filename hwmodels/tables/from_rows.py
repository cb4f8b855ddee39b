"""Measured points from a file of microbenchmark rows.

Taken are the kernels that an engine would run: the library's products, decode attention of equal
contexts cut as the fitted form would cut them, chunks over a prefix, all-reduces of NCCL.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from hwmodels.fitting.rows_file import RowsFile, is_choice
from hwmodels.kernels.models import KernelModels
from hwmodels.measurements.rows import MeasuredRows, median_of_repeats

_SAME: Mapping[str, str] = {
    "num_heads": "num_heads",
    "num_kv_heads": "num_kv_heads",
    "batch_size": "batch",
}

_COLUMNS: dict[str, dict[str, str]] = {
    "gemm": {name: name for name in ("m", "n", "k")},
    "decode_attention": {**_SAME, "context_tokens": "context"},
    "prefill_attention": {
        **_SAME,
        "chunk_tokens": "chunk_tokens",
        "prefix_tokens": "prefix_tokens",
    },
    "nccl": {"num_bytes": "num_bytes", "num_gpus": "num_gpus"},
}
"""Columns of a table by name -> parameters of a benchmark."""

_BENCHMARKS = {
    "gemm": "gemm",
    "decode_attention": "decode_attention",
    "prefill_attention": "prefill",
    "nccl": "all_reduce",
}
"""Kernel -> benchmark that measures it."""


def points_by_kernel(file: RowsFile, models: KernelModels) -> dict[str, MeasuredRows]:
    """Rows of the kernels that a table can hold, one row per point.

    Args:
        file: rows of one device.
        models: fitted kernels; their choice of splits tells which decode rows count.
    """
    keep: dict[str, Callable[[MeasuredRows], tuple[NDArray[np.bool_], str]]] = {
        "gemm": _library,
        "decode_attention": lambda rows: _chosen_splits(rows, models),
    }
    found: dict[str, MeasuredRows] = {}
    for kernel, benchmark in _BENCHMARKS.items():
        rows = file.rows_of(benchmark)
        if rows is None:
            continue
        if kernel in keep:
            rows = rows.where(*keep[kernel](rows))
        if rows.num_rows:
            columns = {here: rows.columns[there] for here, there in _COLUMNS[kernel].items()}
            found[kernel] = median_of_repeats(replace(rows, columns=columns))
    return found


def _library(rows: MeasuredRows) -> tuple[NDArray[np.bool_], str]:
    return is_choice(rows.columns, "impl", "library"), "not the library's product"


def _chosen_splits(rows: MeasuredRows, models: KernelModels) -> tuple[NDArray[np.bool_], str]:
    model, columns = models.decode_attention, rows.columns
    is_chosen = is_choice(columns, "lengths", "equal")
    if model is None:  # told later, of every kernel alike
        return is_chosen, "unequal contexts"
    for place in np.flatnonzero(is_chosen).tolist():
        batch, context = columns["batch"][place], columns["context"][place]
        heads = int(columns["num_heads"][place]), int(columns["num_kv_heads"][place])
        is_chosen[place] &= columns["splits"][place] == model.splits(batch, context, *heads)
    return is_chosen, "unequal contexts, or not cut as the kernel would cut them"
