"""SimPy environment with events at absolute times and an explicit order at equal times.

One event object per arrival instant, per run of steps and per idle wake-up; nothing per token.
SimPy schedules by delay, and ``now + (t - now)`` is not always ``t``, so events are put on the
queue at their exact time here.
"""

from collections.abc import Callable
from heapq import heappush
from typing import Any

import simpy

ARRIVAL, TRANSFER, STEP_END, IDLE_WAKE = range(4)
"""Order at equal time. An idle instance plans after all arrivals of that instant."""


class Call(simpy.Event):
    """A call at an absolute time.

    It cannot be taken back: a receiver that has asked for a later one drops a call that is out of
    date (it compares the call with the one it waits for).

    Args:
        clock: whose time.
        time_s: when, >= now, seconds.
        order: place among the calls of that instant.
        receiver: called with the call.
    """

    _value = None
    _ok = True
    _defused = False

    def __init__(
        self, clock: "StepClock", time_s: float, order: int, receiver: Callable[[Any], None]
    ) -> None:
        self.callbacks = [receiver]
        heappush(clock.queue, (time_s, order, next(clock.ids), self))


class StepClock(simpy.Environment):
    """Simulated time in seconds.

    Attributes:
        queue: SimPy's event heap of (time, order, id, event).
        ids: SimPy's counter of events.
    """

    def __init__(self) -> None:
        super().__init__()
        self.queue: list[Any] = self._queue
        self.ids = self._eid
