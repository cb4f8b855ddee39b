"""Hold-out by shape: whole shapes are left out of a fit and predicted from the others.

The fold of a shape is a hash of its numbers: it depends neither on the order of the rows nor on
which other shapes there are.
"""

import hashlib
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from hwmodels.fitting.parameter import FloatArray

NUM_FOLDS = 4

FEWEST_PER_FOLD = 4
"""Shapes per fold below which every shape is left out alone."""


def shape_numbers(*columns: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Distinct shapes, shape (shapes, columns), and the number of each row's shape, (rows,)."""
    shapes, index = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)
    return shapes, index.reshape(-1).astype(np.float64)


def fold_of_rows(columns: tuple[FloatArray, ...], num_folds: int = NUM_FOLDS) -> NDArray[np.int64]:
    """Fold of each row; rows of one shape share it.

    With fewer than `FEWEST_PER_FOLD` shapes per fold each shape is a fold of its own.

    Args:
        columns: what makes a shape, each of shape (rows,).
        num_folds: at least 2.
    """
    shapes, index = shape_numbers(*columns)
    if len(shapes) < FEWEST_PER_FOLD * num_folds:
        return index.astype(np.int64)
    folds = np.array([_fold(shape, num_folds) for shape in shapes], dtype=np.int64)
    return folds[index.astype(np.int64)]


def _fold(shape: FloatArray, num_folds: int) -> int:
    text = ",".join(f"{number:.12g}" for number in shape)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") % num_folds


def held_out_times_s(
    fit_and_predict: Callable[[NDArray[np.bool_], NDArray[np.bool_]], FloatArray],
    folds: NDArray[np.int64],
) -> FloatArray:
    """Predictions of every row by a fit that saw no row of its fold, seconds, shape (rows,).

    Args:
        fit_and_predict: takes the rows to fit and the rows to predict (two masks) and returns the
            predictions of the latter.
        folds: fold of each row.
    """
    predicted = np.full(folds.size, np.nan)
    for fold in np.unique(folds):
        is_held_out = folds == fold
        predicted[is_held_out] = fit_and_predict(~is_held_out, is_held_out)
    return predicted
