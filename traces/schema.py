"""The raw trace: what a reader or a generator delivers, before prompts are compressed to paths.

Transforms work on this table; `traces.prefix_compress` turns it into a `sim.workload.Workload`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from sim.workload import FloatArray, IntArray, Labels

IdArray = npt.NDArray[np.int32] | npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptRuns:
    """The beginning of every prompt as runs of tokens with ids; what no run covers is private.

    Two prompts share their first k runs exactly if these have equal ids and equal token counts. An
    id may return in another place: only whole prefixes count.

    Attributes:
        ids: id of every run, >= 0, prompts concatenated.
        offsets: start of each prompt's slice of `ids`. Shape (n + 1,).
        block_tokens: tokens per run, the last one ending with the prompt; None if `tokens` is set.
        tokens: tokens of every run, >= 1, like `ids`; None if `block_tokens` is set.
    """

    ids: IdArray
    offsets: IntArray
    block_tokens: int | None = None
    tokens: IntArray | None = None

    def __post_init__(self) -> None:
        if (self.block_tokens is None) == (self.tokens is None):
            raise ValueError("PromptRuns needs block_tokens or tokens, not both")

    def take(self, rows: IntArray) -> "PromptRuns":
        """Runs of `rows`, in that order."""
        counts = np.diff(self.offsets)[rows]
        offsets = np.append(0, np.cumsum(counts))
        source = np.repeat(self.offsets[rows] - offsets[:-1], counts) + np.arange(offsets[-1])
        tokens = None if self.tokens is None else self.tokens[source]
        return replace(self, ids=self.ids[source], offsets=offsets, tokens=tokens)

    def slice(self, start: int, stop: int) -> "PromptRuns":
        """Runs of the rows from `start` to before `stop`; shares memory."""
        first, end = int(self.offsets[start]), int(self.offsets[stop])
        tokens = None if self.tokens is None else self.tokens[first:end]
        offsets = self.offsets[start : stop + 1] - first
        return replace(self, ids=self.ids[first:end], offsets=offsets, tokens=tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceTable:
    """Columns over n requests in order of arrival.

    Attributes:
        arrival_s: seconds from the start of the trace, >= 0, never decreasing. Shape (n,).
        prompt_tokens: prompt length, >= 1. Shape (n,).
        output_tokens: tokens generated, >= 1. Shape (n,).
        runs: what the prompts share, None where the trace does not say.
        output_run: id of the run that a follow-up turn uses for what this request generated, -1
            where none; the request's runs must then cover its whole prompt. Shape (n,) or None.
        session_id: conversation, -1 where none. Shape (n,) or None.
        turn: turn within the session, from 0. Shape (n,) or None.
        parent_id: row whose prompt and output this prompt continues, -1 where none.
        tenant: customer, or None.
        slo_class: service class, or None.
        priority: smaller is more urgent. Shape (n,) or None.
        after: row whose end makes this one arrive, `delay_s` later; -1: it arrives at `arrival_s`
            (which is nominal in the other rows). Smaller than the row. Shape (n,) or None.
        delay_s: seconds between that end and the arrival, >= 0. Shape (n,) or None.
        concurrency: so many users take the rows that are after none in order, each the next one
            when all that its last one led to has ended; None: they arrive at `arrival_s`.
        provenance: `format`, `sha256` of the file (None for a generator), `num_rows` delivered by
            the reader, `options` that changed the rows, and `transforms` once there are any.
    """

    arrival_s: FloatArray
    prompt_tokens: IntArray
    output_tokens: IntArray
    runs: PromptRuns | None = None
    output_run: IntArray | None = None
    session_id: IntArray | None = None
    turn: IntArray | None = None
    parent_id: IntArray | None = None
    tenant: Labels | None = None
    slo_class: Labels | None = None
    priority: IntArray | None = None
    after: IntArray | None = None
    delay_s: FloatArray | None = None
    concurrency: int | None = None
    provenance: Mapping[str, Any] = field(default_factory=dict)

    @property
    def num_requests(self) -> int:
        """Number of requests."""
        return len(self.arrival_s)

    def slice(self, start: int, stop: int) -> "TraceTable":
        """Rows from `start` to before `stop`; a parent or `after` outside them is -1."""
        runs = None if self.runs is None else self.runs.slice(start, stop)
        return self._select(np.arange(start, stop), runs)

    def take(self, rows: IntArray) -> "TraceTable":
        """The given rows, in that order; a parent or `after` not among them is -1."""
        return self._select(rows, None if self.runs is None else self.runs.take(rows))

    def _select(self, rows: IntArray, runs: PromptRuns | None) -> "TraceTable":
        def column(values: IntArray | None) -> IntArray | None:
            return None if values is None else values[rows]

        def labels(values: Labels | None) -> Labels | None:
            return None if values is None else Labels(values.codes[rows], values.names)

        parent_id, after = column(self.parent_id), column(self.after)
        if parent_id is not None or after is not None:
            row_now = np.full(self.num_requests + 1, -1, dtype=np.int64)
            row_now[rows] = np.arange(len(rows))
            # -1 reads the extra last entry, which stays -1
            parent_id = None if parent_id is None else row_now[parent_id]
            after = None if after is None else row_now[after]
        return TraceTable(
            arrival_s=self.arrival_s[rows],
            prompt_tokens=self.prompt_tokens[rows],
            output_tokens=self.output_tokens[rows],
            runs=runs,
            output_run=column(self.output_run),
            session_id=column(self.session_id),
            turn=column(self.turn),
            parent_id=parent_id,
            tenant=labels(self.tenant),
            slo_class=labels(self.slo_class),
            priority=column(self.priority),
            after=after,
            delay_s=None if self.delay_s is None else self.delay_s[rows],
            concurrency=self.concurrency,
            provenance=self.provenance,
        )


class TraceReader(Protocol):
    """Reads one file format; further options are keywords with defaults."""

    def __call__(self, path: str | Path, /, *, sort: bool = False) -> TraceTable:
        """Read the whole file.

        Args:
            path: the file.
            sort: order rows by time, equal times as in the file; otherwise disorder is an error.

        Raises:
            TraceFormatError: the file breaks its format; names file, line, value and what is
                allowed. No row is ever skipped.
            ConfigError: an option is out of range.
        """


class TraceSource(Protocol):
    """A kind of trace with its options; constructors take plain values and raise ConfigError."""

    def load(self, seed: int) -> TraceTable:
        """Read or generate the trace. The same seed gives identical arrays; a file ignores it."""
