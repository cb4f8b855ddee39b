"""Folds by shape, and errors."""

import numpy as np
import pytest
from numpy.typing import NDArray

from hwmodels.fitting.errors import summarise_errors
from hwmodels.fitting.holdout import fold_of_rows, held_out_times_s, shape_numbers
from hwmodels.fitting.parameter import FloatArray
from hwmodels.fitting.rounding import rounded

N = np.repeat(np.arange(1.0, 41.0), 3)
K = np.tile(np.array([1.0, 2.0, 3.0]), 40)


def test_rows_of_one_shape_share_a_fold() -> None:
    folds = fold_of_rows((N,))
    assert all(len(set(folds[n == N].tolist())) == 1 for n in np.unique(N))
    assert set(folds.tolist()) == {0, 1, 2, 3}


def test_a_fold_depends_on_the_shape_alone() -> None:
    order = np.random.default_rng(0).permutation(N.size)
    assert fold_of_rows((N[order],)).tolist() == fold_of_rows((N,))[order].tolist()
    most = N <= 30
    assert fold_of_rows((N[most],)).tolist() == fold_of_rows((N,))[most].tolist()
    assert fold_of_rows((N, K)).tolist() != fold_of_rows((N,)).tolist()


def test_folds_are_of_like_size() -> None:
    folds = fold_of_rows((np.arange(4000.0),))
    assert np.bincount(folds).min() > 900


def test_few_shapes_are_left_out_one_by_one() -> None:
    shapes = np.array([5.0, 5.0, 7.0, 9.0, 9.0])
    assert fold_of_rows((shapes,)).tolist() == [0, 0, 1, 2, 2]


def test_no_row_is_predicted_by_a_fit_that_saw_its_fold() -> None:
    folds = fold_of_rows((N,))
    seen: list[tuple[NDArray[np.bool_], NDArray[np.bool_]]] = []

    def note(fitted: NDArray[np.bool_], wanted: NDArray[np.bool_]) -> FloatArray:
        seen.append((fitted, wanted))
        return np.full(int(wanted.sum()), float(len(seen)))

    predicted = held_out_times_s(note, folds)
    assert not any((fitted & wanted).any() for fitted, wanted in seen)
    assert sum(wanted.sum() for _, wanted in seen) == N.size
    assert all((fitted | wanted).all() for fitted, wanted in seen)
    assert not set(N[seen[0][0]].tolist()) & set(N[seen[0][1]].tolist())
    assert np.isfinite(predicted).all()


def test_shapes_are_numbered_in_order() -> None:
    shapes, index = shape_numbers(np.array([2.0, 1.0, 2.0]), np.array([3.0, 3.0, 3.0]))
    assert shapes.tolist() == [[1.0, 3.0], [2.0, 3.0]]
    assert index.tolist() == [1.0, 0.0, 1.0]


def test_errors_are_relative_to_the_measurement() -> None:
    found = summarise_errors(np.array([1.1, 1.8, 4.0]), np.array([1.0, 2.0, 4.0]))
    assert found.num_rows == 3
    assert found.mape == pytest.approx(0.2 / 3)
    assert found.median == pytest.approx(0.1)
    assert found.p90 == pytest.approx(0.1)
    assert found.bias == pytest.approx(0.0, abs=1e-12)


def test_errors_of_no_rows_are_nan() -> None:
    found = summarise_errors(np.empty(0), np.empty(0))
    assert found.num_rows == 0
    assert np.isnan(found.mape)


@pytest.mark.parametrize(
    ("value", "digits", "expected"),
    [(1.23456789e12, 5, 1.2346e12), (0.0, 5, 0.0), (6.54321e-6, 3, 6.54e-6), (0.1, 5, 0.1)],
)
def test_rounding_keeps_significant_digits(value: float, digits: int, expected: float) -> None:
    assert rounded(value, digits) == expected
