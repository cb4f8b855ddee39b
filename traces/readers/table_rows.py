"""The good rows of a table of requests, put together column by column."""

from collections.abc import Iterable, Iterator, Mapping
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from sim.workload import IntArray, Labels
from traces.options import MAX_TIME_S, shown
from traces.readers.column_options import UNITS, ColumnOptions
from traces.readers.field_values import FieldValues, LabelCodes
from traces.readers.reading import Reading
from traces.readers.source_file import in_arrival_order
from traces.schema import PromptRuns, TraceTable

NAMED = ("tenant", "slo_class", "session_id")
"""Fields that hold names."""


class TableRows:
    """Takes in pieces of a table and gives the trace.

    Args:
        reading: told of every bad row, which is left out.
        options: what the columns are.

    Attributes:
        labels: field -> numbers of its names, for the fields in `NAMED` that are read.
    """

    def __init__(self, reading: Reading, options: ColumnOptions) -> None:
        self._reading = reading
        self._options = options
        self._pieces: dict[str, list[npt.NDArray[Any]]] = {"line": [], "ids": []}
        self.labels = {name: LabelCodes() for name in NAMED if name in options.names}

    @property
    def num_rows(self) -> int:
        """Good rows taken in so far."""
        return sum(map(len, self._pieces["line"]))

    def add(
        self,
        lines: IntArray,
        fields: Mapping[str, FieldValues],
        faults: Iterable[tuple[int, str, str]] = (),
    ) -> None:
        """Take in some rows, in the order of the file.

        Args:
            lines: line of each row. Shape (m,).
            fields: every field that the options name, of these rows.
            faults: line, kind and reason of rows between them that have no fields.
        """
        is_bad = np.zeros(len(lines), dtype=np.bool_)
        for values in fields.values():
            is_bad |= values.is_bad
        is_long = self._too_many_ids(fields, is_bad)
        is_bad |= is_long
        found = list(faults)
        for row in np.flatnonzero(is_bad).tolist():
            found += self._faults(int(lines[row]), row, fields, bool(is_long[row]))
        for fault in sorted(found, key=itemgetter(0)):
            self._reading.fault(*fault)
        is_good = ~is_bad
        self._pieces["line"].append(lines[is_good])
        for field, values in fields.items():
            self._pieces.setdefault(field, []).append(values.values[is_good])
            if values.flat is not None:
                flat = values.flat
                if is_bad.any():
                    flat = flat[np.repeat(is_good, values.values)]
                self._pieces["ids"].append(flat.astype(_id_type(flat), copy=False))

    def table(self, provenance: Mapping[str, Any], sort: bool) -> TraceTable:
        """The trace of all rows taken in, in order of arrival.

        Args:
            provenance: as in `TraceTable`.
            sort: whether rows may be out of order.

        Raises:
            TraceFormatError: times are out of range or out of order, in a strict pass.
        """
        lines = self._column("line")
        clock = self._column("arrival_s")
        arrival_s = self._relative(clock)
        table = TraceTable(
            arrival_s=arrival_s,
            prompt_tokens=self._column("prompt_tokens"),
            output_tokens=self._column("output_tokens"),
            runs=self._runs(),
            session_id=self._optional("session_id"),
            turn=self._optional("turn"),
            tenant=self._names("tenant"),
            slo_class=self._names("slo_class"),
            priority=self._optional("priority"),
            provenance=provenance,
        )
        is_far = ~((arrival_s >= 0) & (arrival_s <= MAX_TIME_S))
        for row in np.flatnonzero(is_far).tolist():
            why = f"arrives at {arrival_s[row]:.12g} s: must be from 0 to {MAX_TIME_S:,.0f}"
            self._reading.fault(int(lines[row]), self._options.names["arrival_s"], why)
        if is_far.any():
            rows = np.flatnonzero(~is_far)
            table, lines, clock = table.take(rows), lines[rows], clock[rows]
        return in_arrival_order(self._reading, table, clock, sort, 1, lines)

    def _too_many_ids(
        self, fields: Mapping[str, FieldValues], is_bad: npt.NDArray[np.bool_]
    ) -> npt.NDArray[np.bool_]:
        ids, block_tokens = fields.get("hash_ids"), self._options.block_tokens
        if ids is None or block_tokens is None:
            return np.zeros(len(is_bad), dtype=np.bool_)
        most = -(-fields["prompt_tokens"].values // block_tokens)
        is_long: npt.NDArray[np.bool_] = ~is_bad & (ids.values > most)
        return is_long

    def _faults(
        self, line: int, row: int, fields: Mapping[str, FieldValues], is_long: bool
    ) -> Iterator[tuple[int, str, str]]:
        names = self._options.names
        if is_long:
            block_tokens = self._options.block_tokens
            count = int(fields["hash_ids"].values[row])
            why = (
                f"{names['hash_ids']} has {count} ids: must be at most one per started "
                f"{block_tokens} tokens (trace.block_tokens) of the prompt"
            )
            yield line, names["hash_ids"], why
        for field, values in fields.items():
            if values.is_bad[row]:
                why = f"{names[field]} {shown(values.raw(row))}: must be {values.rule}"
                yield line, names[field], why

    def _relative(self, clock: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        if self._options.time_origin == "first" and len(clock):
            clock = clock - clock.min()
        arrival_s: npt.NDArray[np.float64] = clock / UNITS[self._options.time_unit]
        return arrival_s

    def _column(self, name: str) -> npt.NDArray[Any]:
        pieces = self._pieces.get(name, [])
        return np.concatenate(pieces) if pieces else np.empty(0, dtype=np.int64)

    def _optional(self, name: str) -> IntArray | None:
        return self._column(name) if name in self._options.names else None

    def _names(self, name: str) -> Labels | None:
        if name not in self.labels:
            return None
        return Labels(self._column(name), self.labels[name].names)

    def _runs(self) -> PromptRuns | None:
        block_tokens = self._options.block_tokens
        if block_tokens is None:
            return None
        offsets = np.append(0, np.cumsum(self._column("hash_ids"), dtype=np.int64))
        return PromptRuns(ids=self._column("ids"), offsets=offsets, block_tokens=block_tokens)


def _id_type(ids: npt.NDArray[np.int64]) -> type[np.int32] | type[np.int64]:
    return np.int32 if not len(ids) or ids.max() < 2**31 else np.int64
