"""Multi-turn conversations: every turn's prompt is the whole conversation so far.

The prompt of turn t is system prompt, user 0, output 0, ..., output t-1, user t. A follow-up
arrives an estimate of the service time plus a think time after the turn before it arrived; a slow
system does not delay it. In a closed loop it arrives the think time after that turn has ended, and
the time by the estimate is nominal.

In a steady trace the request rate is the same from its first to its last second: what would arrive
after the end is moved round to the start, as the later turns of conversations that began before the
trace did (their history is then in no cache, as on a freshly started cluster).
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from sim.errors import ConfigError
from sim.rng import stream
from sim.workload import FloatArray, IntArray
from traces.options import (
    MAX_REQUESTS,
    MAX_TIME_S,
    MAX_TOKENS,
    require_bool,
    require_int,
    require_number,
    shown,
)
from traces.schema import PromptRuns, TraceTable
from traces.synthetic.arrivals import (
    ArrivalProcess,
    Arrivals,
    ClosedLoop,
    arrival_process,
    is_at_rate,
)
from traces.synthetic.lengths import length_distribution
from traces.synthetic.popularity import MAX_SKEW, sample_zipf
from traces.synthetic.provenance import provenance_of_generator

MAX_SYSTEM_PROMPTS = 10_000_000

MAX_TURNS = 1_000
"""Most turns of a session: the trace grows with their square."""

MAX_RUNS = 100_000_000
"""Most runs over all prompts, which is what the memory grows with: 80 to 160 bytes each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionsTrace:
    """Conversations that start as an arrival process.

    Exactly one of `num_sessions` and `num_requests` is given; with the latter, the last session is
    cut so that the number of requests is exact.

    Attributes:
        rate_per_s: mean requests per second in the long run: sessions start at this rate over their
            mean turns.
        turns: distribution of turns per session, at most 1,000 (`traces.synthetic.lengths`).
        user: distribution of tokens per user message.
        output: distribution of output lengths.
        num_sessions: number of conversations.
        num_requests: number of turns over all conversations.
        think_time_s: mean of the exponential think time before a follow-up, seconds.
        service_s_per_token: estimated service time per output token, seconds.
        num_system_prompts: distinct system prompts, one per session at random.
        system_prompt_tokens: tokens of every system prompt; 0 for none.
        system_prompt_skew: Zipf exponent of their popularity; 0 is uniform.
        steady: whether conversations are under way when the trace starts; otherwise all of them
            start inside it, and the rate rises from and falls to zero over their duration. None:
            steady if the arrivals are at a rate.
        arrivals: process of the sessions' starts (`traces.synthetic.arrivals`). Kind closed_loop
            has users who take whole sessions one after the other; it needs `closed_loop`.
        closed_loop: whether a follow-up waits for the end of the turn before it.
    """

    rate_per_s: float
    turns: Mapping[str, Any]
    user: Mapping[str, Any]
    output: Mapping[str, Any]
    num_sessions: int | None = None
    num_requests: int | None = None
    think_time_s: float = 10.0
    service_s_per_token: float = 0.02
    num_system_prompts: int = 1
    system_prompt_tokens: int = 0
    system_prompt_skew: float = 0.0
    steady: bool | None = None
    arrivals: str | Mapping[str, Any] = "poisson"
    closed_loop: bool = False

    def __post_init__(self) -> None:
        if (self.num_sessions is None) == (self.num_requests is None):
            raise ConfigError(
                f"trace.num_sessions={self.num_sessions}, trace.num_requests={self.num_requests}: "
                "exactly one of them must be given"
            )
        for name in ("num_sessions", "num_requests"):
            if getattr(self, name) is not None:
                require_int(f"trace.{name}", getattr(self, name), 1, MAX_REQUESTS)
        process = arrival_process("trace.arrivals", self.arrivals, self.rate_per_s)
        length_distribution("trace.turns", self.turns, MAX_TURNS)
        for name in ("user", "output"):
            length_distribution(f"trace.{name}", getattr(self, name))
        for name in ("think_time_s", "service_s_per_token"):
            require_number(f"trace.{name}", getattr(self, name), high=MAX_TIME_S)
        require_number("trace.system_prompt_skew", self.system_prompt_skew, high=MAX_SKEW)
        require_int("trace.num_system_prompts", self.num_system_prompts, 1, MAX_SYSTEM_PROMPTS)
        require_int("trace.system_prompt_tokens", self.system_prompt_tokens, 0, MAX_TOKENS)
        require_bool("trace.closed_loop", self.closed_loop)
        if self.steady is not None:
            require_bool("trace.steady", self.steady)
        self._refuse_mismatch(process)

    def _refuse_mismatch(self, process: ArrivalProcess) -> None:
        if isinstance(process, ClosedLoop) and not self.closed_loop:
            raise ConfigError(
                "trace.closed_loop=False: must be true with trace.arrivals of kind closed_loop, "
                "whose users wait for the end of whole sessions"
            )
        if self.steady and not is_at_rate(self.arrivals):
            raise ConfigError(
                "trace.steady=True: must be false or null with trace.arrivals="
                f"{shown(self.arrivals)}, which are not at a rate"
            )

    def load(self, seed: int) -> TraceTable:
        """Generate the trace."""
        num_turns = self._num_turns(seed)
        _refuse_too_many_runs(num_turns)
        session = np.repeat(np.arange(len(num_turns)), num_turns)
        first_row = np.repeat(np.cumsum(num_turns) - num_turns, num_turns)
        n = len(session)
        turn = np.arange(n) - first_row
        user_tokens = self._sample(seed, "user", n)
        output_tokens = self._sample(seed, "output", n)
        starts = self._starts(seed, num_turns)
        think_s = stream(seed, "trace.think_time").standard_exponential(n) * self.think_time_s
        clock_s = self._clock(starts, session, first_row, output_tokens, think_s)
        arrival_s, lap = self._wrap(clock_s)
        is_first = (turn == 0) | (lap != np.append(-1, lap[:-1]))
        said = np.append(0, np.cumsum(user_tokens + output_tokens))
        history_tokens = said[:-1] - said[first_row]
        is_last = np.append(is_first[1:], True)
        output_run = self.num_system_prompts + 2 * np.arange(n) + 1 + lap * self._num_ids(n)
        before = np.where(is_first, -1, np.arange(n) - 1)
        table = TraceTable(
            arrival_s=arrival_s,
            prompt_tokens=self.system_prompt_tokens + history_tokens + user_tokens,
            output_tokens=output_tokens,
            output_run=np.where(is_last, -1, output_run),
            session_id=np.cumsum(is_first) - 1,
            turn=turn,
            parent_id=before,
            after=before if self.closed_loop else None,
            delay_s=_delays(starts, session, is_first, think_s) if self.closed_loop else None,
            concurrency=starts.concurrency,
            provenance=provenance_of_generator("sessions", seed, n, asdict(self)),
        )
        runs = self._runs(seed, session, turn, lap, user_tokens, output_tokens)
        order = np.argsort(arrival_s, kind="stable")
        return replace(table, runs=runs).take(order)

    def _sample(self, seed: int, name: str, size: int) -> IntArray:
        distribution = length_distribution(f"trace.{name}", getattr(self, name))
        return distribution.sample(stream(seed, f"trace.{name}_tokens"), size)

    def _num_turns(self, seed: int) -> IntArray:
        """Turns of each session. Shape (sessions,)."""
        distribution = length_distribution("trace.turns", self.turns, MAX_TURNS)
        rng = stream(seed, "trace.turns")
        if self.num_sessions is not None:
            return distribution.sample(rng, self.num_sessions)
        assert self.num_requests is not None
        turns = distribution.sample(rng, self.num_requests)
        total = np.cumsum(turns)
        num_sessions = int(np.searchsorted(total, self.num_requests)) + 1
        turns = turns[:num_sessions]
        turns[-1] -= total[num_sessions - 1] - self.num_requests
        return turns

    def _starts(self, seed: int, num_turns: IntArray) -> Arrivals:
        """Arrivals of the sessions."""
        session_rate_per_s = self.rate_per_s / float(num_turns.mean())
        process = arrival_process("trace.arrivals", self.arrivals, session_rate_per_s)
        return process.sample(seed, len(num_turns))

    def _clock(
        self,
        starts: Arrivals,
        session: IntArray,
        first_row: IntArray,
        output_tokens: IntArray,
        think_s: FloatArray,
    ) -> FloatArray:
        """Times of the turns, by the estimated service times. Shape (n,)."""
        after_s = np.append(0.0, output_tokens[:-1] * self.service_s_per_token) + think_s
        clock_s = np.cumsum(after_s)
        arrival_s: FloatArray = starts.arrival_s[session] + (clock_s - clock_s[first_row])
        return arrival_s

    def _wrap(self, clock_s: FloatArray) -> tuple[FloatArray, IntArray]:
        """Arrival times, and how often each was moved round to the start. Shape (n,) each."""
        is_steady = is_at_rate(self.arrivals) if self.steady is None else self.steady
        if not is_steady:
            return clock_s, np.zeros(len(clock_s), dtype=np.int64)
        length_s = len(clock_s) / self.rate_per_s
        lap = np.floor(clock_s / length_s)
        arrival_s: FloatArray = np.clip(clock_s - lap * length_s, 0.0, length_s)
        return arrival_s, lap.astype(np.int64)

    def _num_ids(self, num_requests: int) -> int:
        """Run ids in use by the turns that were not moved; those of each lap follow."""
        return self.num_system_prompts + 2 * num_requests

    def _runs(
        self,
        seed: int,
        session: IntArray,
        turn: IntArray,
        lap: IntArray,
        user_tokens: IntArray,
        output_tokens: IntArray,
    ) -> PromptRuns:
        """Runs in session order: system prompts first, then user and output of each row."""
        num_systems = self.num_system_prompts
        rng = stream(seed, "trace.system_prompts")
        num_sessions = int(session[-1]) + 1
        system = sample_zipf(rng, num_systems, self.system_prompt_skew, num_sessions)[session]
        has_system = int(self.system_prompt_tokens > 0)
        counts = 2 * turn + 1 + has_system
        offsets = np.append(0, np.cumsum(counts))
        position = np.arange(offsets[-1]) - np.repeat(offsets[:-1], counts)
        first_id = num_systems + 2 * (np.arange(len(turn)) - turn)
        ids = np.repeat(first_id - has_system, counts) + position
        of_lap = np.repeat(lap * self._num_ids(len(turn)), counts)
        if has_system:
            ids[offsets[:-1]] = system
            of_lap[offsets[:-1]] = 0
        system_tokens = np.full(num_systems, self.system_prompt_tokens, dtype=np.int64)
        said_tokens = np.stack((user_tokens, output_tokens), axis=1).ravel()
        tokens = np.concatenate((system_tokens, said_tokens))[ids]
        return PromptRuns(ids=ids + of_lap, offsets=offsets, tokens=tokens)


def _delays(
    starts: Arrivals, session: IntArray, is_first: npt.NDArray[np.bool_], think_s: FloatArray
) -> FloatArray:
    """Think times of follow-ups, and of users before they take a session. Shape (n,)."""
    before_session_s = 0.0 if starts.delay_s is None else starts.delay_s[session]
    delay_s: FloatArray = np.where(is_first, before_session_s, think_s)
    return delay_s


def _refuse_too_many_runs(num_turns: IntArray) -> None:
    num_runs = float(np.square(num_turns, dtype=np.float64).sum())
    if num_runs > MAX_RUNS:
        raise ConfigError(
            f"trace.turns: {len(num_turns):,} sessions of {num_turns.mean():.4g} turns on average "
            f"repeat {num_runs:,.0f} messages in their prompts, allowed: {MAX_RUNS:,}; "
            "give fewer turns, trace.num_sessions or trace.num_requests"
        )
