"""A list column of a parquet file in our own layout, read into one array."""

from typing import Any

import numpy as np
import numpy.typing as npt

from sim.workload import IntArray
from traces.readers.parquet_file import ParquetSource
from traces.readers.reading import Reading
from traces.readers.row_checks import RowChecks

MAX_STORED = 2**62
"""Largest id, token count or other integer of a stored table."""


class StoredRuns:
    """The lists of all rows, concatenated; filled batch by batch, without a second copy.

    Args:
        reading: the pass.
        source: the file.
        name: the column.
        num_values: values over all rows, as the file's header has it.
        low: least value allowed.
        is_summed: whether to add the values of each row.

    Attributes:
        values: the values. Shape (num_values,).
        offsets: start of each row's slice of them. Shape (n + 1,).
        sums: sum of each row's values; None unless `is_summed`. Shape (n,).

    Raises:
        TraceFormatError: the file cannot hold so many values.
    """

    def __init__(
        self,
        reading: Reading,
        source: ParquetSource,
        name: str,
        num_values: int,
        low: int,
        is_summed: bool,
    ) -> None:
        if num_values > source.num_values(name):
            raise reading.refuse(0, f"column {name} has fewer values than its header says")
        self._reading, self._name, self._low = reading, name, low
        dtype = source.columns[name].value_type.to_pandas_dtype()
        self.values: npt.NDArray[Any] = np.empty(num_values, dtype)
        self.offsets: IntArray = np.zeros(source.num_rows + 1, dtype=np.int64)
        self.sums: IntArray | None = None
        if is_summed:
            self.sums = np.zeros(source.num_rows, dtype=np.int64)

    def take_in(self, first: int, column: Any, checks: RowChecks) -> None:
        """Store an Arrow list array, whose first entry is in row `first`."""
        if column.null_count:
            row = first + int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
            raise self._reading.refuse(row + 1, f"{self._name} is null, must be a list")
        lengths = column.value_lengths().to_numpy(zero_copy_only=False)
        start = int(self.offsets[first])
        ends = np.cumsum(lengths, dtype=np.int64)
        self.offsets[first + 1 : first + 1 + len(lengths)] = start + ends
        flat = column.flatten()
        stop = start + len(flat)
        if stop > len(self.values):
            raise self._reading.refuse(
                0, f"column {self._name} has more values than its header says"
            )
        if flat.null_count:
            where = np.flatnonzero(flat.is_null().to_numpy(zero_copy_only=False))[:1]
            row = first + int(np.searchsorted(ends, where, side="right")[0])
            raise self._reading.refuse(row + 1, f"{self._name} contains null, must be integers")
        values = self.values[start:stop]
        values[:] = flat.to_numpy()
        self._check(first, values, ends, checks)
        if self.sums is not None:
            total = np.append(0, np.cumsum(values, dtype=np.int64))
            self.sums[first : first + len(ends)] = total[ends] - total[ends - lengths]

    def check_all_there(self) -> None:
        """Refuse a file with fewer values than its header says."""
        if self.offsets[-1] < len(self.values):
            why = f"column {self._name} has fewer values than its header says"
            raise self._reading.refuse(0, why)

    def _check(
        self, first: int, values: npt.NDArray[Any], ends: IntArray, checks: RowChecks
    ) -> None:
        if not len(values) or (values.min() >= self._low and values.max() <= MAX_STORED):
            return
        where = np.flatnonzero((values < self._low) | (values > MAX_STORED))
        rows, index = np.unique(np.searchsorted(ends, where, side="right"), return_index=True)
        worst = dict(zip((rows + first).tolist(), values[where[index]].tolist(), strict=True))
        checks.add(self._name, rows + first, f"integers from {self._low} to {MAX_STORED}", worst)
