"""Azure LLM inference traces (2023 code and conv, 2024 week): CSV with times and lengths only.

Columns `TIMESTAMP,ContextTokens,GeneratedTokens`. The time is absolute, with up to 9 fractional
digits or none (2023: 7, no zone; 2024: `+00:00`). Arrival is relative to the earliest row. The
traces hold no prefix information: no request shares anything.

Source: Azure/AzurePublicDataset, AzureLLMInferenceDataset2023.md and
AzureLLMInferenceDataset2024.md.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sim.errors import TraceFormatError
from sim.workload import IntArray
from traces.options import MAX_TOKENS, require_bool, require_path, shown
from traces.readers.source_file import (
    in_arrival_order,
    provenance_of_file,
    read_text_bytes,
    why_not_tokens,
)
from traces.schema import TraceTable

HEADER = "TIMESTAMP,ContextTokens,GeneratedTokens"

PIECE_BYTES = 1 << 24

# Years outside this century and the last would overflow nanoseconds in 64 bits.
_STAMP = rb"(?:19|20)\d\d-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:\+00:00|Z)?"
_CLEAN_STAMP = re.compile(_STAMP)
_CLEAN_PIECE = re.compile(rb"(?:" + _STAMP + rb",\d{1,9},\d{1,9}\n)*+")


@dataclass(frozen=True, slots=True)
class AzureTrace:
    """An Azure file.

    Attributes:
        path: the CSV file.
        sort: order rows by time instead of refusing disorder.
    """

    path: str | Path
    sort: bool = False

    def __post_init__(self) -> None:
        require_path("trace.path", self.path)
        require_bool("trace.sort", self.sort)

    def load(self, seed: int) -> TraceTable:
        """Read the file; `seed` has no effect."""
        return read_azure(self.path, sort=self.sort)


def read_azure(path: str | Path, /, *, sort: bool = False) -> TraceTable:
    """Read an Azure file (contract: `traces.schema.TraceReader`).

    Args:
        path: the CSV file.
        sort: order rows by time instead of refusing disorder.
    """
    data, sha256 = read_text_bytes(path)
    first_line, _, body = data.partition(b"\n")
    header = first_line.removesuffix(b"\r").decode()
    if header != HEADER:
        why = f"header {shown(header)}: must be {HEADER}"
        raise TraceFormatError(str(path), 1, why)
    if not body:
        raise TraceFormatError(str(path), 1, "no rows after the header, must have at least one")
    columns = []
    line = 2
    for piece in _pieces(body):
        parsed = _parse(piece)
        if parsed is None:
            _refuse_first_bad_row(path, piece, line)
            raise AssertionError("a piece was refused but no row is bad")
        columns.append(parsed)
        line += len(parsed[0])
    time_ns, prompt_tokens, output_tokens = map(np.concatenate, zip(*columns, strict=True))
    table = TraceTable(
        arrival_s=(time_ns - time_ns.min()) / 1e9,
        prompt_tokens=prompt_tokens,
        output_tokens=output_tokens,
        provenance=provenance_of_file("azure", sha256, len(time_ns), {"sort": sort}),
    )
    return in_arrival_order(path, table, time_ns, sort, first_line=2)


def _pieces(body: bytes) -> Iterator[bytes]:
    """Whole lines of bounded total size, each ending in one newline and no carriage return."""
    start = 0
    while start < len(body):
        end = body.find(b"\n", min(start + PIECE_BYTES, len(body)) - 1) + 1 or len(body)
        piece = body[start:end].replace(b"\r\n", b"\n")
        yield piece if piece.endswith(b"\n") else piece.removesuffix(b"\r") + b"\n"
        start = end


def _parse(piece: bytes) -> tuple[IntArray, IntArray, IntArray] | None:
    """Times in ns, prompt and output tokens of the rows; None if any row is bad."""
    if not _CLEAN_PIECE.fullmatch(piece):
        return None
    plain = piece.replace(b"+00:00,", b",").replace(b"Z,", b",").replace(b",", b"\n")
    fields = plain.split(b"\n")
    del fields[-1]
    try:
        time_ns = np.array(fields[0::3]).astype("datetime64[ns]").astype(np.int64)
    except ValueError:
        return None
    prompt_tokens = np.array(list(map(int, fields[1::3])), dtype=np.int64)
    output_tokens = np.array(list(map(int, fields[2::3])), dtype=np.int64)
    for tokens in (prompt_tokens, output_tokens):
        if tokens.min() < 1 or tokens.max() > MAX_TOKENS:
            return None
    return time_ns, prompt_tokens, output_tokens


def _refuse_first_bad_row(path: str | Path, piece: bytes, first_line: int) -> None:
    for line, row in enumerate(piece[:-1].split(b"\n"), first_line):
        why = _why_bad(row)
        if why:
            raise TraceFormatError(str(path), line, why)


def _why_bad(row: bytes) -> str | None:
    """What is wrong with a row, None if nothing is."""
    if not row.strip():
        return f"blank line, must be {HEADER}"
    fields = row.decode().split(",")
    if len(fields) != 3:
        return f"{len(fields)} fields in {shown(row.decode())}: must be 3, {HEADER}"
    stamp, *lengths = fields
    if not _is_time(stamp):
        return f"TIMESTAMP {shown(stamp)}: must be like 2023-11-16 18:17:03.9799600"
    for name, text in zip(HEADER.split(",")[1:], lengths, strict=True):
        is_count = text.isascii() and text.isdigit() and len(text) <= 9
        why = why_not_tokens(name, int(text) if is_count else text)
        if why:
            return why
    return None


def _is_time(stamp: str) -> bool:
    if not _CLEAN_STAMP.fullmatch(stamp.encode()):
        return False
    try:
        np.datetime64(stamp.removesuffix("+00:00").removesuffix("Z"), "ns")
    except ValueError:
        return False
    return True
