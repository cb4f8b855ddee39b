"""What every reader of a text format does: bytes with their digest, lines, order of arrival."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sim.errors import TraceFormatError
from sim.workload import FloatArray, IntArray
from traces.options import MAX_TOKENS, require_path, shown
from traces.schema import TraceTable

UTF8_MARK = b"\xef\xbb\xbf"


def read_text_bytes(path: str | Path) -> tuple[bytes, str]:
    """Content of a UTF-8 file without its byte order mark, and the sha256 of the file.

    Raises:
        TraceFormatError: there is no such file, it cannot be read, is empty, or is not UTF-8.
    """
    where = require_path("trace.path", path)
    try:
        data = where.read_bytes()
    except FileNotFoundError:
        raise TraceFormatError(str(path), 0, "no such file") from None
    except IsADirectoryError:
        raise TraceFormatError(str(path), 0, "is a directory, must be a file") from None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise TraceFormatError(str(path), 0, f"cannot be read: {why}") from None
    if not data.strip():
        raise TraceFormatError(str(path), 0, "is empty, must have at least one row")
    if not data.isascii():
        try:
            data.decode("utf-8")
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            why = (
                f"byte 0x{data[error.start]:02x} is not UTF-8 text (compressed files: unpack first)"
            )
            raise TraceFormatError(str(path), line, why) from None
    return data.removeprefix(UTF8_MARK), hashlib.sha256(data).hexdigest()


def why_not_tokens(name: str, value: Any) -> str | None:
    """What is wrong with a token count, None if nothing is."""
    if type(value) is int and 1 <= value <= MAX_TOKENS:
        return None
    return f"{name} {shown(value)}: must be an integer from 1 to {MAX_TOKENS:,}"


def in_arrival_order(
    path: str | Path, table: TraceTable, clock: FloatArray | IntArray, sort: bool, first_line: int
) -> TraceTable:
    """`table` ordered by `clock`, its time column as the file has it (row i = line i + first_line).

    Raises:
        TraceFormatError: rows are out of order and `sort` is false.
    """
    is_early = np.diff(clock) < 0
    if not is_early.any():
        return table
    if sort:
        return table.take(np.argsort(clock, kind="stable"))
    row = int(np.argmax(is_early)) + 1
    gap_s = float(table.arrival_s[row - 1] - table.arrival_s[row])
    why = (
        f"arrives {gap_s:.9g} s before the line above; rows must be in order of time "
        "(trace.sort=true sorts them)"
    )
    raise TraceFormatError(str(path), row + first_line, why)


def provenance_of_file(
    name: str, sha256: str, num_rows: int, options: Mapping[str, Any]
) -> dict[str, Any]:
    """Provenance of a table read from a file."""
    return {"format": name, "sha256": sha256, "num_rows": num_rows, "options": dict(options)}
