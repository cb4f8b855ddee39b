"""Renewal processes: independent gaps of mean 1 / rate, so another rate only stretches time.

The first arrival comes one gap after time 0.
"""

import math
from dataclasses import dataclass

import numpy as np

from sim.rng import stream
from sim.workload import FloatArray

ARRIVALS = "trace.arrivals"
"""Stream that every arrival process draws its gaps from."""

MIN_CV, MAX_CV = 1e-3, 100.0
"""Allowed coefficients of variation of gaps."""


@dataclass(frozen=True, slots=True)
class Poisson:
    """Exponential gaps."""

    rate_per_s: float

    def times(self, seed: int, num_arrivals: int) -> FloatArray:
        """Arrival times, seconds. Shape (num_arrivals,)."""
        gaps = stream(seed, ARRIVALS).standard_exponential(num_arrivals)
        return np.cumsum(gaps) / self.rate_per_s


@dataclass(frozen=True, slots=True)
class Gamma:
    """Gamma gaps of coefficient of variation `cv`: burstier than Poisson above 1."""

    rate_per_s: float
    cv: float

    def times(self, seed: int, num_arrivals: int) -> FloatArray:
        """Arrival times, seconds. Shape (num_arrivals,)."""
        variance = self.cv * self.cv
        gaps = stream(seed, ARRIVALS).standard_gamma(1 / variance, num_arrivals) * variance
        return np.cumsum(gaps) / self.rate_per_s


@dataclass(frozen=True, slots=True)
class Weibull:
    """Weibull gaps of coefficient of variation `cv`."""

    rate_per_s: float
    cv: float

    def times(self, seed: int, num_arrivals: int) -> FloatArray:
        """Arrival times, seconds. Shape (num_arrivals,)."""
        shape = weibull_shape(self.cv)
        gaps = stream(seed, ARRIVALS).weibull(shape, num_arrivals) / math.gamma(1 + 1 / shape)
        return np.cumsum(gaps) / self.rate_per_s


@dataclass(frozen=True, slots=True)
class Constant:
    """Equal gaps; draws nothing."""

    rate_per_s: float

    def times(self, seed: int, num_arrivals: int) -> FloatArray:
        """Arrival times, seconds. Shape (num_arrivals,)."""
        return np.arange(1, num_arrivals + 1) / self.rate_per_s


def weibull_shape(cv: float) -> float:
    """Shape k of the Weibull law whose coefficient of variation is `cv`, by bisection.

    cv^2 = gamma(1 + 2/k) / gamma(1 + 1/k)^2 - 1, which falls as k grows.
    """
    low, high = 0.05, 10_000.0
    for _ in range(200):
        middle = math.sqrt(low * high)
        log_ratio = math.lgamma(1 + 2 / middle) - 2 * math.lgamma(1 + 1 / middle)
        if math.expm1(log_ratio) > cv * cv:
            low = middle
        else:
            high = middle
    return math.sqrt(low * high)
