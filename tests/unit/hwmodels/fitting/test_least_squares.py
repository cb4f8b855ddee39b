"""The robust fit: recovery, outliers, identifiability, bounds, repeatability."""

from collections.abc import Mapping

import numpy as np
import pytest

from hwmodels.fitting.least_squares import FitResult, fit_log_error
from hwmodels.fitting.parameter import FloatArray, Parameter
from sim.errors import ConfigError

SIZES = np.geomspace(1e3, 1e9, 200)
TRUE = {"launch_s": 5e-6, "bytes_per_s": 1.5e12}
PARAMETERS = (
    Parameter(name="launch_s", start=1e-6, low=1e-7, high=1e-4),
    Parameter(name="bytes_per_s", start=5e11, low=1e11, high=5e12),
)


def affine_s(values: Mapping[str, float]) -> FloatArray:
    return np.asarray(values["launch_s"] + SIZES / values["bytes_per_s"])


def noisy_s(seed: int, noise: float = 0.03) -> FloatArray:
    rng = np.random.default_rng(seed)
    return np.asarray(affine_s(TRUE) * np.exp(noise * rng.standard_normal(SIZES.size)))


def deviations(result: FitResult) -> list[float]:
    """Distance of each value from the truth, in its own standard errors."""
    found = []
    for name, error in result.standard_errors.items():
        assert error is not None
        found.append(abs(result.values[name] - TRUE[name]) / error)
    return found


def test_exact_times_give_the_exact_parameters() -> None:
    result = fit_log_error(affine_s, affine_s(TRUE), PARAMETERS)
    assert result.values == pytest.approx(TRUE, rel=1e-5)
    assert result.not_identified == ()
    assert result.num_rows == 200


@pytest.mark.parametrize("seed", range(5))
def test_noisy_rows_give_the_parameters_within_their_stated_error(seed: int) -> None:
    result = fit_log_error(affine_s, noisy_s(seed), PARAMETERS)
    assert max(deviations(result)) < 3.5
    relative = [result.standard_errors[name] / TRUE[name] for name in TRUE]  # type: ignore[operator]
    assert max(relative) < 0.01


def test_stated_errors_cover_the_truth_as_often_as_one_sigma_should() -> None:
    inside = []
    for seed in range(40):
        inside += [z < 1.0 for z in deviations(fit_log_error(affine_s, noisy_s(seed), PARAMETERS))]
    assert 0.55 < np.mean(inside) < 0.80


def test_one_row_in_ten_three_times_too_slow_hardly_moves_the_fit() -> None:
    times_s = noisy_s(0)
    times_s[::10] *= 3.0
    result = fit_log_error(affine_s, times_s, PARAMETERS)
    assert result.values == pytest.approx(TRUE, rel=0.03)


def test_a_parameter_that_no_row_shows_keeps_its_prior_and_has_no_error() -> None:
    small = np.geomspace(1e3, 1e5, 50)  # at most 0.07 us of 5 us

    def launch_bound_s(values: Mapping[str, float]) -> FloatArray:
        return np.asarray(values["launch_s"] + small / values["bytes_per_s"])

    noise = np.exp(0.03 * np.random.default_rng(1).standard_normal(small.size))
    result = fit_log_error(launch_bound_s, launch_bound_s(TRUE) * noise, PARAMETERS)
    assert result.not_identified == ("bytes_per_s",)
    assert result.values["bytes_per_s"] == 5e11
    assert result.values["launch_s"] == pytest.approx(5e-6, rel=0.03)


def test_a_term_that_is_not_there_becomes_its_prior_of_zero() -> None:
    unused = Parameter(name="extra_s", start=1e-6, low=1e-9, high=1e-3, prior=0.0)

    def with_extra_s(values: Mapping[str, float]) -> FloatArray:
        return np.asarray(affine_s(values) + values["extra_s"] * (SIZES > 5e8))

    result = fit_log_error(with_extra_s, noisy_s(3), (*PARAMETERS, unused))
    assert result.not_identified == ("extra_s",)
    assert result.values["extra_s"] == 0.0


def test_a_fit_stays_inside_its_bounds() -> None:
    capped = (PARAMETERS[0], Parameter(name="bytes_per_s", start=5e11, low=1e11, high=1e12))
    result = fit_log_error(affine_s, noisy_s(0), capped)
    assert result.values["bytes_per_s"] == 1e12
    assert result.at_bound == ("bytes_per_s",)
    assert result.standard_errors["bytes_per_s"] is None
    assert result.not_identified == ()


def test_a_fit_repeats_exactly() -> None:
    assert fit_log_error(affine_s, noisy_s(2), PARAMETERS) == fit_log_error(
        affine_s, noisy_s(2), PARAMETERS
    )


def test_rows_of_one_shape_do_not_count_as_independent() -> None:
    shared = np.exp(0.1 * np.random.default_rng(5).standard_normal(20)).repeat(10)
    times_s = affine_s(TRUE) * shared
    groups = np.arange(20, dtype=np.float64).repeat(10)
    alone = fit_log_error(affine_s, times_s, PARAMETERS).standard_errors["launch_s"]
    grouped = fit_log_error(affine_s, times_s, PARAMETERS, groups).standard_errors["launch_s"]
    assert alone is not None
    assert grouped is not None
    assert grouped > 1.5 * alone


@pytest.mark.parametrize("bad", [0.0, -1e-6, np.nan, np.inf])
def test_a_time_that_is_no_time_is_refused(bad: float) -> None:
    times_s = affine_s(TRUE)
    times_s[7] = bad
    with pytest.raises(ConfigError, match="finite and above zero"):
        fit_log_error(affine_s, times_s, PARAMETERS)


def test_too_few_rows_are_refused() -> None:
    with pytest.raises(ConfigError, match="2 rows are too few to fit 2 parameters"):
        fit_log_error(affine_s, np.array([1.0, 2.0]), PARAMETERS)


@pytest.mark.parametrize(
    ("low", "start", "high", "prior"),
    [(0.0, 1.0, 2.0, None), (1.0, 0.5, 2.0, None), (1.0, 3.0, 2.0, None), (1.0, 1.5, 2.0, -1.0)],
)
def test_a_parameter_needs_ordered_bounds(
    low: float, start: float, high: float, prior: float | None
) -> None:
    with pytest.raises(ConfigError, match="parameter x: need 0 < low <= start <= high"):
        Parameter(name="x", start=start, low=low, high=high, prior=prior)
