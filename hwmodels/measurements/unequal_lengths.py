"""Measured decode attention over batches with unequal context lengths (one long, others short)."""

from dataclasses import replace
from pathlib import Path

from hwmodels.measurements.rows import MeasuredRows, left_out
from hwmodels.measurements.tables import read_table, rows_of

SOURCE = "unequal-length attention grid of casys-kaist/LLMServingSim (MIT), RTX PRO 6000"

NUM_ITERATIONS = 3
"""Every time of the grid is the sum over so many runs of the kernel."""

_COLUMNS = {
    "batch_size": "n",
    "num_long": "nb",
    "short_tokens": "kvs",
    "long_tokens": "kv_big",
    "mean_tokens": "kv_mean",
    "equal_mean_us": "t_mean_us",
    "equal_longest_us": "t_max_us",
}


def load_unequal_lengths(path: Path) -> MeasuredRows:
    """Pure decode rows: lengths of the batch and the time of one run of the kernel.

    Columns: `batch_size`, `num_long`, `short_tokens`, `long_tokens`, `mean_tokens`, and the times
    of the equal-length batches `equal_mean_s` (all at the mean) and `equal_longest_s` (all at the
    longest), of one run each. Left out: mixed prefill and decode steps.

    Raises:
        ConfigError: the file is missing or not such a table.
    """
    frame = read_table(path, ("regime", "t_skew_us", *_COLUMNS.values()))
    kept = frame[frame["regime"] == "pure"]
    mixed = left_out(len(frame) - len(kept), "mixed prefill and decode")
    s_per_us = 1e-6 / NUM_ITERATIONS
    rows = rows_of(kept, path, _COLUMNS, "t_skew_us", SOURCE, mixed, s_per_unit=s_per_us)
    columns = dict(rows.columns)
    for name in ("equal_mean", "equal_longest"):
        columns[f"{name}_s"] = columns.pop(f"{name}_us") * s_per_us
    return replace(rows, columns=columns)
