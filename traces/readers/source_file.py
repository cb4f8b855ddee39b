"""What every reader of a file does: order of arrival, token counts, provenance."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sim.workload import FloatArray, IntArray
from traces.options import MAX_TOKENS, shown
from traces.readers.reading import Reading
from traces.schema import TraceTable


def why_not_tokens(name: str, value: Any) -> str | None:
    """What is wrong with a token count, None if nothing is."""
    if type(value) is int and 1 <= value <= MAX_TOKENS:
        return None
    return f"{name} {shown(value)}: must be an integer from 1 to {MAX_TOKENS:,}"


def in_arrival_order(
    reading: Reading | str | Path,
    table: TraceTable,
    clock: FloatArray | IntArray,
    sort: bool,
    first_line: int,
    lines: IntArray | None = None,
) -> TraceTable:
    """`table` in order of time, equal times as in the file.

    A pass that looks for faults notes every row that is earlier than the one before it, under the
    kind "order", and goes on with all of them sorted.

    Args:
        reading: the pass, or the file of a strict one.
        table: the rows as the file has them.
        clock: their time column, in any unit. Shape (n,).
        sort: whether disorder is allowed.
        first_line: line of the first row; row i is on line i + first_line.
        lines: line of every row where some were left out. Shape (n,).

    Raises:
        TraceFormatError: rows are out of order, `sort` is false, and the pass is strict.
    """
    early = np.flatnonzero(np.diff(clock) < 0) + 1
    if not len(early):
        return table
    if not isinstance(reading, Reading):
        reading = Reading(reading)
    for row in () if sort else early.tolist():
        gap_s = float(table.arrival_s[row - 1] - table.arrival_s[row])
        here, before = (k + first_line if lines is None else int(lines[k]) for k in (row, row - 1))
        above = "the line above" if before == here - 1 else f"line {before}"
        why = (
            f"arrives {gap_s:.9g} s before {above}; rows must be in order of time "
            "(trace.sort=true sorts them)"
        )
        reading.fault(here, "order", why)
    return table.take(np.argsort(clock, kind="stable"))


def provenance_of_file(
    name: str, sha256: str, num_rows: int, options: Mapping[str, Any]
) -> dict[str, Any]:
    """Provenance of a table read from a file."""
    return {"format": name, "sha256": sha256, "num_rows": num_rows, "options": dict(options)}
