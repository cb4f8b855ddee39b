"""Outliers, errors and slots of fits to few rows, on forms small enough to compute by hand."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from hwmodels.fitting.parameter import FloatArray, Parameter
from hwmodels.fitting.recipe import Columns, Recipe
from hwmodels.fitting.rows_errors import (
    fit_with_errors,
    moved_squares,
    without_outliers,
)
from hwmodels.fitting.rows_occupancy import occupancy_of
from hwmodels.measurements.rows import MeasuredRows

FIXED_S, RATE = 1e-5, 1e9
"""Constants of the rows; the prior of the first is five times as large."""


@dataclass(frozen=True)
class Line:
    fixed_s: float
    bytes_per_s: float
    unseen_s: float = 0.0


def predict_s(model: Line, columns: Columns) -> FloatArray:
    return model.fixed_s + columns["num_bytes"] / model.bytes_per_s


RECIPE = Recipe(
    kernel="line",
    parameters=(
        Parameter(name="fixed_s", start=2e-5, low=1e-7, high=1e-3, prior=5e-5),
        Parameter(name="bytes_per_s", start=2e9, low=1e7, high=1e11),
    ),
    build=lambda values: Line(**values),
    predict_s=predict_s,
    shape_columns=("num_bytes",),
    valid_columns=("num_bytes",),
    in_scope=lambda columns: columns["num_bytes"] > 0,
    scope="anything above nothing",
)


TRUTH = Line(fixed_s=FIXED_S, bytes_per_s=RATE)


def rows_of(noise: float, slow: dict[int, float] | None = None, number: int = 40) -> MeasuredRows:
    """Sizes from 1 kB to 1 MB, times with noise, some of them slowed down."""
    num_bytes = np.geomspace(1e3, 1e6, number)
    factors = np.exp(noise * np.random.default_rng(5).standard_normal(number))
    for place, factor in (slow or {}).items():
        factors[place] *= factor
    times_s = predict_s(TRUTH, {"num_bytes": num_bytes}) * factors
    return MeasuredRows(columns={"num_bytes": num_bytes}, time_s=times_s, source="", sha256="")


def test_a_few_slow_rows_are_left_out_and_counted() -> None:
    rows = rows_of(0.02, {3: 1.5, 20: 1.3})
    used = without_outliers(RECIPE, rows)
    assert used.num_rows == 38
    assert [entry.num_rows for entry in used.left_out] == [2]
    assert not np.isin(rows.columns["num_bytes"][[3, 20]], used.columns["num_bytes"]).any()


def test_rows_that_err_by_less_than_a_tenth_are_no_outliers() -> None:
    exact = rows_of(0.0, {7: 1.08})
    assert without_outliers(RECIPE, exact).num_rows == 40


def test_a_wrong_form_is_no_reason_to_leave_rows_out() -> None:
    rows = rows_of(0.01, dict.fromkeys(range(30, 38), 1.4))
    assert without_outliers(RECIPE, rows).num_rows == 40, "a fifth of the rows"


def test_errors_cover_the_truth_and_are_no_smaller_than_those_of_plain_least_squares() -> None:
    rows = rows_of(0.02)
    found = fit_with_errors(RECIPE, rows)
    times_s = predict_s(found.model, rows.columns)
    share = found.model.fixed_s / times_s
    jacobian = np.stack([share, share - 1], axis=1)  # by the logarithms of both constants
    variance = np.square(np.log(rows.time_s / times_s)).sum() / (rows.num_rows - 2)
    plain = np.sqrt(variance * np.diag(np.linalg.inv(jacobian.T @ jacobian)))
    for place, name in enumerate(("fixed_s", "bytes_per_s")):
        error = found.result.standard_errors[name]
        assert error is not None
        assert error >= 0.999 * plain[place] * found.result.values[name]
    for name, truth in (("fixed_s", FIXED_S), ("bytes_per_s", RATE)):
        error = found.result.standard_errors[name]
        assert error is not None
        assert abs(found.result.values[name] - truth) < 3 * error
        assert 0.001 < error / truth < 0.02
        assert found.provenance.standard_errors[name] == pytest.approx(error, rel=1e-2)


def test_errors_of_other_kernels_add_in_squares() -> None:
    alone = fit_with_errors(RECIPE, rows_of(0.02))
    more = fit_with_errors(RECIPE, rows_of(0.02), lambda recipe, fitted: {"fixed_s": 1e-12})
    one, other = (fit.result.standard_errors["fixed_s"] for fit in (alone, more))
    assert one is not None
    assert other == pytest.approx(np.sqrt(one**2 + 1e-12))
    assert more.result.standard_errors["bytes_per_s"] == alone.result.standard_errors["bytes_per_s"]


def test_a_constant_that_is_too_uncertain_returns_to_its_prior() -> None:
    near = (replace(RECIPE.parameters[0], prior=1.05e-5), RECIPE.parameters[1])
    found = fit_with_errors(
        replace(RECIPE, parameters=near),
        rows_of(0.02),
        lambda recipe, fitted: {
            name: (0.4 * value) ** 2 if name == "fixed_s" else 0.0
            for name, value in fitted.result.values.items()
        },
    )
    assert found.result.not_identified == ("fixed_s",)
    assert found.model.fixed_s == 1.05e-5
    assert found.provenance.standard_errors["fixed_s"] is None
    assert "Not identified, kept at the prior: fixed_s." in found.provenance.source


def test_a_term_that_is_next_to_nothing_does_not_return_to_a_prior_that_is_excluded() -> None:
    rows = rows_of(0.02)
    rows = replace(
        rows, time_s=rows.time_s - FIXED_S * rows.time_s / predict_s(TRUTH, rows.columns)
    )
    found = fit_with_errors(RECIPE, rows)
    assert found.result.not_identified == ("fixed_s",)
    assert found.model.fixed_s == 0.0
    assert "0 and not the prior, which the rows exclude: fixed_s." in found.provenance.source


def test_a_constant_can_be_kept_from_the_start() -> None:
    found = fit_with_errors(RECIPE, rows_of(0.02), kept=("fixed_s",))
    assert found.model.fixed_s == 5e-5
    assert found.provenance.standard_errors["unseen_s"] is None


def test_moved_kernels_change_what_depends_on_them() -> None:
    fitted = fit_with_errors(RECIPE, rows_of(0.0))

    def slower(model: Line, columns: Columns) -> FloatArray:
        return 2e-6 + predict_s(model, columns)

    squares = moved_squares(fitted, [RECIPE, replace(RECIPE, predict_s=slower)])
    assert np.sqrt(squares["fixed_s"]) == pytest.approx(2e-6, rel=1e-2)
    assert np.sqrt(squares["bytes_per_s"]) < 1e-2 * RATE


def test_slots_are_those_of_the_smallest_loss_if_their_neighbours_are_excluded() -> None:
    sure = occupancy_of({100: 4.0, 200: 1.0, 300: 4.0}, num_shapes=60)
    assert sure.cta_slots == 200
    # 60 ln 4 = 83.2: its root, 9.12, standard errors lie between neighbours.
    assert sure.standard_error == pytest.approx(100 / 9.12, rel=1e-3)
    unsure = occupancy_of({100: 4.0, 200: 1.0, 300: 1.01}, num_shapes=60)
    assert (unsure.cta_slots, unsure.standard_error) == (200, None)
    flat = occupancy_of({100: 1.0, 200: 1.0}, num_shapes=60)
    assert (flat.cta_slots, flat.standard_error) == (100, None)
