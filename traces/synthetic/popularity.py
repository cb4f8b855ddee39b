"""Popularity of shared items, and draws by weight."""

import numpy as np

from sim.workload import FloatArray, IntArray

MAX_SKEW = 100.0
"""Largest Zipf exponent; far below it the first item already takes everything."""


def zipf_probabilities(num_items: int, skew: float) -> FloatArray:
    """P(item i) proportional to (i + 1) ** -skew; 0 is uniform. Shape (num_items,)."""
    weights: FloatArray = np.arange(1, num_items + 1, dtype=np.float64) ** -skew
    probabilities: FloatArray = weights / weights.sum()
    return probabilities


def sample_zipf(rng: np.random.Generator, num_items: int, skew: float, size: int) -> IntArray:
    """Independent items from 0 to num_items - 1, item 0 the most popular. Shape (size,)."""
    return sample_weighted(rng, zipf_probabilities(num_items, skew), size)


def sample_weighted(rng: np.random.Generator, weights: FloatArray, size: int) -> IntArray:
    """Independent indices into `weights`, each as probable as its share of their sum.

    Args:
        rng: gives one draw per index.
        weights: >= 0, not all 0. Shape (num_items,).
        size: number of draws.
    """
    upper = np.cumsum(weights / weights.sum())
    # Rounding may leave the last bound below a draw, which then means the last item there is.
    last = len(weights) - 1 - int(np.argmax(weights[::-1] > 0))
    return np.minimum(np.searchsorted(upper, rng.random(size), side="right"), last)
