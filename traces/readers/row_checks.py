"""Faults of rows found column by column, reported row by row."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sim.workload import IntArray
from traces.options import shown
from traces.readers.reading import Reading

Values = Mapping[int, Any] | Sequence[Any] | npt.NDArray[Any]
"""What rows hold, by row number."""


@dataclass(frozen=True, slots=True)
class _Finding:
    """Bad rows of a column."""

    kind: str
    rows: IntArray
    text: list[str]


class RowChecks:
    """Collects the bad rows of a table, for which lines are row numbers from 1.

    Args:
        reading: the pass that the faults go to.
        num_rows: rows of the table.
    """

    def __init__(self, reading: Reading, num_rows: int) -> None:
        self._reading = reading
        self._num_rows = num_rows
        self._findings: list[_Finding] = []

    def add(self, name: str, rows: IntArray, rule: str, values: Values, first: int = 0) -> None:
        """Note rows in which column `name` breaks a rule.

        Args:
            name: the column.
            rows: the bad rows, from 0.
            rule: what the value must be.
            values: the column from row `first` on.
            first: row number of the first of `values`.
        """
        text = [f"{name} {shown(_plain(values[row - first]))}: must be {rule}" for row in rows]
        self._note(name, rows, text)

    def add_text(self, name: str, rows: IntArray, text: list[str]) -> None:
        """Note rows with what is wrong in each."""
        self._note(name, rows, text)

    def nulls(self, name: str, column: Any, first: int) -> None:
        """Note the nulls of an Arrow array whose first entry is in row `first`."""
        rows = np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False)) + first
        self._note(name, rows, [f"{name} is null, must have a value"] * len(rows))

    def report(self) -> npt.NDArray[np.bool_]:
        """Hand all faults to the pass, in the order of rows; which rows are good. Shape (n,)."""
        is_good = np.ones(self._num_rows, dtype=np.bool_)
        if not self._findings:
            return is_good
        rows = np.concatenate([finding.rows for finding in self._findings])
        kinds = [finding.kind for finding in self._findings for _ in finding.text]
        text = [line for finding in self._findings for line in finding.text]
        for i in np.argsort(rows, kind="stable").tolist():
            self._reading.fault(int(rows[i]) + 1, kinds[i], text[i])
        is_good[rows] = False
        return is_good

    def _note(self, kind: str, rows: IntArray, text: list[str]) -> None:
        if len(rows):
            self._findings.append(_Finding(kind, rows, text))


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
