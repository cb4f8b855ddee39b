"""Any CSV file with a header: the options say which column is what."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sim.errors import ConfigError
from traces.options import require_bool, require_path, shown
from traces.readers.column_options import ColumnOptions, default_columns
from traces.readers.csv_rows import CsvRows
from traces.readers.reading import Reading
from traces.readers.source_file import provenance_of_file
from traces.readers.table_rows import TableRows
from traces.readers.text_fields import text_field
from traces.schema import TraceTable


@dataclass(frozen=True, slots=True)
class CsvTrace:
    """A CSV file with a header.

    Attributes:
        path: the file.
        columns: field (`traces.readers.column_options.FIELDS`) -> name of the file's column, null
            where it is not to be read. Hash ids are separated by blanks, commas or semicolons.
        time_unit: `s`, `ms`, `us`, `ns`, or `iso8601` for dates (without a zone: UTC).
        time_origin: `first` makes the earliest row time 0, `zero` takes times as they are.
        delimiter: the character between fields.
        block_tokens: prompt tokens per hash id, with `columns.hash_ids` only.
        sort: order rows by time instead of refusing disorder.
    """

    path: str | Path
    columns: Mapping[str, str | None] = field(default_factory=default_columns)
    time_unit: str = "s"
    time_origin: str = "first"
    delimiter: str = ","
    block_tokens: int | None = None
    sort: bool = False

    def __post_init__(self) -> None:
        require_path("trace.path", self.path)
        self._options()
        if not isinstance(self.delimiter, str) or len(self.delimiter) != 1:
            is_fine = False
        else:
            is_fine = self.delimiter.isascii() and self.delimiter not in '"\n\r\\'
        if not is_fine:
            allowed = "must be one character, such as , ; or a tab"
            raise ConfigError(f"trace.delimiter={shown(self.delimiter)}: {allowed}")
        require_bool("trace.sort", self.sort)

    def load(self, seed: int) -> TraceTable:
        """Read the file; `seed` has no effect."""
        return self.read(Reading(self.path))

    def read(self, reading: Reading) -> TraceTable:
        """Read the file in one pass.

        Raises:
            TraceFormatError: the file lacks a column, or in a strict pass the first bad row.
        """
        options = self._options()
        source = CsvRows(reading, self.delimiter)
        index = {
            name: source.index(column, f"columns.{name}") for name, column in options.names.items()
        }
        rows = TableRows(reading, options)
        for lines, columns, faults in source.batches():
            fields = {
                name: text_field(name, columns[i], options.time_unit, rows.labels.get(name))
                for name, i in index.items()
            }
            rows.add(lines, fields, faults)
        shown_options = {**options.as_mapping(), "delimiter": self.delimiter, "sort": self.sort}
        provenance = provenance_of_file("csv", source.sha256, rows.num_rows, shown_options)
        return rows.table(provenance, self.sort)

    def _options(self) -> ColumnOptions:
        return ColumnOptions.of(self.columns, self.time_unit, self.time_origin, self.block_tokens)
