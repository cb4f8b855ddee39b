"""Collects what happens, in compact columns, while the simulation runs.

Per request a few numbers at its end; per run of steps one row; step ends in one array per instance.
Everything a user reads (`sim.records`, `sim.metrics`) is derived from these afterwards.
"""

from array import array
from collections.abc import Callable
from struct import Struct

import numpy as np
import numpy.typing as npt
from mypy_extensions import mypyc_attr

from sim.request import Request

UNFINISHED, COMPLETED, REJECTED = range(3)
"""Status codes of a request."""

NOT_REJECTED, OVER_CAPACITY, REFUSED, OVER_MODEL_LEN = range(4)
"""Why a request was rejected: it can never fit the KV cache, the admission policy refused it, or
its prompt exceeds `max_model_len`."""

REPORT_EVERY = 512
"""Requests between two progress reports."""

RUN_DTYPE = np.dtype(
    [
        ("first_step", "<i8"),
        ("num_steps", "<i4"),
        ("num_decodes", "<i4"),
        ("num_prefills", "<i4"),
        ("prefill_tokens", "<i8"),
        ("context_tokens", "<i8"),
        ("num_waiting", "<i4"),
        ("used_blocks", "<i4"),
    ]
)
"""One row per run of equal steps: step count before the run, its steps, requests that decode and
prefill in each, prefill tokens, KV tokens read by the first step, waiting requests, blocks held."""

RUN_COLUMNS: tuple[str, ...] = RUN_DTYPE.names or ()

pack_run = Struct("<qiiiqqii").pack
"""Makes the bytes of one row of the run table (much faster than extending an array)."""

REQUEST_DTYPE = np.dtype(
    [
        ("status", "i1"),
        ("reject_reason", "i1"),
        ("num_preemptions", "<i4"),
        ("instance", "<i4"),
        ("cached_tokens", "<i4"),
        ("admitted_s", "<f8"),
        ("first_step", "<i8"),
        ("last_step", "<i8"),
    ]
)
"""One row per request; see `sim.records.RequestRecords`."""

_ROW = Struct("<bbiiidqq")
_ROW_BYTES = REQUEST_DTYPE.itemsize
_EMPTY_ROW = _ROW.pack(UNFINISHED, NOT_REJECTED, 0, -1, -1, -1.0, 0, 0)


@mypyc_attr(allow_interpreted_subclasses=True)
class RequestLog:
    """Rows over requests, written as they end.

    Args:
        num_requests: rows.
        report: called with the number of requests done, every `REPORT_EVERY` of them.

    Attributes:
        more_intervals: for preempted requests, all pairs (first, last) of steps with tokens.
        num_done: rows written.
    """

    def __init__(self, num_requests: int, report: Callable[[int], None] | None = None) -> None:
        self.more_intervals: dict[int, tuple[int, ...]] = {}
        self.num_done = 0
        self._report = report
        self._next_report = REPORT_EVERY if report is not None else num_requests + 1
        self._rows = bytearray(_EMPTY_ROW * num_requests)

    def close(self, request: Request, instance_id: int, status: int) -> None:
        """Write a request's row."""
        row, intervals = request.request_id, request.intervals
        if not intervals:
            intervals = (0, 0)
        elif len(intervals) > 2:
            self.more_intervals[row] = intervals
        _write_row(
            self._rows,
            row * _ROW_BYTES,
            status,
            NOT_REJECTED,
            request.num_preemptions,
            instance_id,
            request.cached_tokens,
            request.admitted_s,
            intervals[0],
            intervals[-1],
        )
        self.num_done += 1
        if self.num_done >= self._next_report:
            self._tell()

    def reject(self, row: int, reason: int) -> None:
        """Write the row of a request that never entered an instance."""
        _write_row(self._rows, row * _ROW_BYTES, REJECTED, reason, 0, -1, -1, -1.0, 0, 0)
        self.num_done += 1
        if self.num_done >= self._next_report:
            self._tell()

    def table(self) -> npt.NDArray[np.void]:
        """The rows, as a structured array of `REQUEST_DTYPE` that shares their memory."""
        return np.frombuffer(self._rows, dtype=REQUEST_DTYPE)

    def _tell(self) -> None:
        self._next_report = self.num_done + REPORT_EVERY
        if self._report is not None:
            self._report(self.num_done)


_write_row = _ROW.pack_into


@mypyc_attr(allow_interpreted_subclasses=True)
class RunLog:
    """What an instance did, run by run.

    Attributes:
        rows: bytes of one `RUN_DTYPE` row per run of steps.
        busy_from_step: steps done when the instance left idleness, one entry each time.
        busy_from_s: time at which it did, seconds.
    """

    __slots__ = ("busy_from_s", "busy_from_step", "rows")

    def __init__(self) -> None:
        self.rows = bytearray()
        self.busy_from_step = array("q")
        self.busy_from_s = array("d")

    def table(self) -> npt.NDArray[np.void]:
        """The rows, as a structured array that shares their memory."""
        return np.frombuffer(self.rows, dtype=RUN_DTYPE)
