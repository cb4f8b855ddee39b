"""A file of microbenchmark rows as columns of numbers, one set of columns per benchmark."""

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hwmodels.fitting.parameter import FloatArray
from hwmodels.measurements.rows import MeasuredRows, file_sha256, left_out
from hwmodels.microbench.cases import (
    CASES,
    HEAD_DIM,
    Case,
    DecodeAttentionCase,
    MixedCase,
    PrefillCase,
)
from hwmodels.microbench.errors import MicrobenchError
from hwmodels.microbench.rows import Header, read_rows
from hwmodels.strict_json import shown
from sim.errors import ConfigError

__all__ = [
    "HEAD_DIM",
    "KV_BYTES",
    "RowsFile",
    "columns_of",
    "is_choice",
    "is_rows_file",
    "read_rows_file",
    "source_of",
]

KV_BYTES = 4
"""Bytes of a key and a value element, 16 bit each."""

_CHOICES: dict[str, tuple[str, ...]] = {
    key: allowed for kind in CASES.values() for key, allowed in kind.choices.items()
}
"""Texts of each parameter that is a text, in the order of their numbers in a column."""


def is_choice(columns: Mapping[str, FloatArray], name: str, text: str) -> NDArray[np.bool_]:
    """Rows in which a parameter that is a text has this value. Shape (rows,)."""
    chosen: NDArray[np.bool_] = columns[name] == _CHOICES[name].index(text)
    return chosen


def columns_of(cases: Sequence[Case]) -> dict[str, FloatArray]:
    """Parameters of cases of one benchmark by name, each of shape (cases,).

    Texts become their places among the texts allowed. What a profile states ranges of under another
    name stands beside them: `batch_size`, `context_tokens` (the mean of decodes, the sum of decodes
    in mixed steps), `longest_tokens`. Decode attention also has the moments of its contexts:
    `context_sum`, `context_max`, `context_squares`.
    """
    columns: dict[str, list[float]] = {}
    for case in cases:
        for name, value in (case.params | _derived(case)).items():
            number = _CHOICES[name].index(value) if isinstance(value, str) else value
            columns.setdefault(name, []).append(float(number))
    return {name: np.array(values, dtype=np.float64) for name, values in columns.items()}


def _derived(case: Case) -> dict[str, float]:
    """Columns beside the parameters of a case."""
    if isinstance(case, DecodeAttentionCase):
        lengths = case.contexts
        return {
            "batch_size": case.batch,
            "context_tokens": sum(lengths) / case.batch,
            "context_sum": sum(lengths),
            "context_max": max(lengths),
            "context_squares": sum(n * n for n in lengths),
        }
    if isinstance(case, MixedCase):
        return {
            "batch_size": case.batch,
            "context_tokens": case.batch * case.context,
            "longest_tokens": case.context,
        }
    return {"batch_size": case.batch} if isinstance(case, PrefillCase) else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsFile:
    """A file of rows.

    Attributes:
        path: of the file.
        header: device, versions, date.
        sha256: of the file, hexadecimal.
        tables: rows by benchmark, in the order of `CASES`; one without rows is not there.
        num_failures: cases that could not be measured, by benchmark.
    """

    path: Path
    header: Header
    sha256: str
    tables: Mapping[str, MeasuredRows]
    num_failures: Mapping[str, int]

    def rows_of(self, benchmark: str) -> MeasuredRows | None:
        """Rows of a benchmark, None if there are none."""
        return self.tables.get(benchmark)


def is_rows_file(path: Path) -> bool:
    """Whether measurements at a path are one file of rows, and not a folder of tables."""
    return path.suffix == ".jsonl" or path.is_file()


def read_rows_file(path: Path) -> RowsFile:
    """Read a file of rows; the median of each case is its time.

    Raises:
        ConfigError: it cannot be read, a line is broken, or it holds no row.
    """
    try:
        found = read_rows(path)
    except MicrobenchError as error:
        raise ConfigError(f"{error}") from None
    header = found.header
    _check_date(path, header.date)
    if not found.rows:
        raise ConfigError(f"{path}: holds no measured row")
    sha256, source = file_sha256(path), source_of(header)
    failed = [failure.case.name for failure in found.failures.values()]
    num_failures = {name: failed.count(name) for name in CASES if name in failed}
    tables = {}
    for name in CASES:
        rows = [row for row in found.rows.values() if row.case.name == name]
        if rows:
            tables[name] = MeasuredRows(
                columns=columns_of([row.case for row in rows]),
                time_s=np.array([row.measurement.p50_s for row in rows]),
                source=source,
                sha256=sha256,
                left_out=left_out(num_failures.get(name, 0), "could not be measured"),
            )
    return RowsFile(
        path=path, header=header, sha256=sha256, tables=tables, num_failures=num_failures
    )


def source_of(header: Header) -> str:
    """What the rows of a file are, in words."""
    versions = header.versions
    software = ", ".join(
        f"{key} {versions[key]}"
        for key in ("driver", "cuda", "torch", "triton")
        if versions[key] != "none"
    )
    where = f"{header.device.name} ({software})" if software else header.device.name
    return f"microbenchmarks on {where}, {header.date}"


def _check_date(path: Path, date: str) -> None:
    try:
        is_plain = datetime.date.fromisoformat(date).isoformat() == date
    except ValueError:
        is_plain = False
    if not is_plain:
        raise ConfigError(f"{path}:1: date must be YYYY-MM-DD, found {shown(date)}")
