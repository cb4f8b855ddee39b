"""Measured times of one kernel: columns of numbers, and what was left out."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sim.errors import ConfigError

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Rows of a table that are not used.

    Attributes:
        num_rows: how many.
        reason: why.
    """

    num_rows: int
    reason: str


def left_out(num_rows: int, reason: str) -> tuple[LeftOut, ...]:
    """One entry, or none where no row was left out."""
    return (LeftOut(num_rows, reason),) if num_rows else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRows:
    """Measured times of one kernel on one device.

    Attributes:
        columns: shapes by name, each of shape (rows,).
        time_s: measured seconds, shape (rows,).
        source: where the rows come from.
        sha256: of the file, hexadecimal.
        left_out: rows of the file that are not here.
    """

    columns: Mapping[str, FloatArray]
    time_s: FloatArray
    source: str
    sha256: str
    left_out: tuple[LeftOut, ...] = ()

    @property
    def num_rows(self) -> int:
        """Rows that are here."""
        return int(self.time_s.size)

    def where(self, keep: NDArray[np.bool_], reason: str) -> "MeasuredRows":
        """The rows under a mask; the others are counted under `reason`."""
        dropped = left_out(int(keep.size - keep.sum()), reason)
        return replace(
            self,
            columns={name: column[keep] for name, column in self.columns.items()},
            time_s=self.time_s[keep],
            left_out=self.left_out + dropped,
        )


def median_of_repeats(rows: MeasuredRows, repeats: str = "repeats of a shape") -> MeasuredRows:
    """One row per shape with the median time of its repeats, sorted by shape.

    Args:
        rows: measured rows.
        repeats: what the repeats are, for the record of what was left out.
    """
    shapes, index = np.unique(
        np.stack(list(rows.columns.values()), axis=1), axis=0, return_inverse=True
    )
    index = index.reshape(-1)
    num_repeats = rows.num_rows - len(shapes)
    order = np.lexsort((rows.time_s, index))
    starts = np.searchsorted(index[order], np.arange(len(shapes) + 1))
    low = starts[:-1] + (np.diff(starts) - 1) // 2
    high = starts[:-1] + np.diff(starts) // 2
    sorted_s = rows.time_s[order]
    dropped = left_out(num_repeats, f"{repeats}; the median stands for them")
    return replace(
        rows,
        columns=dict(zip(rows.columns, shapes.T.copy(), strict=True)),
        time_s=(sorted_s[low] + sorted_s[high]) / 2,
        left_out=rows.left_out + dropped,
    )


def file_sha256(path: Path) -> str:
    """SHA-256 of a file, hexadecimal.

    Raises:
        ConfigError: it cannot be read.
    """
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        reason = error.strerror or "not readable"
        raise ConfigError(f"{path}: cannot read the file: {reason}") from None


def joined(tables: Sequence[MeasuredRows]) -> MeasuredRows:
    """Rows of several tables with the same columns, one after the other.

    The hash is that of the hashes of the files in their order.
    """
    if len(tables) == 1:
        return tables[0]
    first = tables[0]
    return MeasuredRows(
        columns={
            name: np.concatenate([table.columns[name] for table in tables])
            for name in first.columns
        },
        time_s=np.concatenate([table.time_s for table in tables]),
        source="; ".join(dict.fromkeys(table.source for table in tables)),
        sha256=hashlib.sha256("".join(table.sha256 for table in tables).encode()).hexdigest(),
        left_out=tuple(entry for table in tables for entry in table.left_out),
    )
