"""The columns of a parquet file in our own layout: filled batch by batch, then checked."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from sim.workload import IntArray, Labels
from traces.options import MAX_TIME_S
from traces.parquet_layout import FLOATS, INTS, LABELS, LISTS, StoredHeader
from traces.readers.parquet_file import ParquetSource
from traces.readers.reading import Reading
from traces.readers.row_checks import RowChecks
from traces.readers.stored_runs import MAX_STORED, StoredRuns
from traces.schema import PromptRuns, TraceTable

_LEAST = {
    "prompt_tokens": 1,
    "output_tokens": 1,
    "priority": -MAX_STORED,
    "run_ids": 0,
    "run_tokens": 1,
}
"""Least value of an integer column; -1 in the others, where it means none."""

_FILLER = {"arrival_s": 0.0, "delay_s": 0.0, "prompt_tokens": 1, "output_tokens": 1}
"""What stands in for a null, whose row is left out; -1 in the other columns."""


class StoredColumns:
    """Arrays of all rows, filled batch by batch.

    Args:
        reading: told of every bad row.
        source: the file.
        header: what it says about the whole table.
        names: the columns to read.

    Raises:
        TraceFormatError: the file claims more rows or ids than it or the memory holds.
    """

    def __init__(
        self, reading: Reading, source: ParquetSource, header: StoredHeader, names: list[str]
    ) -> None:
        n = source.num_rows
        self._reading, self._header = reading, header
        self._checks = RowChecks(reading, n)
        try:
            self._arrays: dict[str, npt.NDArray[Any]] = {
                name: np.empty(n, np.float64 if name in FLOATS else np.int64)
                for name in names
                if name not in LISTS
            }
            self._runs = {
                name: StoredRuns(
                    reading, source, name, header.num_ids or 0, _LEAST[name], name == "run_tokens"
                )
                for name in LISTS
                if name in names
            }
        except (MemoryError, ValueError):
            raise reading.refuse(0, f"has too many rows or ids for this machine: {n}") from None

    def take_in(self, first: int, batch: Any) -> None:
        """Store the rows of a batch, of which the first is row `first`."""
        for name, array in self._arrays.items():
            column = batch.column(name)
            if name in LABELS:
                column = self._codes(name, column, first)
            elif column.null_count:
                self._checks.nulls(name, column, first)
                column = column.fill_null(_FILLER.get(name, -1))
            array[first : first + len(column)] = column.to_numpy(zero_copy_only=False)
        for name, runs in self._runs.items():
            runs.take_in(first, batch.column(name), self._checks)

    def _codes(self, name: str, column: Any, first: int) -> Any:
        import pyarrow as pa
        import pyarrow.compute as pc

        names = pa.array(self._header.names[name], pa.string())
        codes = pc.index_in(column, value_set=names)
        is_unknown = pc.and_(codes.is_null(), column.is_valid()).to_numpy(zero_copy_only=False)
        if is_unknown.any():
            labels = column.to_pylist()
            rule = "a label that the metadata lists"
            self._checks.add(name, np.flatnonzero(is_unknown) + first, rule, labels, first)
        return codes.fill_null(-1)

    def table(self, provenance: Mapping[str, Any]) -> TraceTable:
        """The rows as they are in the file, checked or not."""
        get = self._arrays.get
        return TraceTable(
            arrival_s=self._arrays["arrival_s"],
            prompt_tokens=self._arrays["prompt_tokens"],
            output_tokens=self._arrays["output_tokens"],
            runs=self._prompt_runs(),
            output_run=get("output_run"),
            session_id=get("session_id"),
            turn=get("turn"),
            parent_id=get("parent_id"),
            tenant=self._labels("tenant"),
            slo_class=self._labels("slo_class"),
            priority=get("priority"),
            after=get("after"),
            delay_s=get("delay_s"),
            concurrency=self._header.concurrency,
            provenance=provenance,
        )

    def _prompt_runs(self) -> PromptRuns | None:
        """The runs.

        Raises:
            TraceFormatError: the list columns do not fit each other or the header.
        """
        for stored in self._runs.values():
            stored.check_all_there()
        if "run_ids" not in self._runs:
            return None
        ids, tokens = self._runs["run_ids"], self._runs.get("run_tokens")
        if tokens is not None and (tokens.offsets != ids.offsets).any():
            row = int(np.argmax(tokens.offsets != ids.offsets)) - 1
            raise self._reading.refuse(row + 1, "must have as many run_tokens as run_ids")
        return PromptRuns(
            ids=ids.values,
            offsets=ids.offsets,
            block_tokens=self._header.block_tokens,
            tokens=None if tokens is None else tokens.values,
        )

    def _labels(self, name: str) -> Labels | None:
        codes = self._arrays.get(name)
        return None if codes is None else Labels(codes, tuple(self._header.names[name]))

    def check(self, table: TraceTable, sort: bool) -> npt.NDArray[np.bool_]:
        """Report every bad row; which rows are good. Shape (n,).

        Args:
            table: what `table` returned.
            sort: whether rows may be out of order.
        """
        for name in FLOATS:
            column = self._arrays.get(name)
            if column is not None:
                is_bad = ~((column >= 0) & (column <= MAX_TIME_S))
                rule = f"a number of seconds from 0 to {MAX_TIME_S:,.0f}"
                self._checks.add(name, np.flatnonzero(is_bad), rule, column)
        for name in INTS:
            column = self._arrays.get(name)
            if column is not None:
                low = _LEAST.get(name, -1)
                high = table.num_requests - 1 if name in ("parent_id", "after") else MAX_STORED
                is_bad = (column < low) | (column > high)
                rule = f"an integer from {low} to {high}"
                self._checks.add(name, np.flatnonzero(is_bad), rule, column)
        if table.after is not None:
            self._check_after(table, table.after, sort)
        if table.runs is not None:
            self._check_runs(table, table.runs)
        if table.output_run is not None and (table.runs is None or table.runs.tokens is None):
            rule = "-1 where runs have no token counts"
            rows = np.flatnonzero(table.output_run >= 0)
            self._checks.add("output_run", rows, rule, table.output_run)
        return self._checks.report()

    def _check_after(self, table: TraceTable, after: IntArray, sort: bool) -> None:
        n = table.num_requests
        place = np.arange(n)
        if sort:
            place[np.argsort(table.arrival_s, kind="stable")] = np.arange(n)
        is_inside = (after >= 0) & (after < n)
        is_late = is_inside & (place[np.where(is_inside, after, 0)] >= place)
        rule = "-1 or an earlier row (rows count from 0)"
        self._checks.add("after", np.flatnonzero(is_late), rule, after)

    def _check_runs(self, table: TraceTable, runs: PromptRuns) -> None:
        num_runs, prompt_tokens = np.diff(runs.offsets), table.prompt_tokens
        if runs.block_tokens is not None:
            most = -(-prompt_tokens // runs.block_tokens)
            rows = np.flatnonzero(num_runs > most)
            rule = f"at most one per started {runs.block_tokens} tokens of the prompt"
            text = [f"{count} run_ids: must be {rule}" for count in num_runs[rows]]
            self._checks.add_text("run_ids", rows, text)
            return
        covered = self._runs["run_tokens"].sums
        assert covered is not None
        is_wrong = covered > prompt_tokens
        if table.output_run is not None:
            is_wrong |= (table.output_run >= 0) & (covered != prompt_tokens)
        rows = np.flatnonzero(is_wrong)
        rule = "at most prompt_tokens, and all of them where output_run is set"
        text = [f"run_tokens of {tokens} in all: must be {rule}" for tokens in covered[rows]]
        self._checks.add_text("run_tokens", rows, text)
