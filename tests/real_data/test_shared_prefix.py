"""Measured hit curves, prefix trees and decode steps against the closed forms.

The constants are those of the unit tests: restated from fits to these same public figures, so that
errors here are not held out; docs/l2_locality.md has the held-out ones.
"""

import csv
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pytest

from hwmodels.calibrated import CalibratedCost
from hwmodels.device import load_profile
from hwmodels.kernels.l2_curve import L2Curve
from hwmodels.kernels.prefix_batch import PrefixBatch
from hwmodels.kernels.shared_prefix import SharedPrefixKernel, SharedPrefixModel
from hwmodels.kernels.tree_traffic import MemberOrder
from hwmodels.model_catalogue import load_model
from tests.data_path import real_data_file
from tests.unit.hwmodels.locality.devices import A100, A100_L2, ADA_L2, H200_L2, MIB

pytestmark = pytest.mark.real_data

FloatArray = npt.NDArray[np.float64]

# -- hit curves ----------------------------------------------------------------------------------


def bandwidths(gpu: str) -> tuple[FloatArray, FloatArray]:
    """Data sets in bytes from 5 MiB (smaller ones include L1), bandwidths in bytes/s."""
    path = real_data_file("kernels/l2_bandwidth_vs_data_set.csv")
    with path.open(encoding="utf-8") as lines:
        rows = [row for row in csv.DictReader(lines) if row["gpu"] == gpu]
    data_sets = np.array([float(row["data_set_kib"]) * 1024 for row in rows])
    rates = np.array([float(row["effective_gb_per_s"]) * 1e9 for row in rows])
    is_l2 = data_sets >= 5 * MIB
    return data_sets[is_l2], rates[is_l2]


@pytest.mark.parametrize(
    ("gpu", "curve", "tolerance"),
    [("a100_80", A100_L2, 0.04), ("h200", H200_L2, 0.025), ("l40", ADA_L2, 0.02)],
)
def test_hit_curves_follow_the_measured_bandwidths(
    gpu: str, curve: L2Curve, tolerance: float
) -> None:
    data_sets, rates = bandwidths(gpu)
    errors = curve.bytes_per_s(data_sets) / rates - 1.0
    assert np.abs(errors).mean() <= tolerance


# -- prefix trees of the A100 --------------------------------------------------------------------


class TreeRow(NamedTuple):
    """Performance of one kernel on one tree, relative to the kernel that packs nodes."""

    nodes: list[int]
    tokens: list[int]
    num_heads: int
    num_kv_heads: int
    kernel: SharedPrefixKernel
    performance_ratio: float
    reading_ratio: float


def tree_rows() -> list[TreeRow]:
    with real_data_file("kernels/shared_prefix/a100_prefix_trees.csv").open() as lines:
        table = list(csv.DictReader(lines))
    points = {
        (row["heads_q_kv"], row["tree_B_L"], row["method"]): float(row["normalized_perf_pct"])
        for row in table
    }
    kernels: dict[str, SharedPrefixKernel] = {"FlashInfer": "flashinfer", "FlashAttn": "flash_pat"}
    rows = []
    for (heads, tree, method), percent in points.items():
        if method not in kernels:
            continue
        num_heads, num_kv_heads = map(int, heads.split("/"))
        nodes, tokens = ([int(x) for x in part.split(",")] for part in tree.split("_"))
        ratio = percent / points[heads, tree, "PAT"]
        rows.append(
            TreeRow(nodes, tokens, num_heads, num_kv_heads, kernels[method], ratio, 1.5 / percent)
        )
    return rows


def ratio_errors(
    model: SharedPrefixModel, rows: list[TreeRow], member_order: MemberOrder = "contiguous"
) -> FloatArray:
    """Relative errors of the ratio of times, kernel over packed."""
    errors = []
    for row in rows:
        kernel_s, packed_s = (
            model.time_s(
                row.nodes,
                row.tokens,
                row.num_heads,
                row.num_kv_heads,
                kernel=kernel,
                member_order=member_order,
            )
            for kernel in (row.kernel, "packed")
        )
        errors.append(kernel_s / packed_s * row.performance_ratio - 1.0)
    return np.array(errors)


def test_ratios_of_times_on_prefix_trees() -> None:
    rows = tree_rows()
    assert len(rows) == 80
    errors = np.abs(ratio_errors(A100, rows))
    assert errors.mean() <= 0.085
    assert np.median(errors) <= 0.065
    # Performances under 10 points are read to worse than 15 %.
    is_legible = np.array([row.reading_ratio <= 0.15 for row in rows])
    assert errors[is_legible].mean() <= 0.075


def test_without_l2_the_ratios_are_far_off_and_the_midpoint_is_bounded_from_below() -> None:
    rows = tree_rows()

    def mean_error(midpoint_bytes: float) -> float:
        model = replace(A100, l2=replace(A100_L2, midpoint_bytes=midpoint_bytes))
        return float(np.abs(ratio_errors(model, rows)).mean())

    assert mean_error(1.0) > 0.25
    fitted = mean_error(A100_L2.midpoint_bytes)
    # Anything from 17 MiB on does as well: the data bound the midpoint from one side only.
    assert [mean_error(mib * MIB) for mib in (17, 80, 1e6)] == pytest.approx([fitted] * 3, abs=0.01)


def test_these_trees_say_little_about_slots_and_drift() -> None:
    rows = tree_rows()
    fitted = np.abs(ratio_errors(A100, rows)).mean()
    variants: list[dict[str, Any]] = [
        {"cta_slots": 108},
        {"cta_slots": 432},
        {"drift_tokens": 16.0},
    ]
    for changes in variants:
        changed = replace(A100, **changes)
        assert np.abs(ratio_errors(changed, rows)).mean() == pytest.approx(fitted, abs=0.005)


# -- decode steps of the RTX 6000 Ada ------------------------------------------------------------

ADA_GPU = load_profile("rtx6000_ada")
ADA_TREES: SharedPrefixModel = ADA_GPU.kernel("shared_prefix")


def step_s(kernel: SharedPrefixKernel, model: SharedPrefixModel = ADA_TREES) -> float:
    """A decode step of Llama-3.1-8B: 100 requests, one prefix of 10,000 tokens, 20 + 25 of their
    own (the middle of 50 output tokens)."""
    llama, size = load_model("llama3_1_8b"), 100
    batch = PrefixBatch.from_levels([1, size], [10_000, 45])
    attention_s = model.steps_s(batch, 32, 8, kernel=kernel)[0]
    rest_s = CalibratedCost(ADA_GPU, llama).tokens_s(size, size) + ADA_GPU.step_overhead_s
    return float(rest_s + llama.num_layers * attention_s)


def measured_s(default: str) -> tuple[float, float]:
    """Lowest and highest measured time per output token with 100 requests, seconds."""
    path = real_data_file("e2e/feather_ada_anchor.csv")
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    (row,) = (
        row
        for row in csv.DictReader(lines)
        if row["cascade_default"] == default and row["max_batch"] == "100"
    )
    return float(row["tpot_ms_low"]) / 1e3, float(row["tpot_ms_high"]) / 1e3


@pytest.mark.parametrize(("default", "kernel"), [("on", "flash_cascade"), ("off", "flash")])
def test_steps_with_and_without_cascade(default: str, kernel: SharedPrefixKernel) -> None:
    low_s, high_s = measured_s(default)
    assert 0.9 * low_s <= step_s(kernel) <= 1.1 * high_s
    assert step_s(kernel) == pytest.approx((low_s + high_s) / 2, rel=0.10)


def test_neither_measurement_fits_a_cache_that_holds_nothing() -> None:
    empty = replace(ADA_TREES, l2=replace(ADA_L2, midpoint_bytes=1.0))
    assert step_s("flash", empty) > 1.8 * measured_s("off")[1]
