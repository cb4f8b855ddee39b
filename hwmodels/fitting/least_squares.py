"""Robust least squares on the logarithm of time ratios.

Minimises `sum soft_l1(log(predicted / measured) / scale)` over the logarithms of the parameters: a
relative error counts alike at 5 us and at 50 ms, and a few wrong rows do not pull the fit.
Parameters whose relative standard error exceeds `MAX_RELATIVE_ERROR` are set back to their prior,
the worst first, and the others are fitted again: such a constant is *not identified* by the rows. A
parameter that the rows push against its upper bound stays there, and has no standard error either.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from hwmodels.fitting.parameter import (
    FloatArray,
    Parameter,
    log_bounds,
    starts_of,
    with_logs,
)
from hwmodels.fitting.standard_errors import robust_covariance
from sim.errors import ConfigError

MAX_RELATIVE_ERROR = 0.30
"""Above this ratio of standard error to value a parameter counts as not identified."""

LOSS_SCALE = 0.05
"""Relative error from which the loss grows linearly instead of quadratically."""

_JACOBIAN_STEP = 1e-3

Predictor = Callable[[Mapping[str, float]], FloatArray]
"""Values by name -> predicted seconds of every row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FitResult:
    """What a fit found.

    Attributes:
        values: every parameter by name, those not identified at their prior.
        standard_errors: in the unit of the parameter; None where it is not identified or held at
            its upper bound.
        num_rows: rows that were fitted.
        cost: the loss at the solution (dimensionless).
        not_identified: names of the parameters kept at their prior.
        at_bound: names of the parameters held at their upper bound.
    """

    values: dict[str, float]
    standard_errors: dict[str, float | None]
    num_rows: int
    cost: float
    not_identified: tuple[str, ...]
    at_bound: tuple[str, ...]


def fit_log_error(
    predict_s: Predictor,
    time_s: FloatArray,
    parameters: tuple[Parameter, ...],
    groups: FloatArray | None = None,
    num_starts: int = 2,
) -> FitResult:
    """Fit parameters to measured times.

    Args:
        predict_s: predicted seconds of every row, all of them above zero.
        time_s: measured seconds, shape (rows,), all of them above zero.
        parameters: what to fit.
        groups: number of the shape of each row; rows of one shape share their error, so standard
            errors are taken over shapes. None: every row is its own.
        num_starts: starting points; the best solution counts.

    Raises:
        ConfigError: fewer rows than parameters, or a measured time that is not above zero.
    """
    if time_s.size <= len(parameters):
        raise ConfigError(f"{time_s.size} rows are too few to fit {len(parameters)} parameters")
    if not (np.isfinite(time_s) & (time_s > 0)).all():
        raise ConfigError("measured times must be finite and above zero")
    rows = np.arange(time_s.size, dtype=np.float64) if groups is None else groups
    free = parameters
    fixed: dict[str, float] = {}
    dropped: list[str] = []
    at_bound: list[str] = []
    warm: FloatArray | None = None
    while True:
        logs, cost, errors = _fit_free(
            predict_s, np.log(time_s), free, fixed, rows, num_starts, warm
        )
        place = _place_to_fix(free, logs, errors)
        if place is None:
            break
        is_high = _is_at_high(free[place], logs[place])
        (at_bound if is_high else dropped).append(free[place].name)
        fixed[free[place].name] = free[place].high if is_high else free[place].fallback
        free = free[:place] + free[place + 1 :]
        warm = np.delete(logs, place)
    found = with_logs([one.name for one in free], logs, fixed)
    relative = dict(zip([one.name for one in free], errors.tolist(), strict=True))
    names = [one.name for one in parameters]
    return FitResult(
        values={name: found[name] for name in names},
        standard_errors={
            name: relative[name] * found[name] if name in relative else None for name in names
        },
        num_rows=int(time_s.size),
        cost=cost,
        not_identified=tuple(name for name in names if name in dropped),
        at_bound=tuple(name for name in names if name in at_bound),
    )


def _place_to_fix(free: tuple[Parameter, ...], logs: FloatArray, errors: FloatArray) -> int | None:
    """Which parameter to fix next: one at its upper bound, else the least certain; None: none."""
    for place, parameter in enumerate(free):
        if _is_at_high(parameter, logs[place]):
            return place
    if not errors.size or errors.max() <= MAX_RELATIVE_ERROR:
        return None
    return int(np.argmax(errors))


def _is_at_high(parameter: Parameter, log: float) -> bool:
    return bool(log >= np.log(parameter.high) - 1e-4)


def _fit_free(
    predict_s: Predictor,
    log_time: FloatArray,
    free: tuple[Parameter, ...],
    fixed: Mapping[str, float],
    groups: FloatArray,
    num_starts: int,
    warm: FloatArray | None,
) -> tuple[FloatArray, float, FloatArray]:
    """Logarithms, loss and relative standard errors of the free parameters."""
    from scipy.optimize import least_squares

    names = [one.name for one in free]
    low, high = log_bounds(free)

    def residuals(logs: FloatArray) -> FloatArray:
        predicted = predict_s(with_logs(names, np.clip(logs, low, high), fixed))
        return np.log(np.maximum(predicted, 1e-12)) - log_time

    if not free:
        empty = np.empty(0)
        ratio = residuals(empty) / LOSS_SCALE
        return empty, float(LOSS_SCALE**2 * (np.sqrt(1 + ratio**2) - 1).sum()), empty
    starts = starts_of(free, num_starts) if warm is None else [warm]
    solutions = [
        least_squares(
            residuals,
            np.clip(start, low, high),
            bounds=(low - 1e-9, high + 1e-9),
            loss="soft_l1",
            f_scale=LOSS_SCALE,
            diff_step=[1e-4] * start.size,
            x_scale=1.0,
            max_nfev=60,
        )
        for start in starts
    ]
    best = min(solutions, key=lambda solution: float(solution.cost))
    logs = np.clip(np.asarray(best.x, dtype=np.float64), low, high)
    jacobian = _jacobian(residuals, logs, low, high)
    covariance = robust_covariance(jacobian, residuals(logs), groups, LOSS_SCALE)
    return logs, float(best.cost), np.sqrt(np.diag(covariance))


def _jacobian(
    residuals: Callable[[FloatArray], FloatArray],
    logs: FloatArray,
    low: FloatArray,
    high: FloatArray,
) -> FloatArray:
    """Central differences, shape (rows, parameters), one-sided at a bound.

    The steps are wide, to smooth over wave switches.
    """
    columns = []
    for place in range(logs.size):
        above, below = logs.copy(), logs.copy()
        above[place] = min(logs[place] + _JACOBIAN_STEP, high[place])
        below[place] = max(logs[place] - _JACOBIAN_STEP, low[place])
        width = above[place] - below[place]
        columns.append((residuals(above) - residuals(below)) / width)
    return np.stack(columns, axis=1)
