"""Open loops, whose arrivals do not depend on the system, and closed ones, where users wait."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from sim.rng import stream
from sim.workload import FloatArray


@dataclass(frozen=True, slots=True)
class Arrivals:
    """When requests, or whole sessions, arrive.

    Attributes:
        arrival_s: times, >= 0, never decreasing; nominal where `concurrency` is set. Shape (n,).
        delay_s: seconds between the end of a user's last one and this one; None without users.
        concurrency: number of users who take them in order, or None.
    """

    arrival_s: FloatArray
    delay_s: FloatArray | None = None
    concurrency: int | None = None


class ArrivalProcess(Protocol):
    """Decides when requests arrive."""

    def sample(self, seed: int, num_arrivals: int) -> Arrivals:
        """The first `num_arrivals` arrivals; the same seed gives the same."""


class ArrivalTimes(Protocol):
    """Times that do not depend on the system."""

    def times(self, seed: int, num_arrivals: int) -> FloatArray:
        """Arrival times, seconds, >= 0, never decreasing. Shape (num_arrivals,)."""


@dataclass(frozen=True, slots=True)
class OpenLoop:
    """Arrivals at times that do not depend on the system.

    Attributes:
        process: draws the times.
    """

    process: ArrivalTimes

    def sample(self, seed: int, num_arrivals: int) -> Arrivals:
        """The first `num_arrivals` arrivals."""
        return Arrivals(self.process.times(seed, num_arrivals))


@dataclass(frozen=True, slots=True)
class AllAtOnce:
    """Everything at time 0, whatever the rate."""

    def times(self, seed: int, num_arrivals: int) -> FloatArray:
        """Zeros. Shape (num_arrivals,)."""
        return np.zeros(num_arrivals)


@dataclass(frozen=True, slots=True)
class ClosedLoop:
    """Users who send a request when their last one has ended and they have thought.

    All nominal times are 0; the rate has no effect.

    Attributes:
        concurrency: number of users.
        think_time_s: mean time between an end and the next request, seconds.
        think: "exponential" or "fixed" times.
    """

    concurrency: int
    think_time_s: float
    think: str

    def sample(self, seed: int, num_arrivals: int) -> Arrivals:
        """The first `num_arrivals` arrivals; delays are draws of the stream "trace.user_delay"."""
        if self.think == "fixed":
            delay_s = np.full(num_arrivals, self.think_time_s)
        else:
            unit = stream(seed, "trace.user_delay").standard_exponential(num_arrivals)
            delay_s = unit * self.think_time_s
        return Arrivals(np.zeros(num_arrivals), delay_s, self.concurrency)
