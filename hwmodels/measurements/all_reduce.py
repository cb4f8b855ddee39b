"""Measured all-reduces inside one node: vLLM's custom kernel in a CUDA graph, and NCCL."""

from dataclasses import replace
from pathlib import Path

from hwmodels.measurements.rows import MeasuredRows, median_of_repeats
from hwmodels.measurements.tables import keep_where, read_table, rows_of

CUSTOM_SOURCE = "custom all-reduce table of aiconfigurator-core 0.12.0 (vLLM, Apache-2.0)"
NCCL_SOURCE = "NCCL table of aiconfigurator-core 0.12.0 (Apache-2.0)"

CUSTOM_LIMIT_BYTES = 8 * 2**20
"""vLLM's custom all-reduce serves messages below this; larger ones fall back to NCCL."""

_BYTES_PER_ELEMENT = 2
_SIZE = {"num_bytes": "message_size", "num_gpus": "num_gpus"}


def load_custom_all_reduce(path: Path) -> MeasuredRows:
    """Rows of the CUDA-graph kernel: `num_bytes` of the message, `num_gpus`.

    The table counts a message in elements of two bytes. Left out: eager launches (host time
    rather than the kernel's) and messages that NCCL serves.

    Raises:
        ConfigError: the file is missing or not such a table.
    """
    frame = read_table(path, ("allreduce_dtype", "kernel_source", *_SIZE.values(), "latency"))
    kept, other_type = keep_where(frame, "allreduce_dtype", ("bfloat16",), "not bfloat16")
    kept, eager = keep_where(kept, "kernel_source", ("vLLM_custom_graph",), "eager launches")
    rows = _in_bytes(rows_of(kept, path, _SIZE, "latency", CUSTOM_SOURCE, other_type + eager))
    is_custom = rows.columns["num_bytes"] < CUSTOM_LIMIT_BYTES
    return median_of_repeats(rows.where(is_custom, "served by NCCL (8 MiB and more)"))


def load_nccl_all_reduce(path: Path) -> MeasuredRows:
    """Rows of NCCL's all-reduce: `num_bytes` of the message, `num_gpus`.

    The table counts a message in elements of two bytes. Left out: other collectives and types.

    Raises:
        ConfigError: the file is missing or not such a table.
    """
    frame = read_table(path, ("op_name", "nccl_dtype", *_SIZE.values(), "latency"))
    kept, others = keep_where(frame, "op_name", ("all_reduce",), "other collectives")
    kept, other_type = keep_where(kept, "nccl_dtype", ("half",), "not two-byte elements")
    left_out = others + other_type
    return median_of_repeats(
        _in_bytes(rows_of(kept, path, _SIZE, "latency", NCCL_SOURCE, left_out))
    )


def _in_bytes(rows: MeasuredRows) -> MeasuredRows:
    columns = dict(rows.columns)
    columns["num_bytes"] = columns["num_bytes"] * _BYTES_PER_ELEMENT
    return replace(rows, columns=columns)
