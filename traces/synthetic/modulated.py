"""Poisson processes whose rate changes over time, by inverting the cumulative rate.

Arrival k is where the expected number of arrivals reaches the k-th point of a unit-rate Poisson
process, so the times are exact and use the same draws as a plain Poisson process. Their periods are
in seconds: another rate changes how many arrivals fall in each and does not stretch time.
"""

import math
from dataclasses import dataclass

import numpy as np

from sim.errors import ConfigError
from sim.rng import stream
from sim.workload import FloatArray
from traces.options import MAX_REQUESTS
from traces.synthetic.renewal import ARRIVALS

MAX_PHASES = 2 * MAX_REQUESTS
"""Most on and off phases of a trace."""


@dataclass(frozen=True, slots=True)
class OnOff:
    """Alternating phases: a Markov-modulated Poisson process of two states, or a square wave.

    Attributes:
        key: name of the option, for messages.
        rate_per_s: mean rate over on and off phases.
        on_s: mean length of an on phase, seconds.
        off_s: mean length of an off phase, seconds.
        off_ratio: rate in off phases over that in on phases, 0 to 1.
        fixed: whether all phases have their mean length and the trace starts with an on phase;
            otherwise lengths are exponential and the first phase is drawn, as in the long run.
    """

    key: str
    rate_per_s: float
    on_s: float
    off_s: float
    off_ratio: float
    fixed: bool

    @property
    def on_rate_per_s(self) -> float:
        """Rate in on phases, such that the mean is `rate_per_s`."""
        cycle_s = self.on_s + self.off_s
        return self.rate_per_s * cycle_s / (self.on_s + self.off_ratio * self.off_s)

    def times(self, seed: int, num_arrivals: int) -> FloatArray:
        """Arrival times, seconds. Shape (num_arrivals,).

        Raises:
            ConfigError: the arrivals would span more than `MAX_PHASES` phases.
        """
        mass = _unit_poisson(seed, num_arrivals)
        num_cycles = float(mass[-1]) / self.rate_per_s / (self.on_s + self.off_s)
        if not 2 * num_cycles <= MAX_PHASES:
            raise ConfigError(
                f"{self.key}: {num_arrivals:,} arrivals at {self.rate_per_s:g}/s span "
                f"{2 * num_cycles:.4g} on and off phases, allowed: {MAX_PHASES:,}; "
                "give longer phases or a higher rate"
            )
        lengths_s, rates_per_s = self._phases(seed, float(mass[-1]), num_cycles)
        return _invert_steps(mass, lengths_s, rates_per_s)

    def _phases(
        self, seed: int, num_expected: float, num_cycles: float
    ) -> tuple[FloatArray, FloatArray]:
        """Lengths and rates of phases in which more than `num_expected` arrivals are expected."""
        rng = stream(seed, "trace.arrival_phases")
        starts_on = self.fixed or rng.random() < self.on_s / (self.on_s + self.off_s)
        forward = slice(None, None, 1 if starts_on else -1)
        means_s = np.array([self.on_s, self.off_s])[forward]
        rates_per_s = np.array([1.0, self.off_ratio])[forward] * self.on_rate_per_s
        lengths_s = np.empty((0, 2))
        # Beyond the last arrival by more than sums may round.
        while float((lengths_s @ rates_per_s).sum()) <= num_expected * (1 + 1e-9):
            num_more = 16 + int(max(num_cycles - len(lengths_s), num_cycles / 16))
            unit = np.ones((num_more, 2)) if self.fixed else rng.standard_exponential((num_more, 2))
            lengths_s = np.concatenate((lengths_s, unit * means_s))
        return lengths_s.ravel(), np.tile(rates_per_s, len(lengths_s))


@dataclass(frozen=True, slots=True)
class Spike:
    """A constant rate but for one interval.

    Attributes:
        rate_per_s: rate outside the spike, and so the mean rate in the long run.
        at_s: where the spike begins, seconds.
        duration_s: its length, seconds.
        factor: rate within it over the rate outside; below 1 it is a dip, 0 an outage.
    """

    rate_per_s: float
    at_s: float
    duration_s: float
    factor: float

    def times(self, seed: int, num_arrivals: int) -> FloatArray:
        """Arrival times, seconds. Shape (num_arrivals,)."""
        mass = _unit_poisson(seed, num_arrivals)
        lengths_s = np.array([self.at_s, self.duration_s, math.inf])
        return _invert_steps(mass, lengths_s, self.rate_per_s * np.array([1, self.factor, 1]))


@dataclass(frozen=True, slots=True)
class Diurnal:
    """A rate that follows a cosine: rate_per_s (1 + amplitude cos(2 pi (t - peak_s) / period_s)).

    Attributes:
        rate_per_s: mean rate over whole periods.
        period_s: seconds from peak to peak.
        amplitude: 0 to 1; peak rate over mean rate is 1 + amplitude.
        peak_s: time of a peak.
    """

    rate_per_s: float
    period_s: float
    amplitude: float
    peak_s: float

    def times(self, seed: int, num_arrivals: int) -> FloatArray:
        """Arrival times, seconds. Shape (num_arrivals,)."""
        mean_periods = _unit_poisson(seed, num_arrivals) / (self.rate_per_s * self.period_s)
        peak = self.peak_s / self.period_s
        swing = self.amplitude / (2 * math.pi) * math.sin(2 * math.pi * peak)
        since_peak = _invert_swing(mean_periods - peak - swing, self.amplitude)
        times_s = np.maximum(0.0, (since_peak + peak) * self.period_s)
        ordered: FloatArray = np.maximum.accumulate(times_s)  # neighbours may round past each other
        return ordered


def _unit_poisson(seed: int, num_arrivals: int) -> FloatArray:
    return np.cumsum(stream(seed, ARRIVALS).standard_exponential(num_arrivals))


def _invert_steps(mass: FloatArray, lengths_s: FloatArray, rates_per_s: FloatArray) -> FloatArray:
    """Times at which the integral of a rate that is constant in each interval reaches `mass`."""
    begins_s = np.append(0.0, np.cumsum(lengths_s))
    mass_before = np.append(0.0, np.cumsum(lengths_s * rates_per_s))
    # The last interval that begins at or below the mass: never one of rate 0.
    where = np.searchsorted(mass_before[:-1], mass, side="right") - 1
    times_s = begins_s[where] + (mass - mass_before[where]) / rates_per_s[where]
    ordered: FloatArray = np.maximum.accumulate(times_s)
    return ordered


def _invert_swing(y: FloatArray, amplitude: float) -> FloatArray:
    """Solve x + amplitude / (2 pi) sin(2 pi x) = y for x by Newton steps kept in a bracket."""
    whole = np.floor(y)
    target = y - whole
    low, high = np.zeros_like(target), np.ones_like(target)
    x = target.copy()
    for _ in range(60):
        angle = 2 * math.pi * x
        excess = x + amplitude / (2 * math.pi) * np.sin(angle) - target
        low, high = np.where(excess < 0, x, low), np.where(excess < 0, high, x)
        if np.abs(excess).max(initial=0.0) <= 4e-16:
            break
        with np.errstate(divide="ignore", invalid="ignore"):
            newton = x - excess / (1 + amplitude * np.cos(angle))
        is_inside = (newton >= low) & (newton <= high)  # false for NaN
        x = np.where(is_inside, newton, (low + high) / 2)
    solution: FloatArray = whole + x
    return solution
