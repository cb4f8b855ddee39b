"""Collects what happens, in compact columns, while the simulation runs.

Per request a few numbers at its end; per run of steps one row; step ends in one array per instance.
Everything a user reads (`sim.records`, `sim.metrics`) is derived from these afterwards.
"""

from array import array
from collections.abc import Callable
from struct import Struct

from sim.request import Request

UNFINISHED, COMPLETED, REJECTED = range(3)
"""Status codes of a request."""

NOT_REJECTED, OVER_CAPACITY, REFUSED, OVER_MODEL_LEN = range(4)
"""Why a request was rejected: it can never fit the KV cache, the admission policy refused it, or
its prompt exceeds `max_model_len`."""

REPORT_EVERY = 512
"""Requests between two progress reports."""

RUN_COLUMNS = (
    "first_step",
    "num_steps",
    "num_decodes",
    "num_prefills",
    "prefill_tokens",
    "context_tokens",
    "num_waiting",
    "used_blocks",
)
"""Columns of the run table: step count before the run, its steps, requests that decode and prefill
in each, prefill tokens, KV tokens read by the first step, waiting requests, blocks held."""


class RequestLog:
    """Columns over requests, filled as they end.

    Args:
        num_requests: rows.
        report: called with the number of requests done, every `REPORT_EVERY` of them.
    """

    def __init__(self, num_requests: int, report: Callable[[int], None] | None = None) -> None:
        self._report = report
        self._next_report = REPORT_EVERY if report is not None else num_requests + 1
        self.status = array("b", bytes(num_requests))
        self.reject_reason = array("b", bytes(num_requests))
        self.instance = array("i", [-1]) * num_requests
        self.cached_tokens = array("i", [-1]) * num_requests
        self.num_preemptions = array("i", [0]) * num_requests
        self.admitted_s = array("d", [-1.0]) * num_requests
        self.first_step = array("q", [0]) * num_requests
        self.last_step = array("q", [0]) * num_requests
        self.more_intervals: dict[int, tuple[int, ...]] = {}
        self.num_done = 0

    def close(self, request: Request, instance_id: int, status: int) -> None:
        """Write a request's row."""
        row = request.request_id
        self.status[row] = status
        self.instance[row] = instance_id
        self.cached_tokens[row] = request.cached_tokens
        self.num_preemptions[row] = request.num_preemptions
        self.admitted_s[row] = request.admitted_s
        intervals = request.intervals
        if intervals:
            self.first_step[row] = intervals[0]
            self.last_step[row] = intervals[-1]
            if len(intervals) > 2:
                self.more_intervals[row] = intervals
        self.num_done += 1
        if self.num_done >= self._next_report:
            self._tell()

    def _tell(self) -> None:
        self._next_report = self.num_done + REPORT_EVERY
        if self._report is not None:
            self._report(self.num_done)

    def reject(self, row: int, reason: int) -> None:
        """Write the row of a request that never entered an instance."""
        self.status[row] = REJECTED
        self.reject_reason[row] = reason
        self.num_done += 1
        if self.num_done >= self._next_report:
            self._tell()


pack_run = Struct(f"{len(RUN_COLUMNS)}q").pack
"""Makes the bytes of one row of the run table (much faster than extending an array)."""


class RunLog:
    """What an instance did, run by run.

    Attributes:
        rows: one row per run of steps, columns as in `RUN_COLUMNS`, flat.
        busy_from_step: steps done when the instance left idleness, one entry each time.
        busy_from_s: time at which it did, seconds.
    """

    __slots__ = ("busy_from_s", "busy_from_step", "rows")

    def __init__(self) -> None:
        self.rows = array("q")
        self.busy_from_step = array("q")
        self.busy_from_s = array("d")
