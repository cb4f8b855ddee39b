"""Bounded robust least squares for residuals that cost a simulation each."""

from collections.abc import Callable

import numpy as np

from sim.workload import FloatArray

MAX_HALVINGS = 2

LARGEST_GROWTH = 2.0
"""Factor by which a step may raise the loss: a simulation is chance to some degree, and so is its
loss near the minimum."""

NUM_AVERAGED = 3
"""Points at the end whose mean is the answer: what chance adds to each averages out."""


def robust_loss(residuals: FloatArray, scale: float) -> float:
    """`sum soft_l1(residual / scale)`: quadratic below the scale, linear above it."""
    return float((np.sqrt(1 + (residuals / scale) ** 2) - 1).sum())


def descend(
    residuals: Callable[[FloatArray], FloatArray],
    jacobian: Callable[[FloatArray], FloatArray],
    start: FloatArray,
    low: FloatArray,
    high: FloatArray,
    scale: float,
    num_steps: int,
) -> FloatArray:
    """Gauss-Newton steps that stay inside the bounds, halved where the loss grows.

    Each step solves the linear problem in which a residual r weighs `1 / sqrt(1 + (r / scale)^2)`,
    as the loss does (iteratively reweighted least squares).

    Args:
        residuals: of a point, shape (residuals,).
        jacobian: their derivatives, shape (residuals, parameters).
        start: where to begin, shape (parameters,); moved inside the bounds.
        low: lower bounds, shape (parameters,).
        high: upper bounds, shape (parameters,).
        scale: residual from which the loss is linear.
        num_steps: how many.
    """
    here = np.clip(start, low, high)
    there = residuals(here)
    path = [here]
    for _ in range(num_steps):
        step = _step(jacobian(here), there, low - here, high - here, scale)
        allowed = LARGEST_GROWTH * robust_loss(there, scale)
        for _ in range(MAX_HALVINGS + 1):
            reached = np.clip(here + step, low, high)
            found = residuals(reached)
            if robust_loss(found, scale) <= allowed:
                break
            step = step / 2
        here, there = reached, found
        path.append(here)
    last: FloatArray = np.mean(path[-NUM_AVERAGED:], axis=0)
    return last


def _step(
    slopes: FloatArray, residuals: FloatArray, low: FloatArray, high: FloatArray, scale: float
) -> FloatArray:
    """The best step between two bounds if the slopes held for ever. Shape (parameters,)."""
    from scipy.optimize import lsq_linear

    root = (1 + (residuals / scale) ** 2) ** -0.25
    weighted = root[:, None] * slopes
    size = np.sqrt((weighted**2).sum(axis=0))
    size[size == 0] = 1.0  # a parameter that moves nothing stays where it is
    bounds = (low * size - 1e-12, high * size + 1e-12)
    step: FloatArray = lsq_linear(weighted / size, -root * residuals, bounds=bounds).x / size
    return step
