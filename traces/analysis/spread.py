"""Mean and percentiles of a column."""

from dataclasses import dataclass

import numpy as np

from sim.workload import FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class Spread:
    """How the values of a column are spread; percentiles by NumPy's linear method.

    Attributes:
        num: number of values, >= 1.
        mean: their mean.
        min: the smallest.
        p50: half of them are at most this.
        p90: nine in ten are at most this.
        p99: 99 in a hundred are at most this.
        max: the largest.
    """

    num: int
    mean: float
    min: float
    p50: float
    p90: float
    p99: float
    max: float

    @staticmethod
    def of(values: FloatArray | IntArray) -> "Spread | None":
        """Spread of the values; None if there are none."""
        if not len(values):
            return None
        p50, p90, p99 = np.percentile(values, (50, 90, 99)).tolist()
        low, high = float(values.min()), float(values.max())
        return Spread(len(values), float(values.mean()), low, p50, p90, p99, high)
