"""Arrival processes."""

import numpy as np

from sim.rng import stream
from sim.workload import FloatArray


def poisson_arrivals(seed: int, num_arrivals: int, rate_per_s: float) -> FloatArray:
    """Times of a Poisson process from 0 on, seconds; another rate only stretches them.

    Draws from the stream "trace.arrivals". Shape (num_arrivals,).
    """
    gaps = stream(seed, "trace.arrivals").standard_exponential(num_arrivals)
    return np.cumsum(gaps) / rate_per_s
