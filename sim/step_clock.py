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

    Attributes:
        generation: state of the receiver when it asked for the call; a receiver drops calls that
            are out of date.
    """

    __slots__ = ("generation",)

    def __init__(
        self,
        clock: "StepClock",
        time_s: float,
        order: int,
        receiver: Callable[[Any], None],
        generation: int = 0,
    ) -> None:
        self.env = clock
        self.callbacks = [receiver]
        self._value = None
        self._ok = True
        self._defused = False
        self.generation = generation
        queue: list[Any] = clock._queue
        heappush(queue, (time_s, order, next(clock._eid), self))


class StepClock(simpy.Environment):
    """Simulated time in seconds."""
