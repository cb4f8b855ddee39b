"""Held-out errors: whole shapes are predicted by the points of the others."""

import numpy as np
import pytest

from hwmodels.tables.axes import TABLED_KERNELS
from hwmodels.tables.heldout import heldout_errors, heldout_predictions_s
from hwmodels.tables.points import MeasuredPoints
from tests.unit.hwmodels.tables.toy_tables import MODELS, grid, points


def gemm_points(factor: float, sides: list[float]) -> MeasuredPoints:
    columns = grid(m=[1, 16, 256], n=sides, k=sides)
    assert MODELS.gemm is not None
    time_s = factor * TABLED_KERNELS["gemm"].form_s(MODELS.gemm, columns)
    return MeasuredPoints(kernel="gemm", columns=columns, time_s=time_s, source="toy")


def test_what_all_shapes_have_in_common_is_predicted_for_the_one_held_out() -> None:
    errors = heldout_errors(gemm_points(1.25, [1024, 2048, 4096]), MODELS.gemm)
    assert errors is not None
    assert (errors.num_shapes, errors.num_rows) == (9, 27)
    assert errors.form_mape == pytest.approx(0.2, rel=1e-9)  # 1 / 1.25 - 1
    assert errors.table_mape == pytest.approx(0.0, abs=1e-9)


def test_a_shape_is_not_predicted_by_its_own_points() -> None:
    measured = gemm_points(1.0, [1024, 2048, 4096])
    n, k = measured.columns["n"], measured.columns["k"]
    is_odd = (n == 2048) & (k == 2048)
    odd = MeasuredPoints(
        kernel="gemm",
        columns=measured.columns,
        time_s=np.where(is_odd, 3.0, 1.0) * measured.time_s,
        source="toy",
    )
    predicted_s = heldout_predictions_s(odd, MODELS.gemm)
    assert predicted_s is not None
    assert predicted_s[is_odd] == pytest.approx(measured.time_s[is_odd], rel=1e-12)


def test_too_few_shapes_are_not_held_out_and_their_points_count() -> None:
    measured = gemm_points(1.25, [1024, 2048])
    assert heldout_errors(measured, MODELS.gemm) is None
    assert measured.is_used
    assert points("moe", lambda columns: 1.0).is_used
