"""Parquet files in our own layout: the table comes back as it was written, or is refused.

Everything that an edit by hand could break is checked, column by column; a fault's line is the
number of the row, from 1.
"""

from typing import Any

import numpy as np

from traces.options import shown
from traces.parquet_layout import (
    COLUMNS,
    FLOATS,
    INTS,
    LABELS,
    LISTS,
    METADATA_KEY,
    REQUIRED,
    StoredHeader,
)
from traces.readers.parquet_file import ParquetSource
from traces.readers.reading import Reading
from traces.readers.source_file import in_arrival_order, provenance_of_file
from traces.readers.stored_columns import StoredColumns
from traces.schema import TraceTable


def read_own_parquet(reading: Reading, source: ParquetSource, *, sort: bool) -> TraceTable:
    """The table of a file that has our metadata.

    Raises:
        TraceFormatError: the file is damaged or was changed into something that is no trace.
    """
    header = _header(reading, source)
    names = _columns(reading, source, header)
    columns = StoredColumns(reading, source, header, names)
    for first, batch in source.batches(names):
        columns.take_in(first, batch)
    table = columns.table(_provenance(header, source, sort))
    is_good = columns.check(table, sort)
    rows = np.flatnonzero(is_good)
    if len(rows) < table.num_requests:
        table = table.take(rows)
    return in_arrival_order(reading, table, table.arrival_s, sort, first_line=1, lines=rows + 1)


def _provenance(header: StoredHeader, source: ParquetSource, sort: bool) -> dict[str, Any]:
    found = provenance_of_file("parquet", source.sha256, source.num_rows, {"sort": sort})
    return {**found, "source": header.provenance}


def _header(reading: Reading, source: ParquetSource) -> StoredHeader:
    text = source.metadata(METADATA_KEY)
    assert text is not None
    try:
        return StoredHeader.from_json(text)
    except ValueError as error:
        why = f"metadata {METADATA_KEY.decode()} {' '.join(str(error).split())}"
        raise reading.refuse(0, why) from None


def _columns(reading: Reading, source: ParquetSource, header: StoredHeader) -> list[str]:
    """Names of the columns; refuses a file that lacks one, or has one of another type."""
    found = source.columns
    if source.repeated is not None:
        raise reading.refuse(0, f"column {shown(source.repeated)} occurs more than once")
    needed = [*REQUIRED, *header.names]
    if header.num_ids is not None:
        needed.append("run_ids")
        needed += ["run_tokens"] if header.block_tokens is None else []
    for name in needed:
        if name not in found:
            raise reading.refuse(0, f"column {name} is missing")
    optional = [name for name in (*FLOATS, *INTS) if name not in REQUIRED]
    for name, arrow in found.items():
        if name not in needed and name not in optional:
            allowed = ", ".join(name for name in COLUMNS if name in (*needed, *optional))
            raise reading.refuse(0, f"unknown column {shown(name)}; allowed: {allowed}")
        why = _why_wrong_type(name, arrow)
        if why:
            raise reading.refuse(0, f"column {name} is of type {arrow}: must be {why}")
    return [name for name in COLUMNS if name in found]


def _why_wrong_type(name: str, arrow: Any) -> str | None:
    """What type the column must have, None if it has it."""
    import pyarrow as pa

    if name in FLOATS:
        return None if arrow == pa.float64() else "double"
    if name in LABELS:
        return None if arrow == pa.string() else "string"
    if name in LISTS:
        elements = [pa.int32(), pa.int64()] if name == "run_ids" else [pa.int64()]
        is_fine = pa.types.is_list(arrow) and arrow.value_type in elements
        return None if is_fine else f"list of {' or '.join(map(str, elements))}"
    return None if arrow == pa.int64() else "int64"
