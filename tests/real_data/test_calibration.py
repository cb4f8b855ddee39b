"""The shipped profiles against the measured tables, and the fits that made them."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray

from hwmodels.device import load_profile
from hwmodels.fitting.device_fit import fit_plan
from hwmodels.fitting.device_plan import MIXED_STEPS, mixed_attention_plan, plan_of
from hwmodels.fitting.errors import summarise_errors
from hwmodels.fitting.holdout import fold_of_rows, held_out_times_s
from hwmodels.fitting.least_squares import fit_log_error
from hwmodels.fitting.parameter import FloatArray, Parameter
from hwmodels.fitting.recipe import fit_kernel
from hwmodels.fitting.recipes.mixed_attention import carried_to
from hwmodels.fitting.recipes.shared_prefix import ratio_rows, shared_prefix_recipe
from hwmodels.fitting.recipes.unequal_lengths import (
    NUM_HEADS,
    NUM_KV_HEADS,
    RTX_DECODE,
    predict_batches_s,
    unequal_lengths_recipe,
)
from hwmodels.fitting.validation import FITTED, Comparison, compare
from hwmodels.kernels.models import KernelModels, load_kernels
from hwmodels.measurements.data_folder import TABLES
from hwmodels.measurements.rows import file_sha256
from hwmodels.measurements.shared_prefix import load_shared_prefix
from hwmodels.measurements.unequal_lengths import load_decode_batches, load_unequal_lengths
from tests.data_path import real_data_dir, real_data_file

pytestmark = pytest.mark.real_data

CHUNK = ("chunk_tokens", "prefix_tokens")
DEVICES = ("a100_sxm_80gb", "h100_sxm", "h200_sxm")

LARGE, MANY_HEADS = "n and k >= 1024", "chunk >= 128, 8 heads or more"

TOLERANCES: dict[tuple[str, str], dict[str, float]] = {
    ("gemm", LARGE): dict.fromkeys(DEVICES, 0.07),
    ("gemm", FITTED): dict.fromkeys(DEVICES, 0.07),
    ("decode_attention", FITTED): {"a100_sxm_80gb": 0.09, "h100_sxm": 0.08, "h200_sxm": 0.08},
    ("prefill_attention", MANY_HEADS): dict.fromkeys(DEVICES, 0.09),
    ("prefill_attention", FITTED): dict.fromkeys(DEVICES, 0.09),
    ("moe", FITTED): {"a100_sxm_80gb": 0.18},
    ("all_reduce", FITTED): {"a100_sxm_80gb": 0.06, "h100_sxm": 0.03, "h200_sxm": 0.03},
    ("nccl", FITTED): {"a100_sxm_80gb": 0.12, "h100_sxm": 0.08, "h200_sxm": 0.08},
    ("small_ops", FITTED): {"a100_sxm_80gb": 0.13, "h100_sxm": 0.11},
    ("l2", FITTED): {"a100_sxm_80gb": 0.03, "h200_sxm": 0.012},
    ("shared_prefix", FITTED): {"a100_sxm_80gb": 0.07},
}
"""Largest mean absolute relative error of a shipped profile, by kernel, rows and device."""

HELD_OUT: dict[str, dict[str, float]] = {
    "gemm": dict.fromkeys(DEVICES, 0.07),
    "decode_attention": {"a100_sxm_80gb": 0.09, "h100_sxm": 0.08, "h200_sxm": 0.08},
    "prefill_attention": dict.fromkeys(DEVICES, 0.09),
    "moe": {"a100_sxm_80gb": 0.19},
    "all_reduce": {"a100_sxm_80gb": 0.08, "h100_sxm": 0.04, "h200_sxm": 0.04},
    "nccl": {"a100_sxm_80gb": 0.14, "h100_sxm": 0.09, "h200_sxm": 0.09},
    "small_ops": {"a100_sxm_80gb": 0.13, "h100_sxm": 0.11},
    "l2": {"a100_sxm_80gb": 0.03, "h200_sxm": 0.012},
    "shared_prefix": {"a100_sxm_80gb": 0.09},
}
"""Largest held-out error that a shipped profile states."""


@cache
def comparisons(device: str) -> list[Comparison]:
    return compare(load_kernels(device), real_data_dir())


def comparison(device: str, kernel: str, subset: str) -> Comparison:
    real_data_file(TABLES[device].gemm)
    return next(one for one in comparisons(device) if (one.kernel, one.subset) == (kernel, subset))


@pytest.mark.parametrize(
    ("kernel", "subset", "device"),
    [(*which, device) for which, limits in TOLERANCES.items() for device in limits],
)
def test_a_shipped_profile_is_as_close_as_its_tolerance(
    kernel: str, subset: str, device: str
) -> None:
    errors = comparison(device, kernel, subset).errors
    assert errors.mape <= TOLERANCES[kernel, subset][device]
    assert abs(errors.bias) <= 0.03


@pytest.mark.parametrize(
    ("kernel", "device"), [(kernel, device) for kernel in HELD_OUT for device in HELD_OUT[kernel]]
)
def test_a_shipped_profile_states_its_error_on_held_out_shapes(kernel: str, device: str) -> None:
    stated = load_kernels(device).provenance[kernel].heldout_mape
    assert stated is not None
    assert stated <= HELD_OUT[kernel][device]
    in_sample = comparison(device, kernel, FITTED).errors.mape
    assert stated >= 0.95 * in_sample, "rows that were not seen cannot be predicted better"


@pytest.mark.parametrize("device", DEVICES)
def test_a_shipped_profile_names_the_tables_that_are_here(device: str) -> None:
    for file, sha256 in load_kernels(device).inputs.items():
        assert file_sha256(real_data_file(file)) == sha256


@pytest.mark.parametrize(
    ("device", "kernel"),
    [
        ("a100_sxm_80gb", "prefill_attention"),
        ("a100_sxm_80gb", "decode_attention"),
        ("a100_sxm_80gb", "moe"),
        ("h200_sxm", "decode_attention"),
        ("h100_sxm", "small_ops"),
        ("h100_sxm", "all_reduce"),
        ("h200_sxm", "nccl"),
        ("h200_sxm", "l2"),
    ],
)
def test_fitting_again_gives_the_shipped_kernel(device: str, kernel: str) -> None:
    plan = plan_of(load_profile(device), kernel)
    for file in plan.files:
        real_data_file(file)
    found = fit_plan(plan, real_data_dir())
    shipped = load_kernels(device)
    assert found.model == getattr(shipped, kernel)
    assert found.provenance == shipped.provenance[kernel]


@pytest.mark.parametrize(
    ("device", "kernels"),
    [
        ("a100_sxm_80gb", {"mixed_attention"}),
        ("h100_sxm", {"mixed_attention", "moe", "l2", "shared_prefix"}),
        ("h200_sxm", {"mixed_attention", "moe", "small_ops", "shared_prefix"}),
    ],
)
def test_what_nobody_measured_is_marked(device: str, kernels: set[str]) -> None:
    records = load_kernels(device).provenance
    assert {name for name, record in records.items() if record.is_extrapolated} == kernels
    for name in kernels:
        assert records[name].heldout_mape is None
        assert records[name].num_rows == 0


def test_transferred_slots_are_those_of_the_device() -> None:
    for device in DEVICES:
        model = load_kernels(device).shared_prefix
        assert model is not None
        assert model.cta_slots == 2 * load_profile(device).num_sms


@pytest.mark.parametrize("device", DEVICES)
def test_no_prediction_beats_the_datasheet(device: str) -> None:
    spec = load_profile(device)
    gemm = comparison(device, "gemm", FITTED)
    m, n, k = (gemm.columns[name] for name in "mnk")
    flops_s = 2 * m * n * k / spec.peak_flops_per_s
    bytes_s = 2 * (m * k + k * n + m * n) / spec.hbm_bytes_per_s
    assert (gemm.predicted >= np.maximum(flops_s, bytes_s)).all()
    decode = comparison(device, "decode_attention", FITTED).columns
    tokens = decode["batch_size"] * decode["context_tokens"] * decode["num_kv_heads"]
    predicted = comparison(device, "decode_attention", FITTED).predicted
    assert (predicted >= 4 * 128 * tokens / spec.hbm_bytes_per_s).all()


def test_the_straggler_of_unequal_lengths_grows_with_the_excess_of_the_longest() -> None:
    """Another GPU than any profile: only the direction and the size of the effect are checked."""
    rows = load_unequal_lengths(real_data_file(MIXED_STEPS))
    added = rows.time_s / rows.columns["equal_mean_s"] - 1
    batch = rows.columns["batch_size"]
    medians = [float(np.median(added[batch == size])) for size in (64.0, 128.0, 256.0)]
    assert medians == sorted(medians, reverse=True)
    assert 0.0 < medians[-1] < 0.05
    assert medians[0] < 0.15
    assert float(np.median(np.abs(added[batch <= 8]))) < 0.10


def test_the_rate_of_the_longest_context_is_fitted_to_unequal_lengths() -> None:
    rows = load_decode_batches(real_data_file(MIXED_STEPS))
    found = fit_kernel(unequal_lengths_recipe(), rows)
    assert found.model == RTX_DECODE
    assert found.provenance.standard_errors["straggler_bytes_per_s"] == pytest.approx(1.06e9)
    assert found.held_out.mape < 0.05
    assert found.held_out_parts["unequal lengths"].mape < 0.05
    # On A100 it is the rate of one block, which is fitted there: the same within a tenth.
    ampere = load_kernels("a100_sxm_80gb").decode_attention
    assert ampere is not None
    assert ampere.straggler_bytes_per_s == ampere.cta_mha_bytes_per_s
    assert ampere.straggler_bytes_per_s == pytest.approx(RTX_DECODE.straggler_bytes_per_s, rel=0.1)


def test_mixed_steps_are_one_call_and_not_the_sum_of_two() -> None:
    plan = mixed_attention_plan()
    rows = plan.load(real_data_file(MIXED_STEPS).parent.parent)
    found = fit_kernel(plan.recipe, rows)
    assert found.held_out.mape < 0.07
    assert found.held_out_parts["unequal lengths"].mape < 0.06
    columns = rows.columns
    prefill_s = found.model.prefill.time_s(
        1, columns["chunk_tokens"], columns["prefix_tokens"], NUM_HEADS, NUM_KV_HEADS
    )
    apart_s = predict_batches_s(RTX_DECODE, columns) + prefill_s
    errors = summarise_errors(apart_s, rows.time_s)
    assert errors.mape > 0.25
    assert errors.bias < -0.2
    assert float(np.median(rows.time_s / apart_s)) == pytest.approx(1.38, abs=0.02)
    for device in DEVICES:
        carried, record = carried_to(found, load_profile(device), device != "a100_sxm_80gb")
        shipped = load_kernels(device)
        assert carried == shipped.mixed_attention
        assert record == shipped.provenance["mixed_attention"]


def test_a_root_of_squares_without_l2_fits_mixed_steps_worse() -> None:
    """`c + r B + sqrt(total^2 + longest^2)`, the form that the fitted one took the place of."""
    rows = mixed_attention_plan().load(real_data_dir())
    columns = rows.columns
    batch, chunk, prefix = (columns[name] for name in ("batch_size", *CHUNK))
    tiles = np.ceil(chunk / 64)
    flops = 4 * 128 * 32 * 64 * (tiles * prefix + 32 * tiles * (tiles + 1))
    longest = np.maximum(columns["longest_tokens"], chunk + prefix)
    moved_bytes = columns["context_tokens"] * 4 * 128 * 8
    names = ("fixed_s", "request_s", "flops_per_s", "bytes_per_s", "block_bytes_per_s")
    starts = (5e-6, 5e-7, 2.5e14, 9e11, 3e10)
    parameters = tuple(
        Parameter(name=name, start=start, low=start / 100, high=start * 100)
        for name, start in zip(names, starts, strict=True)
    )

    def predicted_s(values: Mapping[str, float], chosen: NDArray[np.bool_]) -> FloatArray:
        total_s = flops / values["flops_per_s"] + moved_bytes / values["bytes_per_s"]
        both_s = np.hypot(total_s, longest * 512 / values["block_bytes_per_s"])
        all_s = values["fixed_s"] + values["request_s"] * batch + both_s
        times_s: FloatArray = all_s[chosen]
        return times_s

    def fit_and_predict(fitted: NDArray[np.bool_], wanted: NDArray[np.bool_]) -> FloatArray:
        found = fit_log_error(
            lambda values: predicted_s(values, fitted), rows.time_s[fitted], parameters
        )
        return predicted_s(found.values, wanted)

    times_s = held_out_times_s(fit_and_predict, fold_of_rows((batch, chunk, prefix)))
    assert summarise_errors(times_s, rows.time_s).mape == pytest.approx(0.115, abs=0.005)


def test_rates_of_shared_prefixes_follow_the_ratios_and_l2_is_needed() -> None:
    device = load_profile("a100_sxm_80gb")
    models = load_kernels("a100_sxm_80gb")
    trees = load_shared_prefix(real_data_file("kernels/shared_prefix/a100_prefix_trees.csv"))
    rows = ratio_rows(trees)
    assert rows.num_rows == 75
    assert errors_with(models, 1.0) <= 0.07
    assert errors_with(models, 1e-6) > 0.2
    assert models.shared_prefix is not None
    assert models.shared_prefix.l2 is not None
    recipe = shared_prefix_recipe(device, trees, models.shared_prefix.l2, None, None)
    predicted = recipe.predict_s(models.shared_prefix, rows.columns)
    first = trees.rows[0]
    packed = models.shared_prefix.time_s(
        first.nodes_per_level, first.tokens_per_level, 32, 32, kernel="packed"
    )
    flashinfer = models.shared_prefix.time_s(
        first.nodes_per_level, first.tokens_per_level, 32, 32, kernel="flashinfer"
    )
    chosen = (
        (rows.columns["tree_id"] == first.tree_id)
        & (rows.columns["num_kv_heads"] == 32)
        & (rows.columns["kernel"] == 0)
    )
    assert predicted[chosen] == pytest.approx([flashinfer / packed], rel=1e-9)


def errors_with(models: KernelModels, midpoint_factor: float) -> float:
    """Mean error of the ratios with the midpoint of the L2 curve times a factor."""
    model = models.shared_prefix
    assert model is not None
    assert model.l2 is not None
    l2 = replace(model.l2, midpoint_bytes=model.l2.midpoint_bytes * midpoint_factor)
    trees = load_shared_prefix(real_data_file("kernels/shared_prefix/a100_prefix_trees.csv"))
    recipe = shared_prefix_recipe(load_profile(models.device), trees, l2, None, None)
    rows = ratio_rows(trees)
    predicted = recipe.predict_s(replace(model, l2=l2), rows.columns)
    return float(np.abs(predicted / rows.time_s - 1).mean())
