"""Standard errors against cases that can be computed by hand."""

import numpy as np
import pytest

from hwmodels.fitting.standard_errors import robust_covariance


def test_a_mean_of_small_residuals_has_the_error_of_a_mean() -> None:
    residuals = np.array([0.01, -0.01, 0.02, -0.02, 0.0])
    jacobian = np.ones((5, 1))
    covariance = robust_covariance(jacobian, residuals, np.arange(5.0), scale=1e3)
    # sum of squares 1e-3 over n^2 = 25, times n / (n - 1) = 5 / 4
    assert covariance[0, 0] == pytest.approx(1e-3 / 25 * 5 / 4, rel=1e-6)


def test_equal_residuals_within_a_group_widen_the_error() -> None:
    residuals = np.array([0.01, 0.01, -0.01, -0.01])
    jacobian = np.ones((4, 1))
    grouped = robust_covariance(jacobian, residuals, np.array([0.0, 0, 1, 1]), scale=1e3)
    # two groups add 0.02 and -0.02: 8e-4 over 16, times 2 / 1 * 3 / 3
    assert grouped[0, 0] == pytest.approx(8e-4 / 16 * 2, rel=1e-6)


def test_with_fewer_groups_than_twice_the_parameters_rows_count_alone() -> None:
    residuals = np.array([0.01, 0.01, -0.01, -0.01])
    jacobian = np.ones((4, 1))
    one_group = robust_covariance(jacobian, residuals, np.zeros(4), scale=1e3)
    alone = robust_covariance(jacobian, residuals, np.arange(4.0), scale=1e3)
    assert one_group[0, 0] == alone[0, 0] > 0


def test_an_outlier_counts_with_its_bounded_slope() -> None:
    jacobian = np.ones((3, 1))
    near = robust_covariance(jacobian, np.array([0.0, 0.0, 1.0]), np.arange(3.0), scale=0.05)
    far = robust_covariance(jacobian, np.array([0.0, 0.0, 100.0]), np.arange(3.0), scale=0.05)
    assert far[0, 0] == pytest.approx(near[0, 0], rel=0.01)


def test_a_direction_without_data_is_infinite_and_the_other_is_not() -> None:
    jacobian = np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [1.0, 0.0]])
    residuals = np.array([0.01, -0.01, 0.01, -0.01])
    covariance = robust_covariance(jacobian, residuals, np.arange(4.0), scale=0.05)
    assert np.isfinite(covariance[0, 0])
    assert np.isinf(covariance[1, 1])


def test_two_columns_that_say_the_same_are_both_infinite() -> None:
    jacobian = np.ones((6, 2))
    residuals = np.array([0.01, -0.01] * 3)
    covariance = robust_covariance(jacobian, residuals, np.arange(6.0), scale=0.05)
    assert np.isinf(np.diag(covariance)).all()
