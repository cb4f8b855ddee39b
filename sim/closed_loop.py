"""Arrivals that depend on when other requests end: follow-ups, and users who wait for answers.

A request that arrives later than the event that released it is an arrival like any other. One that
is released in the instant of its arrival comes after the step ends of that instant, with all others
of its kind, in order of their rows: whichever instance ended its step first then does not matter.

With a front end a request has ended when its last token is delivered, and what that releases passes
the way in again.
"""

from collections import deque
from collections.abc import Callable, Iterator
from heapq import heappop, heappush

import numpy as np

from sim.arrivals import request_at
from sim.cluster import Cluster
from sim.followers import Followers, Trees
from sim.front_end import WayIn
from sim.front_end_output import CountedInstance, WayOut
from sim.recorder import COMPLETED, RequestLog
from sim.request import Request
from sim.step_clock import ARRIVAL, FOLLOW_UP, StepClock
from sim.workload import FloatArray, Workload


class EndLog(RequestLog):
    """A request log that tells the closed loop of every end.

    Attributes:
        on_end: called with the row of a request whose last token is out, its instance and its last
            step there (from 1); -1 and 0 if it was rejected.
    """

    on_end: Callable[[int, int, int], None]

    def close(self, request: Request, instance_id: int, status: int) -> None:
        """Write a request's row."""
        super().close(request, instance_id, status)
        if status == COMPLETED:
            self.on_end(request.request_id, instance_id, request.intervals[-1])

    def reject(self, row: int, reason: int) -> None:
        """Write the row of a request that never entered an instance."""
        super().reject(row, reason)
        self.on_end(row, -1, 0)


class ClosedLoop:
    """Feeds a cluster with the requests of a workload whose arrivals depend on ends.

    Args:
        workload: the columns.
        clock: simulated time, at its start.
        cluster: receives the requests.
        log: tells of ends.

    Attributes:
        arrival_s: time at which each request arrived, NaN before. Shape (n,).
        entry_s: time at which it came to the router; the same without a front end. Shape (n,).
    """

    def __init__(self, workload: Workload, clock: StepClock, cluster: Cluster, log: EndLog) -> None:
        self.arrival_s: FloatArray = np.full(workload.num_requests, np.nan)
        self._workload = workload
        self._clock = clock
        self._cluster = cluster
        self.entry_s = self.arrival_s
        self._pending: list[tuple[float, int]] = []
        self._entering: deque[int] = deque()
        self._delivering: list[tuple[float, int]] = []
        self._way_in: WayIn | None = None
        self._way_out: WayOut | None = None
        front_end = cluster.spec.front_end
        if front_end is not None:
            self.entry_s = self.arrival_s.copy()
            self._way_in = WayIn(front_end)
            counted = [one for one in cluster.instances if isinstance(one, CountedInstance)]
            assert len(counted) == len(cluster.instances)
            self._way_out = WayOut(counted, front_end.output_token_s)
        after = workload.after
        has_followers = after is not None and bool((after >= 0).any())
        self._followers = Followers(after) if after is not None and has_followers else None
        has_trees = has_followers and workload.concurrency is not None
        self._trees = Trees(after) if after is not None and has_trees else None
        roots = np.arange(workload.num_requests) if after is None else np.flatnonzero(after < 0)
        num_timed = len(roots) if workload.concurrency is None else workload.concurrency
        self._timed_roots: Iterator[int] = iter(roots[:num_timed].data)
        self._awaiting_user: Iterator[int] = iter(roots[num_timed:].data)
        self._next_root = -1
        log.on_end = self._on_end
        self._expect_next_root()

    def _expect_next_root(self) -> None:
        """Roots with a time of their own come in order, so one of them is pending at a time."""
        self._next_root = row = next(self._timed_roots, -1)
        if row >= 0:
            self._expect(row, self._workload.arrival_s.item(row), ARRIVAL)

    def _expect(self, row: int, time_s: float, order: int) -> None:
        heappush(self._pending, (time_s, row))
        receiver = self._on_arrival if order == ARRIVAL else self._on_follow_up
        self._clock.call_at(time_s, order, receiver)

    def _on_end(self, row: int, instance_id: int, last_step: int) -> None:
        """A request has left the engine, or was rejected: its user may learn of it later."""
        if self._way_out is not None and instance_id >= 0:
            now_s = self._clock.now
            delivered_s = self._way_out.delivered_s(instance_id, last_step, now_s)
            if delivered_s > now_s:
                heappush(self._delivering, (delivered_s, row))
                self._clock.call_at(delivered_s, ARRIVAL, self._on_delivered)
                return
        self._end(row)

    def _on_delivered(self, _key: int) -> None:
        now_s, delivering = self._clock.now, self._delivering
        while delivering and delivering[0][0] <= now_s:
            self._end(heappop(delivering)[1])

    def _end(self, row: int) -> None:
        """A request has ended: release those that wait for it, or its user."""
        if self._followers is not None:
            for follower in self._followers.of(row):
                self._release(follower)
        if self._trees is None or self._trees.end(row):
            next_row = next(self._awaiting_user, -1)
            if next_row >= 0:
                self._release(next_row)

    def _release(self, row: int) -> None:
        now_s, delays = self._clock.now, self._workload.delay_s
        time_s = now_s if delays is None else now_s + delays.item(row)
        self._expect(row, time_s, ARRIVAL if time_s > now_s else FOLLOW_UP)

    def _on_arrival(self, _key: int) -> None:
        """Arrivals that were known before this instant."""
        now_s, pending = self._clock.now, self._pending
        while pending and pending[0][0] <= now_s:
            row = heappop(pending)[1]
            if row == self._next_root:
                self._expect_next_root()
            self.arrival_s[row] = now_s
            if self._way_in is None:
                self._receive(row, now_s)
            else:
                self._pass_in(row, now_s, self._way_in)

    def _pass_in(self, row: int, now_s: float, way_in: WayIn) -> None:
        """Let a request pass the way in."""
        entry_s = way_in.enter(now_s, self._workload.prompt_tokens.item(row))
        self.entry_s[row] = entry_s
        if entry_s > now_s:
            self._entering.append(row)
            self._clock.call_at(entry_s, ARRIVAL, self._on_entry)
        else:
            self._receive(row, now_s)

    def _on_entry(self, _key: int) -> None:
        self._receive(self._entering.popleft(), self._clock.now)

    def _receive(self, row: int, now_s: float) -> None:
        limit = self._cluster.spec.max_model_len
        self._cluster.receive(request_at(self._workload, row, now_s, limit))

    def _on_follow_up(self, key: int) -> None:
        """Arrivals that were released in this instant, which is past its step ends.

        What a published view shows of this instant, its state before any change, was taken when the
        first of those steps ended.
        """
        self._clock.is_past_steps = True
        try:
            self._on_arrival(key)
        finally:
            self._clock.is_past_steps = False
