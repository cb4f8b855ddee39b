"""BurstGPT traces: CSV with times, models and token counts of calls of ChatGPT and GPT-4.

Columns `Timestamp` (seconds from midnight of the first day), `Model`, `Request tokens`, `Response
tokens`, `Total tokens` (not read), `Log Type`; from the second release on also `Session ID`, and
`Elapsed time` (not read). The model becomes the tenant and the log type the service class. Calls
that failed have 0 response tokens. The traces hold no prefix information: no request shares
anything. Time 0 is the earliest row.

Source: HPMLL/BurstGPT, README and release v2.0.
"""

from dataclasses import dataclass
from itertools import compress
from pathlib import Path

import numpy as np

from traces.options import require_bool, require_path
from traces.readers.column_options import ColumnOptions
from traces.readers.csv_rows import CsvRows
from traces.readers.failed_rows import FailedRows
from traces.readers.reading import Reading
from traces.readers.source_file import provenance_of_file
from traces.readers.table_rows import TableRows
from traces.readers.text_fields import text_field
from traces.schema import TraceTable

COLUMNS = {
    "arrival_s": "Timestamp",
    "prompt_tokens": "Request tokens",
    "output_tokens": "Response tokens",
    "tenant": "Model",
    "slo_class": "Log Type",
}

SESSION = "Session ID"

ZERO = frozenset(("0", "0.0"))


@dataclass(frozen=True, slots=True)
class BurstGptTrace:
    """A BurstGPT file.

    Attributes:
        path: the CSV file.
        skip_failed: leave out calls without request or response tokens instead of refusing them.
        sort: order rows by time instead of refusing disorder.
    """

    path: str | Path
    skip_failed: bool = False
    sort: bool = False

    def __post_init__(self) -> None:
        require_path("trace.path", self.path)
        require_bool("trace.skip_failed", self.skip_failed)
        require_bool("trace.sort", self.sort)

    def load(self, seed: int) -> TraceTable:
        """Read the file; `seed` has no effect."""
        return self.read(Reading(self.path))

    def read(self, reading: Reading) -> TraceTable:
        """Read the file in one pass.

        Raises:
            TraceFormatError: the file lacks a column, or in a strict pass a bad row; failed calls
                are counted first.
        """
        source = CsvRows(reading)
        names = dict(COLUMNS)
        if SESSION in source.header:
            names["session_id"] = SESSION
        index = {field: source.index(name) for field, name in names.items()}
        rows = TableRows(reading, ColumnOptions(names, "s", "first", None))
        failed = FailedRows(reading, self.skip_failed)
        for lines, columns, faults in source.batches():
            is_failed = np.zeros(len(lines), dtype=np.bool_)
            for field in ("prompt_tokens", "output_tokens"):
                is_failed |= np.array([text in ZERO for text in columns[index[field]]], np.bool_)
            if is_failed.any():
                failed.add(lines[is_failed])
                lines = lines[~is_failed]
                keep = (~is_failed).tolist()
                columns = [list(compress(column, keep)) for column in columns]
            fields = {
                field: text_field(field, columns[i], "s", rows.labels.get(field))
                for field, i in index.items()
            }
            rows.add(lines, fields, faults)
        failed.report("has no request or no response tokens")
        failed.refuse_if_alone(rows.num_rows)
        options = {"skip_failed": self.skip_failed, "sort": self.sort}
        provenance = provenance_of_file("burstgpt", source.sha256, rows.num_rows, options)
        return rows.table({**provenance, **failed.provenance()}, self.sort)
