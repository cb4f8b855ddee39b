"""Fits to few rows, some of them wrong: outliers, standard errors, what is not identified.

A row far outside the scatter of all others was disturbed by something else on the machine, and is
left out and counted. Where more than a tenth of the rows lie there, the form is wrong and not the
rows: all stay.

The errors of `hwmodels.fitting.standard_errors` hold for many rows. With about ten rows per
constant they scatter themselves, unlike the error of plain least squares. The larger is stated.

A term that adds time and is not identified may be unknown, or known to be next to nothing. Where
the rows exclude its prior against 0, it is 0.
"""

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from hwmodels.fitting.least_squares import MAX_RELATIVE_ERROR, FitResult, fit_log_error
from hwmodels.fitting.parameter import FloatArray
from hwmodels.fitting.recipe import FittedKernel, Recipe, fit_kernel
from hwmodels.fitting.rounding import rounded
from hwmodels.measurements.rows import MeasuredRows

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    ModelT = TypeVar("ModelT", bound=DataclassInstance)
else:
    ModelT = TypeVar("ModelT")

OUTLIER_SCATTERS = 6.0
"""A row this many times the scatter away from the fit is an outlier."""
_SMALLEST_OUTLIER = 0.1
"""Errors up to this never make one, logarithm of a ratio."""
_LARGEST_SHARE = 0.1
_STEP = 1e-3
"""Relative change of a constant for a derivative, wide to smooth over wave switches."""
_SIGMA_PER_MEDIAN = 1.4826
"""Standard deviation over median absolute value, normal distribution."""

_TERMS = ("_s", "_weight")
"""Ends of the names of constants that add time, rates aside."""

_EXCLUDED = 3.0
"""Standard errors from which a prior counts as excluded."""

MoreSquares = Callable[[Recipe[ModelT], FittedKernel[ModelT]], Mapping[str, float]]
"""Squared errors of the fitted constants from other sources, by name."""


def fit_with_errors(
    recipe: Recipe[ModelT],
    rows: MeasuredRows,
    more_squares: MoreSquares[ModelT] | None = None,
    kept: Collection[str] = (),
) -> FittedKernel[ModelT]:
    """Fit a kernel; constants that are uncertain by more than 30 % return to their prior.

    Args:
        recipe: how the kernel is fitted.
        rows: measured.
        more_squares: adds to the squared errors.
        kept: constants known not to be identified.

    Raises:
        ConfigError: too few rows.
    """
    unsure = set(kept)
    used = without_outliers(recipe, rows)
    recipe = _with_absent_terms(recipe, used, _fit(recipe, used).not_identified)
    while True:
        tried = _without(recipe, unsure)
        fitted = fit_kernel(tried, used)
        errors = _errors(tried, fitted, more_squares)
        values = fitted.result.values
        ratios = {name: error / values[name] for name, error in errors.items()}
        if max(ratios.values(), default=0.0) <= MAX_RELATIVE_ERROR:
            return _stated(fitted, errors, unsure)
        worst = max(ratios, key=lambda name: (ratios[name], name))
        recipe = _with_absent_terms(recipe, used, (worst,))
        unsure.add(worst)


def without_outliers(recipe: Recipe[ModelT], rows: MeasuredRows) -> MeasuredRows:
    """The rows in scope less outliers, a tenth of them at most.

    Raises:
        ConfigError: too few rows.
    """
    scoped = rows.where(recipe.in_scope(rows.columns), f"outside the fit ({recipe.scope})")
    result = _fit(recipe, scoped)
    predicted_s = recipe.predict_s(recipe.build(result.values), scoped.columns)
    errors = np.abs(np.log(predicted_s / scoped.time_s))
    scatter = _SIGMA_PER_MEDIAN * float(np.median(errors))
    is_near = errors <= max(OUTLIER_SCATTERS * scatter, _SMALLEST_OUTLIER)
    if (~is_near).sum() > max(1.0, _LARGEST_SHARE * scoped.num_rows):
        return scoped
    return scoped.where(is_near, f"over {OUTLIER_SCATTERS:g} times the scatter off the fit")


def _fit(recipe: Recipe[ModelT], rows: MeasuredRows) -> FitResult:
    return fit_log_error(
        lambda values: recipe.predict_s(recipe.build(values), rows.columns),
        rows.time_s,
        recipe.parameters,
    )


def _with_absent_terms(
    recipe: Recipe[ModelT], rows: MeasuredRows, names: Collection[str]
) -> Recipe[ModelT]:
    """The recipe with 0 as the prior of those constants whose prior the rows exclude."""
    absent = []
    for name in names:
        if name.endswith("_per_s") or not name.endswith(_TERMS):
            continue
        without = _with_prior(recipe, name, 0.0)
        cost, other = (_fit(_without(one, {name}), rows).cost for one in (recipe, without))
        if distance_of(cost, other, rows.num_rows) > _EXCLUDED:
            recipe = without
            absent.append(name)
    if not absent:
        return recipe
    told = f"0 and not the prior, which the rows exclude: {', '.join(absent)}."
    return replace(recipe, restated=f"{told} {recipe.restated}".strip())


def distance_of(cost: float, smaller: float, num_shapes: int) -> float:
    """How many standard errors a fit of this loss lies from one of a smaller loss; 0 if not larger.

    With Gaussian errors of unknown size, twice the logarithm of the likelihood ratio is
    `num_shapes * ln(loss / smaller loss)`, the square of the distance. Rows of one shape err
    together, so that shapes count where a shape has several rows.
    """
    return math.sqrt(num_shapes * math.log(max(cost / max(smaller, 1e-30), 1.0)))


def _with_prior(recipe: Recipe[ModelT], name: str, prior: float) -> Recipe[ModelT]:
    parameters = (
        replace(one, prior=prior) if one.name == name else one for one in recipe.parameters
    )
    return replace(recipe, parameters=tuple(parameters))


def _errors(
    recipe: Recipe[ModelT],
    fitted: FittedKernel[ModelT],
    more_squares: MoreSquares[ModelT] | None,
) -> dict[str, float]:
    """Standard errors of the constants that the fit identified."""
    squares = {
        name: max(error * error, plain)
        for (name, error), plain in zip(
            _identified(fitted.result).items(), _plain_squares(recipe, fitted), strict=True
        )
    }
    if more_squares is not None:
        for name, square in more_squares(recipe, fitted).items():
            squares[name] += square
    return {name: float(np.sqrt(square)) for name, square in squares.items()}


def _identified(result: FitResult) -> dict[str, float]:
    return {name: error for name, error in result.standard_errors.items() if error is not None}


def _plain_squares(recipe: Recipe[ModelT], fitted: FittedKernel[ModelT]) -> list[float]:
    """Squared errors by plain least squares, of the constants that the fit identified."""
    result, rows = fitted.result, fitted.rows
    names = list(_identified(result))

    def log_times(changed: Mapping[str, float]) -> FloatArray:
        model = recipe.build(dict(result.values) | dict(changed))
        return np.log(recipe.predict_s(model, rows.columns))

    columns = []
    for name in names:
        value = result.values[name]
        above, below = (log_times({name: value * (1 + step)}) for step in (_STEP, -_STEP))
        columns.append((above - below) / (2 * _STEP * value))
    if not columns:
        return []
    jacobian = np.stack(columns, axis=1)
    residuals = log_times({}) - np.log(rows.time_s)
    variance = float(residuals @ residuals) / max(rows.num_rows - len(names), 1)
    scale = np.sqrt(np.square(jacobian).sum(axis=0))
    scale[scale == 0] = 1.0
    inverse = np.linalg.pinv((jacobian / scale).T @ (jacobian / scale))
    return [float(square) for square in variance * np.diag(inverse) / scale**2]


def moved_squares(
    fitted: FittedKernel[ModelT], recipes: Iterable[Recipe[ModelT]]
) -> dict[str, float]:
    """Squares of what the fitted constants change by, summed over recipes.

    Args:
        fitted: the fit.
        recipes: of the same fit, each with one constant of another kernel moved by its error.
    """
    squares = dict.fromkeys(_identified(fitted.result), 0.0)
    for recipe in recipes:
        for name, value in _refitted(recipe, fitted).items():
            squares[name] += (value - fitted.result.values[name]) ** 2
    return squares


def _refitted(recipe: Recipe[ModelT], fitted: FittedKernel[ModelT]) -> dict[str, float]:
    """Values of the constants that a fit identified, with another model; the others stay."""
    result, rows = fitted.result, fitted.rows
    known = _identified(result)
    free = tuple(
        replace(one, start=min(max(result.values[one.name], one.low), one.high), prior=None)
        for one in recipe.parameters
        if one.name in known
    )
    if not free:
        return {}
    again = fit_log_error(
        lambda values: recipe.predict_s(
            recipe.build(dict(result.values) | dict(values)), rows.columns
        ),
        rows.time_s,
        free,
        num_starts=1,
    )
    return {one.name: again.values[one.name] for one in free}


def _without(recipe: Recipe[ModelT], kept: Collection[str]) -> Recipe[ModelT]:
    """The recipe with some constants at their prior."""
    if not kept:
        return recipe
    fixed = {one.name: one.fallback for one in recipe.parameters if one.name in kept}
    told = f"Not identified, kept at the prior: {', '.join(sorted(kept))}."
    return replace(
        recipe,
        parameters=tuple(one for one in recipe.parameters if one.name not in kept),
        build=lambda values: recipe.build(fixed | dict(values)),
        restated=f"{told} {recipe.restated}".strip(),
    )


def _stated(
    fitted: FittedKernel[ModelT], errors: Mapping[str, float], unsure: Collection[str]
) -> FittedKernel[ModelT]:
    known = fitted.provenance.standard_errors
    stated = {name: rounded(errors[name], 3) if name in errors else None for name in known}
    result = replace(
        fitted.result,
        standard_errors={name: errors.get(name) for name in fitted.result.standard_errors},
        not_identified=(*fitted.result.not_identified, *sorted(unsure)),
    )
    provenance = replace(fitted.provenance, standard_errors=stated)
    return replace(fitted, provenance=provenance, result=result)
