"""Writes a trace as parquet in our own layout, from which it comes back without loss.

The same table gives the same bytes (with the same version of Arrow).
"""

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sim.errors import ConfigError
from sim.workload import Labels
from traces.options import require_path
from traces.parquet_layout import (
    LABELS,
    LISTS,
    METADATA_KEY,
    arrow_type,
    columns_of,
    header_of,
)
from traces.schema import TraceTable

GROUP_ROWS = 65_536
"""Most rows of a row group."""

GROUP_IDS = 1 << 24
"""Run ids after which a row group ends: what a reader holds at a time."""

WriteProgress = Callable[[int, int], None]
"""Called with (rows written so far, rows of the table)."""


def write_table(path: str | Path, table: TraceTable, progress: WriteProgress | None = None) -> None:
    """Write `table` to `path`, which is complete afterwards or as it was before.

    Args:
        path: the file; an existing one is replaced.
        table: the trace.
        progress: told how much has been written.

    Raises:
        ConfigError: the place or the disk refuses, or a label is no valid text.
    """
    where = require_path("path", path)
    temporary: Path | None = None
    try:
        handle, name = tempfile.mkstemp(dir=where.parent, prefix=f".{where.name}.")
        os.close(handle)
        temporary = Path(name)
        _write(temporary, table, progress)
        temporary.chmod(0o644)
        temporary.replace(where)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written: {error.strerror or error}") from error
    except UnicodeEncodeError as error:
        why = f"label {error.object!a} is no valid text"
        raise ConfigError(f"{path}: cannot be written: {why}") from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def _write(path: Path, table: TraceTable, progress: WriteProgress | None) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    id_bytes = 8 if table.runs is None else table.runs.ids.dtype.itemsize
    names = columns_of(table)
    fields = [pa.field(name, arrow_type(name, id_bytes), name in LABELS) for name in names]
    schema = pa.schema(fields, metadata={METADATA_KEY: header_of(table).to_json()})
    writer = pq.ParquetWriter(
        path,
        schema,
        compression="zstd",
        compression_level=1,
        use_dictionary=[name for name in names if name in LABELS],
        column_encoding=_encodings(names),
        write_statistics=False,
        write_page_checksum=True,
    )
    with writer:
        for start, stop in _groups(table):
            columns = [_column(table, field.name, field.type, start, stop) for field in schema]
            writer.write_table(pa.table(columns, schema=schema), row_group_size=GROUP_ROWS)
            if progress is not None:
                progress(stop, table.num_requests)


def _encodings(names: tuple[str, ...]) -> dict[str, str]:
    """Ids and counters grow by small steps: their differences are what takes least room."""
    return {
        f"{name}.list.element" if name in LISTS else name: "DELTA_BINARY_PACKED"
        for name in names
        if name not in LABELS and name not in ("arrival_s", "delay_s")
    }


def _groups(table: TraceTable) -> Iterator[tuple[int, int]]:
    """Rows of each row group, `GROUP_ROWS` at most and few ids more than `GROUP_IDS`."""
    start, n = 0, table.num_requests
    while start < n:
        stop = min(start + GROUP_ROWS, n)
        if table.runs is not None:
            bound = table.runs.offsets[start] + GROUP_IDS
            full = int(np.searchsorted(table.runs.offsets, bound, side="left"))
            stop = min(stop, max(full, start + 1))
        yield start, stop
        start = stop


def _column(table: TraceTable, name: str, arrow: Any, start: int, stop: int) -> Any:
    """The rows from `start` to before `stop` of a column, as an Arrow array of type `arrow`."""
    import pyarrow as pa

    if name in LISTS:
        assert table.runs is not None
        runs = table.runs.slice(start, stop)
        values = runs.ids if name == "run_ids" else runs.tokens
        offsets = pa.array(runs.offsets.astype(np.int32))
        return pa.ListArray.from_arrays(offsets, pa.array(values, arrow.value_type), type=arrow)
    column: Labels | npt.NDArray[Any] = getattr(table, name)
    if isinstance(column, Labels):
        codes = column.codes[start:stop]
        return pa.array(column.names, arrow).take(pa.array(codes, mask=codes < 0))
    return pa.array(np.ascontiguousarray(column[start:stop]), arrow)
