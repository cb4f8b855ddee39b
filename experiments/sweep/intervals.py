"""Intervals of means over a few replications or seeds."""

import math
from collections.abc import Sequence

CONFIDENCE = 0.95


def half_width(values: Sequence[float], confidence: float = CONFIDENCE) -> float | None:
    """Half the width of Student's t interval of the mean; None for fewer than two values.

    Args:
        values: independent observations.
        confidence: probability that the interval covers the true mean, if they are normal.
    """
    n = len(values)
    if n < 2:
        return None
    from scipy.stats import t

    mean = math.fsum(values) / n
    variance = math.fsum((value - mean) ** 2 for value in values) / (n - 1)
    return float(t.ppf(0.5 + confidence / 2, n - 1)) * math.sqrt(variance / n)
