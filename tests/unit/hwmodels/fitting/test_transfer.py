"""Kernels taken from another device."""

from dataclasses import replace

import pytest

from hwmodels.device import load_profile
from hwmodels.fitting.transfer import h100_l2_curve, scaled_to, transferred
from hwmodels.kernels.l2_curve import L2Curve
from hwmodels.kernels.moe import MoeModel
from hwmodels.kernels.packed import PackedModel
from hwmodels.kernels.provenance import Provenance

A100, H100, H200 = map(load_profile, ("a100_sxm_80gb", "h100_sxm", "h200_sxm"))

MOE = MoeModel(
    launch_s=3e-5,
    hbm_bytes_per_s=1.9e12,
    flops_per_s=1.2e14,
    p_norm=1.5,
    expert_s=4e-8,
    activation_weight=2.9,
)


def test_rates_scale_by_the_peaks_and_all_else_stays() -> None:
    moved = scaled_to(MOE, A100, H100, frozenset())
    assert moved.flops_per_s == pytest.approx(1.2e14 * 989.4 / 312, rel=1e-4)
    assert moved.hbm_bytes_per_s == pytest.approx(1.9e12 * 3350 / 2039, rel=1e-4)
    assert replace(moved, flops_per_s=MOE.flops_per_s, hbm_bytes_per_s=1.9e12) == MOE


def test_kept_fields_stay() -> None:
    packed = PackedModel(
        launch_s=1e-5, hbm_bytes_per_s=1.7e12, flops_per_s=1e14, p_norm=2, merge_bytes_per_s=3e12
    )
    moved = scaled_to(packed, A100, H100, frozenset({"merge_bytes_per_s"}))
    assert moved.merge_bytes_per_s == 3e12
    assert moved.hbm_bytes_per_s > packed.hbm_bytes_per_s


def test_a_transfer_states_no_error_and_is_extrapolated() -> None:
    record = Provenance(
        standard_errors={"launch_s": 1e-6},
        num_rows=10,
        heldout_mape=0.1,
        source="a table",
        valid={"num_tokens": (1.0, 2.0)},
    )
    moved = transferred(record, A100, "all the same.")
    assert moved.is_extrapolated
    assert moved.num_rows == 0
    assert moved.heldout_mape is None
    assert moved.standard_errors == {"launch_s": None}
    assert moved.valid == record.valid
    assert moved.source == "Transferred from a100_sxm_80gb: all the same. There: a table"


def test_the_h100_curve_has_the_smaller_cache_and_the_slower_memory() -> None:
    h200 = L2Curve(
        midpoint_bytes=5.7e7, log_width=0.1, l2_bytes_per_s=1e13, hbm_bytes_per_s=3.84e12
    )
    h100 = h100_l2_curve(h200, H200, H100)
    assert h100.l2_bytes_per_s == 1e13
    assert h100.hbm_bytes_per_s == pytest.approx(0.8 * 3.35e12, rel=1e-4)
    assert h100.midpoint_bytes == pytest.approx(48.71 * 2**20, rel=1e-4)
    assert h100.midpoint_bytes < H100.l2_bytes
