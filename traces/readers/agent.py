"""Agent sessions: JSON lines of LLM calls, one session after the other.

A row is `{"agent": name, "session_id": name, "call": number, "timestamp": ms from the start of its
own session, "input_length": tokens, "output_length": tokens, "hash_ids": [one per started block]}`.
Calls of a session follow one another, from number 0 up; numbers may be missing.

The file does not say when sessions start: either they arrive as a Poisson process, or a fixed
number of users take them in order, each the next one when its last one has ended.

The time from one call to the next in the file holds the service of the first one, on the system on
which the trace was taken. In a closed loop a call arrives when the one before it has ended here,
after that time less an estimate of that service (output tokens x `service_s_per_token`), or at once
where the estimate is the longer one.

Token counts of the public files are estimates (characters / 4, in blocks of 64 characters), so that
no output can be placed in the next prompt: only what prompts share is found in a cache.

Source: lmcache-agent-trace of the LMCache project. Of its 1,497 gaps between calls 4 % are shorter
than 7 ms per output token of the call before, 10 % shorter than 7.7 ms, half shorter than 12 ms.
"""

import heapq
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from sim.errors import ConfigError
from sim.workload import FloatArray
from traces.options import (
    MAX_TIME_S,
    MAX_TOKENS,
    require_bool,
    require_int,
    require_number,
    require_path,
    require_rate,
    shown,
)
from traces.readers.agent_calls import KEYS, AgentCalls
from traces.readers.json_lines import JsonLines
from traces.readers.reading import Reading
from traces.readers.source_file import provenance_of_file
from traces.schema import TraceTable
from traces.synthetic.arrivals import poisson_arrivals

MAX_CONCURRENCY = 1_000_000
DEFAULT_SESSION_RATE_PER_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentTrace:
    """A file of agent sessions.

    At most one of `session_rate_per_s` and `concurrency` is given.

    Attributes:
        path: the JSON lines file, plain, gzip or zstd.
        session_rate_per_s: sessions that start per second, a Poisson process; null without
            `concurrency`: 0.1.
        concurrency: users who take the sessions in order of the file; needs a closed loop.
        closed_loop: whether a call waits for the end of the one before it; otherwise calls arrive
            at the recorded times after the start of their session.
        service_s_per_token: time per output token that a recorded gap is taken to hold, seconds.
        block_tokens: prompt tokens per hash id.
    """

    path: str | Path
    session_rate_per_s: float | None = None
    concurrency: int | None = None
    closed_loop: bool = True
    service_s_per_token: float = 0.007
    block_tokens: int = 16

    def __post_init__(self) -> None:
        require_path("trace.path", self.path)
        if self.session_rate_per_s is not None and self.concurrency is not None:
            raise ConfigError(
                f"trace.session_rate_per_s={shown(self.session_rate_per_s)}, "
                f"trace.concurrency={shown(self.concurrency)}: sessions start at a rate or with "
                "users; leave one of them out, such as trace.session_rate_per_s=null"
            )
        if self.session_rate_per_s is not None:
            require_rate("trace.session_rate_per_s", self.session_rate_per_s)
        if self.concurrency is not None:
            require_int("trace.concurrency", self.concurrency, 1, MAX_CONCURRENCY)
        if not require_bool("trace.closed_loop", self.closed_loop) and self.concurrency is not None:
            raise ConfigError(
                f"trace.concurrency={self.concurrency}: must be null where trace.closed_loop=false"
            )
        require_number("trace.service_s_per_token", self.service_s_per_token, high=MAX_TIME_S)
        require_int("trace.block_tokens", self.block_tokens, 1, MAX_TOKENS)

    def load(self, seed: int) -> TraceTable:
        """Read the file; sessions start at times drawn with `seed`."""
        return self.read(Reading(self.path), seed)

    def read(self, reading: Reading, seed: int = 0) -> TraceTable:
        """Read the file in one pass; sessions start at times drawn with `seed`."""
        file, calls = JsonLines(reading, KEYS), AgentCalls(self.block_tokens)
        for line, row in file.rows():
            for bad in calls.add(line, row):
                reading.fault(line, *bad)
        first, length = calls.sessions()
        recorded_s = calls.recorded_s()
        service_s = calls.prompts.output_tokens * self.service_s_per_token
        last = first + length - 1
        start_s = self._starts(seed, recorded_s[last] + service_s[last])
        table = calls.table(np.repeat(start_s, length) + recorded_s)
        table = replace(table, provenance=self._provenance(file.sha256, len(recorded_s), seed))
        if self.closed_loop:
            is_first = np.zeros(len(recorded_s), dtype=np.bool_)
            is_first[first] = True
            gap_s = np.diff(recorded_s, prepend=0.0) - np.append(0.0, service_s)[:-1]
            table = replace(
                table,
                after=np.where(is_first, -1, np.arange(len(recorded_s)) - 1),
                delay_s=np.where(is_first, 0.0, np.maximum(gap_s, 0.0)),
                concurrency=self.concurrency,
            )
        return table.take(np.argsort(table.arrival_s, kind="stable"))

    def _starts(self, seed: int, duration_s: FloatArray) -> FloatArray:
        """Start of each session; with `concurrency` if every one takes its `duration_s`."""
        rate_per_s = self._rate_per_s
        if rate_per_s is not None:
            return poisson_arrivals(seed, len(duration_s), rate_per_s)
        assert self.concurrency is not None
        free_s = [0.0] * min(self.concurrency, len(duration_s))
        return np.array([_next_start(free_s, length_s) for length_s in duration_s.tolist()])

    @property
    def _rate_per_s(self) -> float | None:
        """Sessions that start per second; None with users who take them."""
        if self.concurrency is None and self.session_rate_per_s is None:
            return DEFAULT_SESSION_RATE_PER_S
        return self.session_rate_per_s

    def _provenance(self, sha256: str, num_rows: int, seed: int) -> dict[str, Any]:
        options = {k: v for k, v in asdict(self).items() if k != "path"}
        options["session_rate_per_s"] = self._rate_per_s
        return {**provenance_of_file("agent", sha256, num_rows, options), "seed": seed}


def _next_start(free_s: list[float], duration_s: float) -> float:
    """When the next session starts; its user is busy until it ends."""
    start_s = free_s[0]
    heapq.heapreplace(free_s, start_s + duration_s)
    return start_s
