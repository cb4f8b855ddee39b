"""CSV files with a header in bounded memory: columns of text, some rows at a time."""

import csv
from collections.abc import Iterator
from io import StringIO
from itertools import chain, islice
from typing import NamedTuple

import numpy as np

from sim.workload import IntArray
from traces.options import shown
from traces.readers.column_options import why_absent
from traces.readers.reading import Reading
from traces.readers.text_file import TextFile

BATCH_ROWS = 4_096
"""Rows read at a time: more would not fit the caches."""

MAX_FIELD = 1 << 26
"""Most characters of a field."""


class LineFault(NamedTuple):
    """A row that is no row of the table (see `traces.readers.reading.Fault`)."""

    line: int
    kind: str
    why: str


class CsvRows:
    """The rows of a CSV file that have as many fields as its header.

    Fields may be quoted and may then contain the delimiter, quotes (doubled) and newlines.

    Args:
        reading: names the file.
        delimiter: the character between fields.

    Attributes:
        header: names of the columns, without blanks around them.

    Raises:
        TraceFormatError: as `TextFile.pieces`, or the header cannot be read.
    """

    def __init__(self, reading: Reading, delimiter: str = ",") -> None:
        csv.field_size_limit(max(csv.field_size_limit(), MAX_FIELD))
        self._reading = reading
        self._text = TextFile(reading)
        self._rows = csv.reader(
            self._lines(), delimiter=delimiter, skipinitialspace=delimiter != " ", strict=True
        )
        try:
            self.header = [name.strip() for name in next(self._rows)]
        except csv.Error as error:
            raise reading.refuse(1, f"header cannot be read: {error}") from None

    def index(self, name: str, key: str | None = None) -> int:
        """Number of the column `name` (which the option `key` asks for).

        Raises:
            TraceFormatError: there is none, or more than one.
        """
        if name not in self.header:
            raise self._reading.refuse(1, why_absent(name, self.header, key))
        if self.header.count(name) > 1:
            raise self._reading.refuse(1, f"column {shown(name)} occurs more than once")
        return self.header.index(name)

    @property
    def sha256(self) -> str:
        """Digest of the content, after the last row."""
        return self._text.sha256

    def batches(self) -> Iterator[tuple[IntArray, list[list[str]], list[LineFault]]]:
        """Lines of some rows, for each column what they hold, and the rows among them that cannot.

        Raises:
            TraceFormatError: as `TextFile.pieces`, or there are no rows.
        """
        start = before = self._rows.line_num
        while True:
            rows, error = self._some_rows()
            if not rows and error is None and self._rows.line_num == before:
                break
            starts = self._line_numbers(rows, before)
            rows, lines, faults = self._of_right_width(rows, starts[:-1])
            if error is not None:
                faults.append(_unreadable(int(starts[-1]), self._rows.line_num, error))
            columns = (
                list(map(list, zip(*rows, strict=True))) if rows else [[] for _ in self.header]
            )
            yield lines, columns, faults
            before = self._rows.line_num
        if before == start:
            raise self._reading.refuse(start, "no rows after the header, must have at least one")

    def _some_rows(self) -> tuple[list[list[str]], csv.Error | None]:
        rows: list[list[str]] = []
        try:
            rows.extend(islice(self._rows, BATCH_ROWS))  # what came before an error stays
        except csv.Error as error:
            return rows, error
        return rows, None

    def _line_numbers(self, rows: list[list[str]], before: int) -> IntArray:
        """Line on which each row begins, and what follows them; the first follows line `before`."""
        if self._rows.line_num - before == len(rows):
            return np.arange(before + 1, before + 2 + len(rows))
        spans = [1 + sum(field.count("\n") for field in row) for row in rows]
        return before + 1 + np.append(0, np.cumsum(spans, dtype=np.int64))

    def _of_right_width(
        self, rows: list[list[str]], lines: IntArray
    ) -> tuple[list[list[str]], IntArray, list[LineFault]]:
        width = len(self.header)
        if all(len(row) == width for row in rows):
            return rows, lines, []
        faults = []
        for row, line in zip(rows, lines.tolist(), strict=True):
            if not row:
                faults.append(
                    LineFault(line, "blank line", f"blank line, must have {width} fields")
                )
            elif len(row) != width:
                text = shown(",".join(row))
                why = f"{len(row)} fields in {text}: must be {width}, as in the header"
                faults.append(LineFault(line, "fields", why))
        is_right = np.array([len(row) == width for row in rows])
        return [row for row in rows if len(row) == width], lines[is_right], faults

    def _lines(self) -> Iterator[str]:
        pieces = (piece.decode() for _, piece in self._text.pieces())
        return chain.from_iterable(StringIO(piece, newline="\n") for piece in pieces)


def _unreadable(first: int, last: int, error: csv.Error) -> LineFault:
    """The fault of a row from line `first` to line `last`."""
    text = str(error)
    if text.startswith("new-line character"):
        text = "carriage return outside quotes and not at the end of a line"
    elif text == "unexpected end of data":
        text = "quotes that never end"
    rest = f" up to line {last}" if last > first else ""
    return LineFault(first, "row", f"row{rest} cannot be read: {text}")
