"""Transferred kernels against tables of devices that were measured after all."""

from dataclasses import replace

import pytest

from hwmodels.device import load_profile
from hwmodels.fitting.kernel_transfer import transfer_kernels
from hwmodels.fitting.recipe import fit_kernel
from hwmodels.fitting.recipes.l2 import l2_recipe
from hwmodels.fitting.transfer_facts import (
    L40_CURVE,
    L40_PEAK_BYTES_PER_S,
    L40_RANGE_BYTES,
    STREAMS_BYTES_PER_S,
)
from hwmodels.fitting.validation import FITTED, compare
from hwmodels.measurements.data_folder import TABLES
from hwmodels.measurements.l2_bandwidth import load_l2_bandwidth
from tests.data_path import real_data_dir, real_data_file

pytestmark = pytest.mark.real_data

LARGEST_ERRORS = {
    ("h100_sxm", "h200_sxm"): {
        "gemm": 0.07,
        "decode_attention": 0.07,
        "prefill_attention": 0.12,
        "all_reduce": 0.04,
        "nccl": 0.08,
        "l2": 0.02,
    },
    ("a100_sxm_80gb", "h100_sxm"): {
        "gemm": 0.18,
        "decode_attention": 0.62,
        "prefill_attention": 0.16,
        "all_reduce": 0.18,
        "nccl": 0.44,
        "small_ops": 0.24,
    },
    ("a100_sxm_80gb", "h200_sxm"): {
        "gemm": 0.20,
        "decode_attention": 0.54,
        "prefill_attention": 0.15,
        "all_reduce": 0.19,
        "nccl": 0.43,
        "l2": 0.19,
    },
}
"""Source and target -> largest mean absolute relative error by kernel, in the range of the fits."""


@pytest.mark.parametrize("pair", LARGEST_ERRORS)
def test_a_transfer_errs_as_little_as_stated_where_it_can_be_checked(pair: tuple[str, str]) -> None:
    real_data_file(TABLES[pair[1]].gemm)
    source, target = map(load_profile, pair)
    models = transfer_kernels(source.kernels, source, target, "2026-01-02")
    found = {
        one.kernel: one.errors.mape
        for one in compare(models, real_data_dir())
        if one.subset == FITTED
    }
    for kernel, largest in LARGEST_ERRORS[pair].items():
        assert 0.5 * largest < found[kernel] < largest, kernel


def test_the_curve_of_the_l40_is_what_the_recipe_fits() -> None:
    rows = load_l2_bandwidth(real_data_file("kernels/l2_bandwidth_vs_data_set.csv"), "l40")
    device = replace(load_profile("l40s"), hbm_bytes_per_s=L40_PEAK_BYTES_PER_S)
    found = fit_kernel(l2_recipe(device), rows)
    assert found.model == L40_CURVE
    assert found.provenance.valid["data_set_bytes"] == L40_RANGE_BYTES
    assert found.held_out.mape == pytest.approx(0.087, abs=0.001)


@pytest.mark.parametrize("name", ["a100_sxm_80gb", "h200_sxm"])
def test_streams_are_those_of_the_fitted_curves(name: str) -> None:
    curve = load_profile(name).kernels.l2
    assert curve is not None
    assert STREAMS_BYTES_PER_S[name] == pytest.approx(curve.hbm_bytes_per_s, rel=0.002)
    assert STREAMS_BYTES_PER_S["l40s"] == pytest.approx(L40_CURVE.hbm_bytes_per_s, rel=0.002)
