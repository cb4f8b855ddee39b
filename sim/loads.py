"""Load counters of all instances, and what routers see of them: live, published or delayed."""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

KvTokensAt = Callable[[int, float], int]
"""(instance id, time in seconds) -> KV tokens held, by formula inside the current run."""


class Loads:
    """Counters per instance, changed where the change happens; the live view of a router.

    Attributes:
        num_running: running requests.
        num_waiting: waiting requests.
        num_requests: both.
        queued_prefill_tokens: tokens still to be prefilled.
    """

    version = 0
    is_live = True

    def __init__(self, num_instances: int) -> None:
        self.num_instances = num_instances
        self.num_running = [0] * num_instances
        self.num_waiting = [0] * num_instances
        self.num_requests = [0] * num_instances
        self.queued_prefill_tokens = [0] * num_instances
        self.now_s = 0.0
        self.kv_tokens_at: KvTokensAt = lambda _instance, _time_s: 0

    def kv_tokens(self) -> Sequence[int]:
        """KV tokens that the running requests hold, brought to now."""
        return [self.kv_tokens_at(i, self.now_s) for i in range(self.num_instances)]


class StaleView(Protocol):
    """A view that must be told of changes, because it shows an older state."""

    def before_change(self, now_s: float) -> None:
        """Counters of some instance are about to change at `now_s`."""

    def after_change(self, instance_id: int, now_s: float) -> None:
        """Counters of an instance have changed at `now_s`."""

    def refresh(self, now_s: float) -> None:
        """Bring the view to what a router sees at `now_s`."""


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
        self._kv_tokens = [0] * loads.num_instances
        self.version = 0

    def kv_tokens(self) -> Sequence[int]:
        """KV tokens at the time of the snapshot."""
        return self._kv_tokens


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
        self.num_requests = loads.num_requests.copy()
        self.queued_prefill_tokens = loads.queued_prefill_tokens.copy()
        at_s = index * self._period_s
        self._kv_tokens = [loads.kv_tokens_at(i, at_s) for i in range(self.num_instances)]
        self.version += 1


class DelayedView(_Snapshot):
    """Counters as they were a fixed time ago (reports that travel).

    KV tokens are those of the last reported change; their growth since then is not seen.

    Args:
        loads: the live counters.
        delay_s: age of what the router sees, seconds.
    """

    def __init__(self, loads: Loads, delay_s: float) -> None:
        super().__init__(loads)
        self._delay_s = delay_s
        self._reported = [(0, 0, 0)] * loads.num_instances
        self._reports: deque[tuple[float, int, int, int, int, int]] = deque()

    def before_change(self, now_s: float) -> None:
        """Nothing to do."""

    def after_change(self, instance_id: int, now_s: float) -> None:
        """Send a report of the instance's counters if they differ from the last one."""
        loads = self._loads
        counters = (
            loads.num_running[instance_id],
            loads.num_waiting[instance_id],
            loads.queued_prefill_tokens[instance_id],
        )
        if counters == self._reported[instance_id]:
            return
        self._reported[instance_id] = counters
        kv_tokens = loads.kv_tokens_at(instance_id, now_s)
        self._reports.append((now_s, instance_id, *counters, kv_tokens))

    def refresh(self, now_s: float) -> None:
        """Apply the reports that have arrived by `now_s`."""
        limit_s = now_s - self._delay_s
        while self._reports and self._reports[0][0] <= limit_s:
            _, i, running, waiting, queued, kv_tokens = self._reports.popleft()
            self.num_running[i] = running
            self.num_waiting[i] = waiting
            self.num_requests[i] = running + waiting
            self.queued_prefill_tokens[i] = queued
            self._kv_tokens[i] = kv_tokens
            self.version += 1
