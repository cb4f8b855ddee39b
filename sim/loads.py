"""Load counters of all instances, and what routers see of them: live, published or delayed."""

from collections import deque
from collections.abc import Callable, MutableSequence, Sequence
from heapq import heappop, heappush, heapreplace
from math import inf
from typing import TYPE_CHECKING, Protocol

from mypy_extensions import mypyc_attr

from sim.load_arrays import MIN_INSTANCES, LoadArrays, SparseMatch
from sim.request import Request

if TYPE_CHECKING:
    from sim.instance_state import InstanceState
    from sim.prefix_index_log import ReportedFeed

KvTokensAt = Callable[[int, float], int]
"""(instance id, time in seconds) -> KV tokens held, by formula inside the current run."""

KvUsageAt = Callable[[int, float], float]
"""(instance id, time in seconds) -> share of the KV blocks that running requests hold, 0 to 1."""

MatchPrefixes = Callable[[Request], list[int]]
"""request -> its leading tokens in the cache of each instance."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Loads:
    """Counters per instance, changed where the change happens; the live view of a router.

    Attributes:
        num_running: running requests.
        num_waiting: waiting requests.
        num_requests: both.
        prefill_tokens: tokens still to be prefilled, for whoever changes them; of a run of chunks
            under way those that have not been counted yet are in it.
        queued_hit_tokens: tokens of waiting prompts that their router found in the cache when it
            sent them; kept where a router matches prefixes, else 0.
        match: matches a request against the caches.
        match_sparsely: the same, told in short; None where that is not known.
    """

    version = 0
    is_live = True

    def __init__(self, num_instances: int) -> None:
        self.num_instances = num_instances
        self.num_running = [0] * num_instances
        self.num_waiting = [0] * num_instances
        # Not `list`: those that are watched have a `__setitem__` of their own.
        self.num_requests: MutableSequence[int] = [0] * num_instances
        self.prefill_tokens: MutableSequence[int] = [0] * num_instances
        self.queued_hit_tokens = [0] * num_instances
        self.now_s = 0.0
        # (time after which the next chunk is planned, instance id, instance), one per instance.
        self._chunk_runs: list[tuple[float, int, InstanceState]] = []
        self._has_chunk_run = [False] * num_instances
        self.kv_tokens_at: KvTokensAt = lambda _instance, _time_s: 0
        self.kv_usage_at: KvUsageAt | None = None
        self.match: MatchPrefixes = lambda _request: [0] * num_instances
        self.match_sparsely: Callable[[Request], SparseMatch] | None = None
        self._arrays: LoadArrays | None = None

    @property
    def queued_prefill_tokens(self) -> MutableSequence[int]:
        """Tokens still to be prefilled, brought to now."""
        if self._chunk_runs:
            self._count_chunks()
        return self.prefill_tokens

    def note_chunk_run(self, instance: "InstanceState", planned_s: float) -> None:
        """An instance runs chunk after chunk of a prompt, the second one planned at `planned_s`."""
        i = instance.instance_id
        if not self._has_chunk_run[i]:  # else the run before is looked up, and this one found
            self._has_chunk_run[i] = True
            heappush(self._chunk_runs, (planned_s, i, instance))

    def _count_chunks(self) -> None:
        """Take the chunks that have been planned by now off the queued tokens."""
        runs = self._chunk_runs
        now_s = runs[0][2].look_s()
        while runs and runs[0][0] < now_s:
            _, i, instance = runs[0]
            planned_s = instance.count_chunks()
            if planned_s < inf:
                heapreplace(runs, (planned_s, i, instance))
            else:
                heappop(runs)
                self._has_chunk_run[i] = False

    def kv_tokens(self) -> Sequence[int]:
        """KV tokens that the running requests hold, brought to now."""
        return [self.kv_tokens_at(i, self.now_s) for i in range(self.num_instances)]

    def kv_usage(self) -> Sequence[float]:
        """Share of the KV blocks that the running requests hold, brought to now."""
        usage_at, time_s = self.kv_usage_at, self.now_s
        if usage_at is None:
            return [0.0] * self.num_instances
        return [usage_at(i, time_s) for i in range(self.num_instances)]

    def matched_tokens(self, request: Request) -> Sequence[int]:
        """Leading tokens of a request in the cache of each instance now."""
        return self.match(request)

    def load_arrays(self) -> LoadArrays | None:
        """The counters as arrays, brought to now; None where lists are as good."""
        arrays = self._arrays
        if arrays is None:
            if self.num_instances < MIN_INSTANCES or self.match_sparsely is None:
                return None
            arrays = self._arrays = LoadArrays(self.num_instances, self.match_sparsely)
            self.num_requests = arrays.watched(self.num_requests)
            # Hits need not be followed: they change when a request is sent or admitted, and then
            # the prefill tokens of that instance do so too.
            self.prefill_tokens = arrays.watched(self.prefill_tokens)
        queued = self.queued_prefill_tokens
        arrays.refresh(self.num_requests, queued, self.queued_hit_tokens)
        return arrays


class StaleView(Protocol):
    """A view that must be told of changes, because it shows an older state."""

    def before_change(self, now_s: float) -> None:
        """Counters of some instance are about to change at `now_s`."""

    def after_change(self, instance_id: int, now_s: float) -> None:
        """Counters of an instance have changed at `now_s`."""

    def refresh(self, now_s: float) -> None:
        """Bring the view to what a router sees at `now_s`."""


@mypyc_attr(allow_interpreted_subclasses=True)
class _Snapshot:
    """Copied counters; shared part of the stale views."""

    is_live = False

    def __init__(self, loads: Loads) -> None:
        self._loads = loads
        self.num_instances = loads.num_instances
        self.num_running = [0] * loads.num_instances
        self.num_waiting = [0] * loads.num_instances
        self.num_requests = [0] * loads.num_instances
        self.queued_prefill_tokens = [0] * loads.num_instances
        self.queued_hit_tokens = [0] * loads.num_instances
        self._kv_tokens = [0] * loads.num_instances
        self._kv_usage = [0.0] * loads.num_instances
        self.version = 0
        self.prefixes: ReportedFeed | None = None

    def kv_tokens(self) -> Sequence[int]:
        """KV tokens at the time of the snapshot."""
        return self._kv_tokens

    def kv_usage(self) -> Sequence[float]:
        """Share of the KV blocks held at the time of the snapshot."""
        return self._kv_usage

    def matched_tokens(self, request: Request) -> Sequence[int]:
        """Leading tokens of a request in the caches as of the snapshot."""
        return self._loads.match(request)

    def load_arrays(self) -> None:
        """A snapshot is copied whole, so it has no arrays."""

    def assume(self, instance_id: int, prompt_tokens: int, hit_tokens: int, now_s: float) -> None:
        """Count a request that the router has just sent, until a newer state tells of it.

        Args:
            instance_id: where it was sent.
            prompt_tokens: its prompt.
            hit_tokens: what of it was found cached there.
            now_s: when, seconds.
        """
        self.num_waiting[instance_id] += 1
        self.num_requests[instance_id] += 1
        self.queued_prefill_tokens[instance_id] += prompt_tokens
        self.queued_hit_tokens[instance_id] += hit_tokens


@mypyc_attr(allow_interpreted_subclasses=True)
class PublishedView(_Snapshot):
    """Counters as of the last multiple of a period (a coordinator that publishes them).

    Snapshots are taken when something changes after a publishing instant, or when somebody looks:
    no event is spent on them. A change exactly at a publishing instant is not yet in it.

    Args:
        loads: the live counters.
        period_s: time between two publications, seconds.
    """

    def __init__(self, loads: Loads, period_s: float) -> None:
        super().__init__(loads)
        self._period_s = period_s
        self._published = 0

    def before_change(self, now_s: float) -> None:
        """Take the snapshot of the latest publishing instant before the counters change."""
        if self.prefixes is not None:
            self.prefixes.advance(now_s)
        self.refresh(now_s)

    def after_change(self, instance_id: int, now_s: float) -> None:
        """Nothing to do."""

    def refresh(self, now_s: float) -> None:
        """Bring the view to the latest publishing instant at or before `now_s`."""
        index = int(now_s // self._period_s)
        if index <= self._published:
            return
        self._published = index
        loads = self._loads
        self.num_running = loads.num_running.copy()
        self.num_waiting = loads.num_waiting.copy()
        self.num_requests = list(loads.num_requests)
        self.queued_prefill_tokens = list(loads.queued_prefill_tokens)
        self.queued_hit_tokens = loads.queued_hit_tokens.copy()
        at_s = index * self._period_s
        self._kv_tokens = [loads.kv_tokens_at(i, at_s) for i in range(self.num_instances)]
        if loads.kv_usage_at is not None:
            self._kv_usage = [loads.kv_usage_at(i, at_s) for i in range(self.num_instances)]
        if self.prefixes is not None:
            self.prefixes.advance(now_s)
            self.prefixes.apply_before(at_s)
        self.version += 1


@mypyc_attr(allow_interpreted_subclasses=True)
class DelayedView(_Snapshot):
    """Counters as they were a fixed time ago (reports that travel).

    KV tokens and usage are those of the last reported change; their growth since then is not seen.

    Args:
        loads: the live counters.
        delay_s: age of what the router sees, seconds.
    """

    def __init__(self, loads: Loads, delay_s: float) -> None:
        super().__init__(loads)
        self._delay_s = delay_s
        self._reported = [(0, 0, 0, 0)] * loads.num_instances
        self._reports: deque[tuple[float, int, tuple[int, int, int, int], int, float]] = deque()
        self._assumed: dict[int, deque[tuple[float, int, int]]] = {}

    def before_change(self, now_s: float) -> None:
        """Send what has happened to the caches; of the counters nothing."""
        if self.prefixes is not None:
            self.prefixes.advance(now_s)

    def after_change(self, instance_id: int, now_s: float) -> None:
        """Send a report of the instance's counters if they differ from the last one."""
        loads = self._loads
        counters = (
            loads.num_running[instance_id],
            loads.num_waiting[instance_id],
            loads.queued_prefill_tokens[instance_id],
            loads.queued_hit_tokens[instance_id],
        )
        if counters == self._reported[instance_id]:
            return
        self._reported[instance_id] = counters
        kv_tokens = loads.kv_tokens_at(instance_id, now_s)
        usage_at = loads.kv_usage_at
        kv_usage = usage_at(instance_id, now_s) if usage_at is not None else 0.0
        self._reports.append((now_s, instance_id, counters, kv_tokens, kv_usage))

    def refresh(self, now_s: float) -> None:
        """Apply the reports that have arrived by `now_s`."""
        limit_s = now_s - self._delay_s
        if self.prefixes is not None:
            self.prefixes.advance(now_s)
            self.prefixes.apply_until(limit_s)
        while self._reports and self._reports[0][0] <= limit_s:
            sent_s, i, counters, kv_tokens, kv_usage = self._reports.popleft()
            running, waiting, self.queued_prefill_tokens[i], self.queued_hit_tokens[i] = counters
            self.num_running[i] = running
            self.num_waiting[i] = waiting
            self.num_requests[i] = running + waiting
            self._kv_tokens[i] = kv_tokens
            self._kv_usage[i] = kv_usage
            self.version += 1
            if self._assumed:
                self._assume_again(i, sent_s)

    def assume(self, instance_id: int, prompt_tokens: int, hit_tokens: int, now_s: float) -> None:
        """Count a request that the router has just sent, until a report of that time arrives."""
        super().assume(instance_id, prompt_tokens, hit_tokens, now_s)
        sent = self._assumed.setdefault(instance_id, deque())
        sent.append((now_s, prompt_tokens, hit_tokens))

    def _assume_again(self, instance_id: int, reported_s: float) -> None:
        """Add what was sent after the time of a report, which has replaced the counters."""
        sent = self._assumed.get(instance_id)
        while sent and sent[0][0] <= reported_s:
            sent.popleft()
        for _, prompt_tokens, hit_tokens in sent or ():
            super().assume(instance_id, prompt_tokens, hit_tokens, reported_s)
