"""How well a table predicts shapes that it does not hold."""

from typing import Any

import numpy as np

from hwmodels.fitting.holdout import shape_numbers
from hwmodels.fitting.rounding import rounded
from hwmodels.tables.axes import TABLED_KERNELS
from hwmodels.tables.points import HeldOutErrors, MeasuredPoints
from sim.interfaces import FloatArray

NUM_FOLDS = 5
"""Every fifth shape, in the order of their numbers, is held out together."""

_DIGITS = 3


def heldout_predictions_s(points: MeasuredPoints, form: Any) -> FloatArray | None:
    """Seconds of every point by the form and the points of other shapes. Shape (points,).

    None where there are fewer shapes than folds.
    """
    kernel = TABLED_KERNELS[points.kernel]
    shapes, index = shape_numbers(*(points.columns[name] for name in kernel.shape_columns))
    if len(shapes) < NUM_FOLDS:
        return None
    predicted_s = kernel.form_s(form, points.columns)
    places = kernel.coordinates(points.columns)
    folds = index.astype(np.int64) % NUM_FOLDS
    for fold in range(NUM_FOLDS):
        is_held_out = folds == fold
        others = points.where(~is_held_out).residuals(form)
        predicted_s[is_held_out] *= others.factor(places[is_held_out])
    return predicted_s


def heldout_errors(points: MeasuredPoints, form: Any) -> HeldOutErrors | None:
    """Errors of the form alone and with the table on held-out shapes; None with too few."""
    predicted_s = heldout_predictions_s(points, form)
    if predicted_s is None:
        return None
    kernel = TABLED_KERNELS[points.kernel]
    shapes, _ = shape_numbers(*(points.columns[name] for name in kernel.shape_columns))
    alone_s = kernel.form_s(form, points.columns)
    return HeldOutErrors(
        num_shapes=len(shapes),
        num_rows=points.num_points,
        form_mape=rounded(_mape(alone_s, points.time_s), _DIGITS),
        table_mape=rounded(_mape(predicted_s, points.time_s), _DIGITS),
    )


def _mape(predicted_s: FloatArray, measured_s: FloatArray) -> float:
    return float(np.abs(predicted_s / measured_s - 1.0).mean())
