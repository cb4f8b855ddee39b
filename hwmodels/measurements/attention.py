"""Measured attention kernels: decode over a context, and prefill without one, head size 128."""

from pathlib import Path

from hwmodels.measurements.rows import MeasuredRows, median_of_repeats
from hwmodels.measurements.tables import keep_where, read_table, rows_of

SOURCE = "attention tables of aiconfigurator-core 0.12.0 (vLLM, Apache-2.0)"
HEAD_DIM = 128

FLASH_KERNELS = ("vllm_flash_attn", "vllm_flash_attn_fa3", "flash_attention")
"""Kernel generations that run at head size 128; the tables mix others in at other sizes."""

_NEEDED = (
    "kernel_source",
    "batch_size",
    "isl",
    "step",
    "num_heads",
    "num_key_value_heads",
    "head_dim",
    "attn_dtype",
    "kv_cache_dtype",
    "latency",
)
_HEADS = {"num_heads": "num_heads", "num_kv_heads": "num_key_value_heads"}


def load_generation_attention(path: Path, hbm_bytes_per_s: float, l2_bytes: float) -> MeasuredRows:
    """Decode rows: `batch_size`, `context_tokens` (of every request), `num_heads`, `num_kv_heads`.

    Left out: other head sizes and kernels, windows, and rows that would read more than twice the
    L2 cache faster than the memory's peak (a defect of the measurement).

    Args:
        path: table with times in ms; the context is `isl + step`.
        hbm_bytes_per_s: peak of the memory.
        l2_bytes: size of the cache.

    Raises:
        ConfigError: the file is missing or not such a table.
    """
    rows = _load(path, {"batch_size": "batch_size", "context_tokens": "context_tokens"})
    columns = rows.columns
    num_bytes = columns["batch_size"] * columns["context_tokens"] * columns["num_kv_heads"]
    num_bytes = num_bytes * 4 * HEAD_DIM
    is_possible = (num_bytes < 2 * l2_bytes) | (num_bytes / rows.time_s <= hbm_bytes_per_s)
    return rows.where(is_possible, "faster than the memory's peak")


def load_context_attention(path: Path) -> MeasuredRows:
    """Prefill rows: `batch_size`, `chunk_tokens`, `prefix_tokens` (0), `num_heads`, `num_kv_heads`.

    Left out: other head sizes and kernels, windows, and repeats of a shape.

    Args:
        path: table with times in ms; the chunk is `isl`, the prefix `step`.

    Raises:
        ConfigError: the file is missing or not such a table.
    """
    names = {"batch_size": "batch_size", "chunk_tokens": "isl", "prefix_tokens": "step"}
    return _load(path, names)


def _load(path: Path, names: dict[str, str]) -> MeasuredRows:
    frame = read_table(path, _NEEDED)
    kept, other_dim = keep_where(frame, "head_dim", (HEAD_DIM,), f"head size not {HEAD_DIM}")
    kept, other_kernel = keep_where(kept, "kernel_source", FLASH_KERNELS, "another kernel")
    kept, other_type = keep_where(kept, "attn_dtype", ("bfloat16",), "not bfloat16")
    kept, other_cache = keep_where(kept, "kv_cache_dtype", ("bfloat16",), "KV not bfloat16")
    kept, windowed = keep_where(kept, "window_size", (0,), "a sliding window")
    kept = kept.assign(context_tokens=kept["isl"] + kept["step"])
    left_out = other_dim + other_kernel + other_type + other_cache + windowed
    return median_of_repeats(rows_of(kept, path, names | _HEADS, "latency", SOURCE, left_out))
