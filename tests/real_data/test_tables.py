"""Tables of the measured GPUs: shapes that they do not hold, and those that they do."""

from functools import cache

import numpy as np
import pytest

from hwmodels.device import load_profile
from hwmodels.fitting.errors import summarise_errors
from hwmodels.measurements.data_folder import TABLES
from hwmodels.tables.axes import TABLED_KERNELS
from hwmodels.tables.build import table_of_folder
from hwmodels.tables.device_table import DeviceTable
from hwmodels.tables.heldout import heldout_predictions_s
from hwmodels.tables.join import tabled
from tests.data_path import real_data_dir, real_data_file

pytestmark = pytest.mark.real_data

DEVICES = ("a100_sxm_80gb", "h100_sxm", "h200_sxm")

HELD_OUT = {"gemm": 0.06, "decode_attention": 0.035, "prefill_attention": 0.065, "nccl": 0.05}
"""Largest error on shapes that a table does not hold, by kernel."""

LEFT_TO_THE_FORM = {"all_reduce"}
"""45 points of one kernel: the form predicts a held-out one better than its neighbours do."""


@cache
def table(device: str) -> DeviceTable:
    real_data_file(TABLES[device].gemm)
    return table_of_folder(load_profile(device), real_data_dir(), "2026-01-02")


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kernel", list(HELD_OUT))
def test_shapes_that_a_table_does_not_hold_are_predicted_better_than_by_the_form(
    device: str, kernel: str
) -> None:
    errors = table(device).kernels[kernel].heldout
    assert errors is not None
    assert errors.table_mape <= HELD_OUT[kernel]
    assert errors.table_mape <= 0.65 * errors.form_mape


@pytest.mark.parametrize("kernel", ["gemm", "decode_attention"])
def test_so_are_those_in_the_range_that_the_form_was_fitted_to(kernel: str) -> None:
    points = table("a100_sxm_80gb").kernels[kernel]
    columns = points.columns
    if kernel == "gemm":
        scope = np.minimum(columns["n"], columns["k"]) >= 1024
    else:
        scope = (columns["batch_size"] <= 512) & (columns["context_tokens"] >= 128)
    form = load_profile("a100_sxm_80gb").kernel(kernel)
    predicted_s = heldout_predictions_s(points, form)
    assert predicted_s is not None
    alone_s = TABLED_KERNELS[kernel].form_s(form, columns)
    held_out = summarise_errors(predicted_s[scope], points.time_s[scope])
    alone = summarise_errors(alone_s[scope], points.time_s[scope])
    assert held_out.mape <= {"gemm": 0.05, "decode_attention": 0.035}[kernel]
    assert held_out.mape <= 0.75 * alone.mape
    assert abs(held_out.bias) <= 0.01


@pytest.mark.parametrize("device", DEVICES)
def test_a_measured_point_costs_what_was_measured(device: str) -> None:
    found = table(device)
    kernels = tabled(load_profile(device).kernels, found)
    for name, points in found.kernels.items():
        assert points.is_used == (name not in LEFT_TO_THE_FORM), name
        if points.is_used:
            time_s = TABLED_KERNELS[name].form_s(getattr(kernels, name), points.columns)
            np.testing.assert_allclose(time_s, points.time_s, rtol=1e-12)


def test_the_form_alone_prices_what_nobody_measured() -> None:
    form = load_profile("a100_sxm_80gb").kernels
    kernels = tabled(form, table("a100_sxm_80gb"))
    assert kernels.decode_attention is not None and form.decode_attention is not None
    assert kernels.prefill_attention is not None and form.prefill_attention is not None
    many_heads = ([3000] * 32, 32, 32)  # tables hold 8 KV heads at most
    found_s = kernels.decode_attention.lengths_time_s(*many_heads)
    assert found_s == form.decode_attention.lengths_time_s(*many_heads)
    behind = (1, 512, 8192, 32, 8)  # tables hold no prefix
    assert kernels.prefill_attention.time_s(*behind) == form.prefill_attention.time_s(*behind)
