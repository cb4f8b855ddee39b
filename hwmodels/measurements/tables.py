"""Reading of one measured table (Parquet or CSV) into columns of float64."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hwmodels.measurements.rows import FloatArray, LeftOut, MeasuredRows, file_sha256
from hwmodels.measurements.rows import left_out as count_left_out
from sim.errors import ConfigError

if TYPE_CHECKING:
    import pandas as pd

S_PER_MS = 1e-3


def read_table(path: Path, needed: tuple[str, ...]) -> "pd.DataFrame":
    """Read a table and check that it has the columns needed.

    Raises:
        ConfigError: the file is missing, cannot be read as its kind, or lacks a column.
    """
    import pandas as pd

    try:
        frame = pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path)
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file") from None
    except OSError as error:
        raise ConfigError(
            f"{path}: cannot read the file: {error.strerror or 'not a readable table'}"
        ) from None
    except Exception as error:  # readers raise many kinds for a broken file
        first = str(error).splitlines()[:1]
        raise ConfigError(f"{path}: not a readable table: {''.join(first)}") from None
    missing = [name for name in needed if name not in frame.columns]
    if missing:
        raise ConfigError(f"{path}: missing column {', '.join(missing)}")
    return frame


def rows_of(
    frame: "pd.DataFrame",
    path: Path,
    columns: Mapping[str, str],
    time_column: str,
    source: str,
    left_out: tuple[LeftOut, ...] = (),
    s_per_unit: float = S_PER_MS,
) -> MeasuredRows:
    """Rows of a table that was read and filtered.

    Args:
        frame: the rows to take.
        path: the file, for its hash.
        columns: name here -> name in the table.
        time_column: measured times.
        source: citation.
        left_out: rows dropped before.
        s_per_unit: seconds per unit of the time column.
    """
    time_s = _floats(frame, time_column) * s_per_unit
    rows = MeasuredRows(
        columns={here: _floats(frame, there) for here, there in columns.items()},
        time_s=time_s,
        source=source,
        sha256=file_sha256(path),
        left_out=left_out,
    )
    is_usable = np.isfinite(time_s) & (time_s > 0)
    for column in rows.columns.values():
        is_usable &= np.isfinite(column)
    return rows.where(is_usable, "a time that is not above zero, or a number missing")


def keep_where(
    frame: "pd.DataFrame", column: str, allowed: tuple[object, ...], reason: str
) -> tuple["pd.DataFrame", tuple[LeftOut, ...]]:
    """Rows whose column holds one of the allowed values, and how many others there were.

    A column that the table lacks keeps every row.
    """
    if column not in frame.columns:
        return frame, ()
    kept = frame[frame[column].isin(allowed)]
    return kept, count_left_out(len(frame) - len(kept), reason)


def _floats(frame: "pd.DataFrame", column: str) -> FloatArray:
    import pandas as pd

    numbers: FloatArray = pd.to_numeric(frame[column], errors="coerce").to_numpy(
        dtype=np.float64, na_value=np.nan
    )
    return numbers
