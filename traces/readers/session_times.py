"""When the turns of conversations arrive that were recorded without times."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sim.errors import ConfigError
from sim.rng import stream
from sim.workload import FloatArray, IntArray
from traces.options import MAX_TIME_S, require_bool, require_number
from traces.schema import TraceTable
from traces.synthetic.arrivals import ClosedLoop, arrival_process


@dataclass(frozen=True, slots=True)
class SessionTimes:
    """The options that say when turns arrive.

    A first turn arrives with its conversation. A follow-up arrives a think time after the turn
    before it has ended: by an estimate of the service time, or in a closed loop truly so.

    Attributes:
        rate_per_s: mean requests per second: conversations start at this rate over their mean
            turns.
        arrivals: process of the conversations' starts (`traces.synthetic.arrivals`).
        think_time_s: mean of the exponential think time, seconds.
        service_s_per_token: estimated service time per output token, seconds.
        closed_loop: whether a follow-up waits for the end of the turn before it.

    Raises:
        ConfigError: one is out of range or does not fit another.
    """

    rate_per_s: float | None
    arrivals: str | Mapping[str, Any]
    think_time_s: float
    service_s_per_token: float
    closed_loop: bool

    def __post_init__(self) -> None:
        process = arrival_process("trace.arrivals", self.arrivals, self.rate_per_s)
        for name in ("think_time_s", "service_s_per_token"):
            require_number(f"trace.{name}", getattr(self, name), high=MAX_TIME_S)
        require_bool("trace.closed_loop", self.closed_loop)
        if isinstance(process, ClosedLoop) and not self.closed_loop:
            raise ConfigError(
                "trace.closed_loop=False: must be true with trace.arrivals of kind closed_loop"
            )

    def columns(self, seed: int, num_turns: IntArray, output_tokens: IntArray) -> dict[str, Any]:
        """Columns of `TraceTable` that say when rows arrive, conversations one after the other.

        Args:
            seed: the run's seed.
            num_turns: turns of each conversation, at least 1. Shape (s,).
            output_tokens: of all turns. Shape (n,).
        """
        n, session = len(output_tokens), np.repeat(np.arange(len(num_turns)), num_turns)
        first_row = np.repeat(np.cumsum(num_turns) - num_turns, num_turns)
        rate_per_s = self.rate_per_s
        if rate_per_s is not None and n:
            rate_per_s /= n / len(num_turns)
        process = arrival_process("trace.arrivals", self.arrivals, rate_per_s)
        starts = process.sample(seed, len(num_turns))
        think_s = stream(seed, "trace.think_time").standard_exponential(n) * self.think_time_s
        service_s = output_tokens * self.service_s_per_token
        clock_s = np.cumsum(np.append(0.0, service_s)[:-1] + think_s) if n else np.empty(0)
        arrival_s: FloatArray = starts.arrival_s[session] + (clock_s - clock_s[first_row])
        columns: dict[str, Any] = {"arrival_s": arrival_s, "concurrency": starts.concurrency}
        if self.closed_loop:
            is_first = first_row == np.arange(n)
            before_s = 0.0 if starts.delay_s is None else starts.delay_s[session]
            columns["after"] = np.where(is_first, -1, np.arange(n) - 1)
            columns["delay_s"] = np.where(is_first, before_s, think_s)
        return columns


def in_order(table: TraceTable) -> TraceTable:
    """`table` in order of arrival, turns of a conversation in their order."""
    return table.take(np.argsort(table.arrival_s, kind="stable"))
