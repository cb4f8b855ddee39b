"""Measured attention over batches with unequal context lengths (one long, others short).

The grid has batches of decodes alone and, at the same lengths, with one prefill chunk in the call.
Not stated in it: the heads; `recipes.unequal_lengths` says which they must be.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np

from hwmodels.measurements.rows import MeasuredRows, joined, left_out, median_of_repeats
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
_CHUNK_COLUMNS = {"chunk_tokens": "pc", "prefix_tokens": "kp"}
_TIMES = ("equal_mean_us", "equal_longest_us")
_OTHERS = {"pure": "mixed prefill and decode", "mixed": "decodes alone"}
"""Regime that is read -> what the rows of the other one are."""


def load_unequal_lengths(path: Path) -> MeasuredRows:
    """Pure decode rows: lengths of the batch and the time of one run of the kernel.

    Columns: `batch_size`, `num_long`, `short_tokens`, `long_tokens`, `mean_tokens`, and the times
    of the equal-length batches `equal_mean_s` (all at the mean) and `equal_longest_s` (all at the
    longest), of one run each. Left out: mixed prefill and decode steps.

    Raises:
        ConfigError: the file is missing or not such a table.
    """
    return _load(path, "pure", _COLUMNS)


def load_decode_batches(path: Path) -> MeasuredRows:
    """All batches of decodes alone, a row each: `batch_size`, moments of the lengths, `num_long`.

    Moments are `context_tokens` (sum), `longest_tokens` and `sum_squares`; `num_long` is 0 where
    all lengths are equal. Every row of the table holds three batches; repeats become their median.

    Raises:
        ConfigError: the file is missing or not such a table.
    """
    return _batches(_load(path, "pure", _COLUMNS), ())


def load_mixed_steps(path: Path) -> MeasuredRows:
    """The same for calls with one prefill chunk more: `chunk_tokens` after `prefix_tokens`.

    Raises:
        ConfigError: the file is missing or not such a table.
    """
    rows = _load(path, "mixed", _COLUMNS | _CHUNK_COLUMNS)
    return _batches(rows, tuple(_CHUNK_COLUMNS))


def _load(path: Path, regime: str, columns: dict[str, str]) -> MeasuredRows:
    frame = read_table(path, ("regime", "t_skew_us", *columns.values()))
    kept = frame[frame["regime"] == regime]
    others = left_out(len(frame) - len(kept), _OTHERS[regime])
    s_per_us = 1e-6 / NUM_ITERATIONS
    rows = rows_of(kept, path, columns, "t_skew_us", SOURCE, others, s_per_unit=s_per_us)
    found = dict(rows.columns)
    for name in _TIMES:
        found[f"{name.removesuffix('_us')}_s"] = found.pop(name) * s_per_us
    return replace(rows, columns=found)


def _batches(rows: MeasuredRows, kept: tuple[str, ...]) -> MeasuredRows:
    """The three batches of every row: unequal lengths, all at the mean, all at the longest."""
    columns = rows.columns
    batch, num_long = columns["batch_size"], columns["num_long"]
    short, longest = columns["short_tokens"], columns["long_tokens"]
    own = {name: columns[name] for name in kept}
    unequal = replace(
        rows,
        columns=own
        | {
            "batch_size": batch,
            "num_long": num_long,
            "context_tokens": num_long * longest + (batch - num_long) * short,
            "longest_tokens": longest,
            "sum_squares": num_long * longest**2 + (batch - num_long) * short**2,
        },
    )
    equal = [
        replace(
            rows,
            columns=own
            | {
                "batch_size": batch,
                "num_long": np.zeros(rows.num_rows),
                "context_tokens": batch * tokens,
                "longest_tokens": tokens,
                "sum_squares": batch * tokens**2,
            },
            time_s=columns[time],
            left_out=(),
        )
        for tokens, time in (
            (columns["mean_tokens"], "equal_mean_s"),
            (longest, "equal_longest_s"),
        )
    ]
    return median_of_repeats(replace(joined([unequal, *equal]), sha256=rows.sha256))
