"""What it takes to fit one kernel model: parameters, their bounds, and which rows count."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from hwmodels.fitting.errors import ErrorSummary, summarise_errors
from hwmodels.fitting.holdout import NUM_FOLDS, fold_of_rows, held_out_times_s, shape_numbers
from hwmodels.fitting.least_squares import FitResult, fit_log_error
from hwmodels.fitting.parameter import FloatArray, Parameter
from hwmodels.fitting.rounding import rounded
from hwmodels.kernels.parameters import parameter_names
from hwmodels.kernels.provenance import Provenance
from hwmodels.measurements.rows import MeasuredRows

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    ModelT = TypeVar("ModelT", bound=DataclassInstance)
else:
    ModelT = TypeVar("ModelT")

Columns = Mapping[str, FloatArray]
Values = Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe(Generic[ModelT]):
    """How one kernel model is fitted.

    Attributes:
        kernel: name of the kernel in a profile.
        parameters: what is fitted, named as `hwmodels.kernels.parameters.parameter_names` does.
        build: model of given values.
        predict_s: seconds of rows, shape (rows,), by a model.
        shape_columns: columns that make a shape; whole shapes are held out.
        valid_columns: columns whose ranges the profile states.
        in_scope: rows that the fit uses and that its error is about.
        scope: the same in words.
        restated: what the model holds that was not fitted, and where it comes from.
        siblings: fields of the model that hold another kernel's model, not parameters of this one.
        parts: rows in scope whose held-out error is stated apart, by what they are.
    """

    kernel: str
    parameters: tuple[Parameter, ...]
    build: Callable[[Values], ModelT]
    predict_s: Callable[[ModelT, Columns], FloatArray]
    shape_columns: tuple[str, ...]
    valid_columns: tuple[str, ...]
    in_scope: Callable[[Columns], NDArray[np.bool_]]
    scope: str
    restated: str = ""
    siblings: frozenset[str] = frozenset()
    parts: Mapping[str, Callable[[Columns], NDArray[np.bool_]]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedKernel(Generic[ModelT]):
    """A fitted kernel model.

    Attributes:
        model: with rounded values.
        provenance: for the profile.
        result: of the fit to all rows in scope.
        held_out: errors on shapes that the fit did not see.
        held_out_parts: the same for the parts that the recipe names.
        rows: the rows in scope.
    """

    model: ModelT
    provenance: Provenance
    result: FitResult
    held_out: ErrorSummary
    held_out_parts: Mapping[str, ErrorSummary]
    rows: MeasuredRows


def fit_kernel(
    recipe: Recipe[ModelT], rows: MeasuredRows, num_folds: int = NUM_FOLDS
) -> FittedKernel[ModelT]:
    """Fit a kernel model to its rows and measure its error on held-out shapes.

    Raises:
        ConfigError: too few rows in scope.
    """
    scoped = rows.where(recipe.in_scope(rows.columns), f"outside the fit ({recipe.scope})")
    shape = tuple(scoped.columns[name] for name in recipe.shape_columns)
    result = _fit(recipe, scoped, np.ones(scoped.num_rows, dtype=bool), num_starts=2)
    predicted_s = held_out_predictions(recipe, scoped, num_folds)
    held_out = summarise_errors(predicted_s, scoped.time_s)
    parts = {
        name: summarise_errors(predicted_s[chosen], scoped.time_s[chosen])
        for name, chosen in ((name, pick(scoped.columns)) for name, pick in recipe.parts.items())
    }
    model = recipe.build({name: rounded(value) for name, value in result.values.items()})
    provenance = Provenance(
        standard_errors=_all_standard_errors(model, result, recipe.siblings),
        num_rows=scoped.num_rows,
        heldout_mape=rounded(held_out.mape, 3),
        source=_source(recipe, scoped, shape, parts, result),
        valid={
            name: (float(scoped.columns[name].min()), float(scoped.columns[name].max()))
            for name in recipe.valid_columns
        },
    )
    return FittedKernel(
        model=model,
        provenance=provenance,
        result=result,
        held_out=held_out,
        held_out_parts=parts,
        rows=scoped,
    )


def held_out_predictions(
    recipe: Recipe[ModelT], rows: MeasuredRows, num_folds: int = NUM_FOLDS
) -> FloatArray:
    """Seconds of each row by a fit that saw no row of its fold, shape (rows,)."""
    folds = fold_of_rows(tuple(rows.columns[name] for name in recipe.shape_columns), num_folds)

    def fit_and_predict(fitted: NDArray[np.bool_], wanted: NDArray[np.bool_]) -> FloatArray:
        values = _fit(recipe, rows, fitted, num_starts=1).values
        columns = {name: column[wanted] for name, column in rows.columns.items()}
        return recipe.predict_s(recipe.build(values), columns)

    return held_out_times_s(fit_and_predict, folds)


def _fit(
    recipe: Recipe[ModelT], rows: MeasuredRows, chosen: NDArray[np.bool_], num_starts: int
) -> FitResult:
    columns = {name: column[chosen] for name, column in rows.columns.items()}
    _, groups = shape_numbers(*(columns[name] for name in recipe.shape_columns))
    return fit_log_error(
        lambda values: recipe.predict_s(recipe.build(values), columns),
        rows.time_s[chosen],
        recipe.parameters,
        groups,
        num_starts,
    )


def _all_standard_errors(
    model: "DataclassInstance", result: FitResult, siblings: frozenset[str]
) -> dict[str, float | None]:
    """Standard errors of all numbers of a model; None for those that were not fitted."""
    errors = result.standard_errors
    found = {name: errors.get(name) for name in parameter_names(model, siblings)}
    return {name: None if error is None else rounded(error, 3) for name, error in found.items()}


def _source(
    recipe: Recipe[ModelT],
    rows: MeasuredRows,
    shape: tuple[FloatArray, ...],
    parts: Mapping[str, ErrorSummary],
    result: FitResult,
) -> str:
    shapes, _ = shape_numbers(*shape)
    names = ", ".join(recipe.shape_columns)
    text = (
        f"{rows.source}; fitted on {rows.num_rows} rows: {recipe.scope}; "
        f"each of {len(shapes)} shapes ({names}) held out once."
    )
    for name, errors in parts.items():
        text += f" Held-out error of {name}: {errors.mape:.3f}."
    if result.not_identified:
        text += f" Not identified, kept at the prior: {', '.join(result.not_identified)}."
    if result.at_bound:
        text += f" Held at the upper bound: {', '.join(result.at_bound)}."
    return f"{text} {recipe.restated}".strip()
