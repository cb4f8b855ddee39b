"""SimPy environment with calls at absolute times and an explicit order at equal times.

One call per arrival instant, per run of steps and per idle wake-up; nothing per token. SimPy
schedules by delay, and ``now + (t - now)`` is not always ``t``; it also makes an event object and a
list of callbacks for each. So calls are put on its queue directly, at their exact time, beside
whatever events SimPy's own processes put there.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from math import inf
from typing import Any

import simpy

from sim.pending_signals import handle_pending_signals

STOP = -1
ARRIVAL, TRANSFER, STEP_END, HANDOVER, FOLLOW_UP, IDLE_WAKE = range(2, 8)
"""Order at equal time, after SimPy's own events (0 and 1). What prefills hand over, and a follow-up
(an arrival that something of the same instant released) come after the step ends. An idle instance
plans after all arrivals of the instant."""

CALLS_PER_LOOK = 1024
"""Calls between two looks for Ctrl-C."""

Receiver = Callable[[int], None]
"""Called with the key of the call. A call cannot be taken back: a receiver that has asked for a
later one knows by the key that a call is out of date."""


class StepClock(simpy.Environment):
    """Simulated time in seconds.

    Attributes:
        queue: heap of (time, order, key, receiver or SimPy event).
        keys: counter of calls and events; equal times and orders are served in its order.
        is_past_steps: whether the follow-ups of this instant are being served, so that steps which
            end now have ended.
        is_torn: whether an interrupt came in the middle of an event.
    """

    is_past_steps = False

    def __init__(self) -> None:
        super().__init__()
        self.is_torn = False
        self.queue: list[Any] = self._queue
        self.keys = self._eid

    def call_at(self, time_s: float, order: int, receiver: Receiver) -> int:
        """Call `receiver(key)` at `time_s` >= now; returns the key."""
        key = next(self.keys)
        heappush(self.queue, (time_s, order, key, receiver))
        return key

    def run_calls(self, until_s: float | None = None) -> None:
        """Serve calls and events in order until none is left, or up to `until_s` (not included)."""
        queue, num_served = self.queue, 0
        limit_s = inf if until_s is None else until_s
        while queue:
            num_served += 1
            if num_served % CALLS_PER_LOOK == 0:
                handle_pending_signals()
            time_s, order, key, receiver = call = heappop(queue)
            if time_s >= limit_s:
                heappush(queue, call)
                self._now = limit_s
                return
            if order >= ARRIVAL or order == STOP:
                self._now = time_s
                receiver(key)
            else:
                heappush(queue, call)
                self.step()

    def stop(self) -> None:
        """Make `run_calls` raise KeyboardInterrupt before the next call (from a signal handler)."""
        self.call_at(self._now, STOP, _interrupt)


def _interrupt(_key: int) -> None:
    raise KeyboardInterrupt
