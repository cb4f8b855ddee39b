"""Standard errors of a robust fit from its Jacobian, with rows of one shape as one observation."""

import numpy as np

from hwmodels.fitting.parameter import FloatArray


def robust_covariance(
    jacobian: FloatArray, residuals: FloatArray, groups: FloatArray, scale: float
) -> FloatArray:
    """Covariance of the parameters of a soft-L1 fit, shape (parameters, parameters).

    `A^-1 (sum over groups of g g^T) A^-1` with `g` the gradient that the rows of one group add and
    `A` the curvature of the loss, times `G / (G - 1) * (n - 1) / (n - p)` for G groups, n rows and
    p parameters. With fewer than 2 p groups every row counts as its own group.
    A direction in which no row says anything gets an infinite variance.

    Args:
        jacobian: derivatives of the residuals, shape (rows, parameters).
        residuals: at the solution, shape (rows,).
        groups: number of the group of each row, shape (rows,).
        scale: residual from which the loss is linear.

    Source: sandwich estimator for M-estimators (Huber, Robust Statistics, 1981, section 7.6) with
    the sum over clusters of Liang and Zeger (Biometrika 73, 1986).
    """
    ratio = 1 + (residuals / scale) ** 2
    slope = residuals / np.sqrt(ratio)
    curvature = (jacobian * (ratio**-1.5)[:, None]).T @ jacobian
    num_rows, size = jacobian.shape
    _, index = np.unique(groups, return_inverse=True)
    if int(index.max()) + 1 < 2 * size:
        index = np.arange(num_rows)
    num_groups = int(index.max()) + 1
    gradients = np.zeros((num_groups, jacobian.shape[1]))
    np.add.at(gradients, index, jacobian * slope[:, None])
    strength = np.sqrt(np.diag(curvature))
    if (strength < 1e-9).any() or np.linalg.cond(_scaled(curvature, strength)) > 1e12:
        return _with_infinite(curvature, gradients)
    inverse = np.linalg.inv(curvature)
    correction = num_groups / (num_groups - 1) * (num_rows - 1) / (num_rows - size)
    covariance: FloatArray = inverse @ (gradients.T @ gradients) @ inverse * correction
    return covariance


def _scaled(matrix: FloatArray, strength: FloatArray) -> FloatArray:
    scaled: FloatArray = matrix / np.outer(strength, strength)
    return scaled


def _with_infinite(curvature: FloatArray, gradients: FloatArray) -> FloatArray:
    """Covariance by the pseudo-inverse; parameters that a null direction moves are infinite."""
    values, vectors = np.linalg.eigh(curvature)
    is_null = values <= 1e-12 * max(float(values.max()), 1e-30)
    inverse = np.linalg.pinv(curvature, rcond=1e-12, hermitian=True)
    covariance: FloatArray = inverse @ (gradients.T @ gradients) @ inverse
    moved = (np.abs(vectors[:, is_null]) > 0.1).any(axis=1)
    covariance[moved, moved] = np.inf
    return covariance
