"""Parquet traces: ours come back as they were written, in others the options name the columns."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from sim.errors import ConfigError
from traces.options import require_bool, require_path
from traces.parquet_layout import METADATA_KEY
from traces.readers.arrow_fields import arrow_field, why_wrong_type
from traces.readers.column_options import ColumnOptions, default_columns, why_absent
from traces.readers.own_parquet import read_own_parquet
from traces.readers.parquet_file import ParquetSource
from traces.readers.reading import Reading
from traces.readers.source_file import provenance_of_file
from traces.readers.table_rows import TableRows
from traces.schema import TraceTable


@dataclass(frozen=True, slots=True)
class ParquetTrace:
    """A parquet file; `traces.writers.parquet` writes those that need no further options.

    Attributes:
        path: the file.
        columns: field (`traces.readers.column_options.FIELDS`) -> name of the file's column, null
            where it is not to be read. Hash ids are a list column, or text as in a CSV file.
        time_unit: `s`, `ms`, `us`, `ns`, or `iso8601` for timestamps and dates.
        time_origin: `first` makes the earliest row time 0, `zero` takes times as they are.
        block_tokens: prompt tokens per hash id, with `columns.hash_ids` only.
        sort: order rows by time instead of refusing disorder.
    """

    path: str | Path
    columns: Mapping[str, str | None] = field(default_factory=default_columns)
    time_unit: str = "s"
    time_origin: str = "first"
    block_tokens: int | None = None
    sort: bool = False

    def __post_init__(self) -> None:
        require_path("trace.path", self.path)
        self._options()
        require_bool("trace.sort", self.sort)

    def load(self, seed: int) -> TraceTable:
        """Read the file; `seed` has no effect."""
        return self.read(Reading(self.path))

    def read(self, reading: Reading) -> TraceTable:
        """Read the file in one pass.

        Raises:
            TraceFormatError: the file lacks a column, or in a strict pass the first bad row.
            ConfigError: columns are named for a file that we wrote.
        """
        source = ParquetSource(reading)
        if source.metadata(METADATA_KEY) is None:
            return self._read_columns(reading, source)
        defaults = ParquetTrace(self.path)
        for name in ("columns", "time_unit", "time_origin", "block_tokens"):
            if getattr(self, name) != getattr(defaults, name):
                raise ConfigError(f"trace.{name} has no effect: {self.path} says itself what it is")
        return read_own_parquet(reading, source, sort=self.sort)

    def _read_columns(self, reading: Reading, source: ParquetSource) -> TraceTable:
        options = self._options()
        self._refuse_columns(reading, source, options)
        rows = TableRows(reading, options)
        for first, batch in source.batches(list(dict.fromkeys(options.names.values()))):
            fields = {
                name: arrow_field(
                    name, batch.column(column), options.time_unit, rows.labels.get(name)
                )
                for name, column in options.names.items()
            }
            rows.add(first + 1 + np.arange(batch.num_rows), fields)
        shown_options = {**options.as_mapping(), "sort": self.sort}
        provenance = provenance_of_file("parquet", source.sha256, rows.num_rows, shown_options)
        return rows.table(provenance, self.sort)

    def _refuse_columns(
        self, reading: Reading, source: ParquetSource, options: ColumnOptions
    ) -> None:
        found = source.columns
        for name, column in options.names.items():
            if column not in found:
                raise reading.refuse(0, why_absent(column, found, f"columns.{name}"))
            if column == source.repeated:
                raise reading.refuse(0, f"column {column!r} occurs more than once")
            why = why_wrong_type(name, found[column], options.time_unit)
            if why:
                raise reading.refuse(
                    0, f"column {column} is of type {found[column]}: must be {why}"
                )

    def _options(self) -> ColumnOptions:
        return ColumnOptions.of(self.columns, self.time_unit, self.time_origin, self.block_tokens)
