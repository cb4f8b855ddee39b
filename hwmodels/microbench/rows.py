"""Rows of a calibration: a JSON Lines file that grows as cases are measured.

An interrupted run keeps its rows; the next one appends those that are missing. A last line that was
cut short in writing holds no row, and is dropped.
"""

import json
import os
from dataclasses import dataclass, field
from pathlib import Path

from hwmodels.microbench.errors import RowsError
from hwmodels.microbench.row_format import (
    DeviceInfo,
    Failure,
    Header,
    Measurement,
    Row,
)
from hwmodels.microbench.row_parsing import entry_of, header_of

__all__ = [
    "DeviceInfo",
    "Failure",
    "Header",
    "MeasuredCases",
    "Measurement",
    "Row",
    "RowsWriter",
    "read_rows",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredCases:
    """A rows file.

    Attributes:
        header: device, versions, plan.
        rows: measured cases by id, in the order of the file.
        failures: cases by id that failed and were not measured later.
        complete_bytes: bytes of the file up to the end of its last whole line.
        is_cut_short: whether bytes follow that.
    """

    header: Header
    rows: dict[str, Row] = field(default_factory=dict)
    failures: dict[str, Failure] = field(default_factory=dict)
    complete_bytes: int = 0
    is_cut_short: bool = False


def read_rows(path: Path) -> MeasuredCases:
    """Read a rows file.

    Raises:
        RowsError: it cannot be read, a line is broken, or a case was measured twice.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise RowsError(f"{path}: {error.strerror or 'not readable'}") from None
    complete_bytes = content.rfind(b"\n") + 1
    lines = content[:complete_bytes].split(b"\n")[:-1]
    if not lines:
        raise RowsError(f"{path}: holds no header")
    number = 1
    try:
        header = header_of(_json(lines[0]))
        found = MeasuredCases(
            header=header,
            complete_bytes=complete_bytes,
            is_cut_short=complete_bytes < len(content),
        )
        for line in lines[1:]:
            number += 1
            _add(found, entry_of(_json(line)))
    except RowsError as error:
        raise RowsError(f"{path}:{number}: {error}") from None
    return found


def _add(found: MeasuredCases, entry: Row | Failure) -> None:
    case_id = entry.case.id
    if case_id in found.rows:
        raise RowsError(f"{case_id} was measured before")
    if isinstance(entry, Row):
        found.rows[case_id] = entry
        found.failures.pop(case_id, None)
    else:
        found.failures[case_id] = entry


def _json(line: bytes) -> object:
    try:
        value: object = json.loads(line.decode("utf-8"))
    except UnicodeDecodeError:
        raise RowsError("not a text in UTF-8") from None
    except RecursionError:
        raise RowsError("not valid JSON: too deep") from None
    except json.JSONDecodeError as error:
        raise RowsError(f"not valid JSON: {error.msg} at column {error.colno}") from None
    except ValueError:
        raise RowsError("not valid JSON: a number of too many digits") from None
    return value


class RowsWriter:
    """Appends to a rows file, each line whole.

    Args:
        path: the file; it is made if it is not there, and its folder too.
        header: of this run.

    Raises:
        RowsError: the file is broken or holds rows of another device, plan or driver; it is left
            as it is.

    Attributes:
        before: what the file held already.
    """

    def __init__(self, path: Path, header: Header) -> None:
        self.path = path
        if path.exists() and (not path.is_file() or path.stat().st_size):
            self.before = read_rows(path)
            difference = self.before.header.difference(header)
            if difference is not None:
                raise RowsError(f"{path}: holds other rows, this run has {difference}")
            if self.before.is_cut_short:
                os.truncate(path, self.before.complete_bytes)
        else:
            self.before = MeasuredCases(header=header)
            self._write(header.record())

    def write(self, entry: Row | Failure) -> None:
        """Append one line.

        Raises:
            RowsError: the file cannot be written.
        """
        self._write(entry.record())

    def _write(self, record: dict[str, object]) -> None:
        line = json.dumps(record, allow_nan=False) + "\n"
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a", encoding="utf-8") as file:
                file.write(line)
        except FileExistsError:
            raise RowsError(f"{self.path}: its folder is a file") from None
        except OSError as error:
            raise RowsError(f"{self.path}: {error.strerror or 'not writable'}") from None
