"""Measured dense matrix products in bf16."""

from pathlib import Path

from hwmodels.measurements.rows import MeasuredRows, median_of_repeats
from hwmodels.measurements.tables import keep_where, read_table, rows_of

SOURCE = "gemm table of aiconfigurator-core 0.12.0 (vLLM, Apache-2.0)"


def load_gemm(path: Path) -> MeasuredRows:
    """Rows with columns `m`, `n`, `k` (elements) from a GEMM table (times in ms).

    Raises:
        ConfigError: the file is missing or not such a table.
    """
    frame = read_table(path, ("gemm_dtype", "m", "n", "k", "latency"))
    frame, other = keep_where(frame, "gemm_dtype", ("bfloat16",), "not bfloat16")
    names = {name: name for name in ("m", "n", "k")}
    return median_of_repeats(rows_of(frame, path, names, "latency", SOURCE, other))
