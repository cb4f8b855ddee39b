"""Azure LLM inference traces (2023 code and conv, 2024 week): CSV with times and lengths only.

Columns `TIMESTAMP,ContextTokens,GeneratedTokens`. The time is absolute, with up to 9 fractional
digits or none (2023: 7, no zone; 2024: `+00:00`). Arrival is relative to the earliest row. The
traces hold no prefix information: no request shares anything.

Source: Azure/AzurePublicDataset, AzureLLMInferenceDataset2023.md and
AzureLLMInferenceDataset2024.md.
"""

import re
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sim.workload import IntArray
from traces.options import MAX_TOKENS, require_bool, require_path, shown
from traces.readers.reading import Reading
from traces.readers.source_file import in_arrival_order, provenance_of_file, why_not_tokens
from traces.readers.text_file import TextFile
from traces.schema import TraceTable

HEADER = "TIMESTAMP,ContextTokens,GeneratedTokens"

# Years outside this century and the last would overflow nanoseconds in 64 bits.
_STAMP = rb"(?:19|20)\d\d-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:\+00:00|Z)?"
_CLEAN_STAMP = re.compile(_STAMP)
_CLEAN_PIECE = re.compile(rb"(?:" + _STAMP + rb",\d{1,9},\d{1,9}\n)*+")


@dataclass(frozen=True, slots=True)
class AzureTrace:
    """An Azure file.

    Attributes:
        path: the CSV file, plain, gzip or zstd.
        sort: order rows by time instead of refusing disorder.
    """

    path: str | Path
    sort: bool = False

    def __post_init__(self) -> None:
        require_path("trace.path", self.path)
        require_bool("trace.sort", self.sort)

    def load(self, seed: int) -> TraceTable:
        """Read the file; `seed` has no effect."""
        return self.read(Reading(self.path))

    def read(self, reading: Reading) -> TraceTable:
        """Read the file in one pass."""
        file = TextFile(reading)
        rows = [_good_rows(reading, line, piece) for line, piece in _body(reading, file)]
        lines, time_ns, prompt_tokens, output_tokens = map(np.concatenate, zip(*rows, strict=True))
        start_ns = time_ns.min() if len(time_ns) else 0
        table = TraceTable(
            arrival_s=(time_ns - start_ns) / 1e9,
            prompt_tokens=prompt_tokens,
            output_tokens=output_tokens,
            provenance=provenance_of_file("azure", file.sha256, len(lines), {"sort": self.sort}),
        )
        return in_arrival_order(reading, table, time_ns, self.sort, 2, lines)


def read_azure(path: str | Path, /, *, sort: bool = False) -> TraceTable:
    """Read an Azure file (contract: `traces.schema.TraceReader`).

    Args:
        path: the CSV file.
        sort: order rows by time instead of refusing disorder.
    """
    return AzureTrace(path, sort=sort).load(0)


def _body(reading: Reading, file: TextFile) -> Iterator[tuple[int, bytes]]:
    """Pieces below the header, as `TextFile.pieces` gives them but without carriage returns."""
    has_rows = False
    for line, piece in file.pieces():
        rows = piece.replace(b"\r\n", b"\n")
        if line == 1:
            first_line, _, rows = rows.partition(b"\n")
            header = first_line.decode()
            if header != HEADER:
                raise reading.refuse(1, f"header {shown(header)}: must be {HEADER}")
            line = 2
        if rows:
            has_rows = True
            yield line, rows
    if not has_rows:
        raise reading.refuse(1, "no rows after the header, must have at least one")


def _good_rows(
    reading: Reading, first_line: int, piece: bytes
) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Lines, times in ns, prompt and output tokens of the good rows; the others are reported."""
    columns = _parse(piece)
    if columns is not None:
        return np.arange(first_line, first_line + len(columns[0])), *columns
    lines, good = array("q"), []
    for line, row in enumerate(piece[:-1].split(b"\n"), first_line):
        faults = _faults(row)
        for bad in faults:
            reading.fault(line, *bad)
        if not faults:
            lines.append(line)
            good.append(row + b"\n")
    columns = _parse(b"".join(good))
    assert columns is not None, "rows were found good one by one but not together"
    return np.frombuffer(lines, dtype=np.int64), *columns


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
        if ((tokens < 1) | (tokens > MAX_TOKENS)).any():
            return None
    return time_ns, prompt_tokens, output_tokens


def _faults(row: bytes) -> list[tuple[str, str]]:
    """Kind of each fault of a row and what is wrong."""
    if not row.strip():
        return [("blank line", f"blank line, must be {HEADER}")]
    fields = row.decode().split(",")
    if len(fields) != 3:
        why = f"{len(fields)} fields in {shown(row.decode())}: must be 3, {HEADER}"
        return [("number of fields", why)]
    stamp, *lengths = fields
    faults = []
    if not _is_time(stamp):
        why = f"TIMESTAMP {shown(stamp)}: must be like 2023-11-16 18:17:03.9799600"
        faults.append(("TIMESTAMP", why))
    for name, text in zip(HEADER.split(",")[1:], lengths, strict=True):
        is_count = text.isascii() and text.isdigit() and len(text) <= 9
        wrong = why_not_tokens(name, int(text) if is_count else text)
        if wrong:
            faults.append((name, wrong))
    return faults


def _is_time(stamp: str) -> bool:
    if not _CLEAN_STAMP.fullmatch(stamp.encode()):
        return False
    try:
        np.datetime64(stamp.removesuffix("+00:00").removesuffix("Z"), "ns")
    except ValueError:
        return False
    return True
