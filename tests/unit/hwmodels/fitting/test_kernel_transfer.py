"""Kernels of devices that nobody measured: the rules, and the packaged files that they made."""

from dataclasses import replace
from importlib.resources import files

import numpy as np
import pytest

from experiments.results.json_text import json_text
from hwmodels.device import available_profiles, load_profile
from hwmodels.fitting.kernel_transfer import is_measured, measured_devices, transfer_kernels
from hwmodels.fitting.transfer import donor_of
from hwmodels.kernels.models import KERNEL_CLASSES, KernelModels, load_kernels
from hwmodels.kernels.prefix_batch import PrefixBatch
from hwmodels.kernels.shared_prefix import SharedPrefixKernel
from hwmodels.model_catalogue import load_model
from sim.errors import ConfigError
from sim.units import MIB

DONORS = {
    "a100_sxm_40gb": "a100_sxm_80gb",
    "h20": "h100_sxm",
    "l40s": "a100_sxm_80gb",
    "rtx6000_ada": "a100_sxm_80gb",
}
"""Packaged profile that nobody measured -> the one whose kernels it takes."""

DATE = "2026-01-02"
A100, H100, H200 = map(load_profile, ("a100_sxm_80gb", "h100_sxm", "h200_sxm"))


def moved(target: str, source: str | None = None) -> KernelModels:
    donor = load_profile(source or DONORS[target])
    return transfer_kernels(donor.kernels, donor, load_profile(target), DATE)


@pytest.mark.parametrize("target", DONORS)
def test_the_packaged_kernels_are_what_a_transfer_gives(target: str) -> None:
    """Otherwise: `flocksim-calibrate transfer --from SOURCE --to TARGET --date ... --out ...`."""
    packaged = (files("hwmodels") / "profiles" / "kernels" / f"{target}.json").read_text("utf-8")
    again = replace(moved(target), date=load_kernels(target).date)
    assert json_text(again.to_json()) == packaged


def test_every_packaged_profile_is_measured_or_transferred() -> None:
    assert measured_devices() == ["a100_sxm_80gb", "h100_sxm", "h200_sxm"]
    assert {*measured_devices(), *DONORS} == set(available_profiles())


@pytest.mark.parametrize("target", DONORS)
def test_every_transferred_kernel_says_so_and_claims_nothing(target: str) -> None:
    kernels = load_kernels(target)
    assert not is_measured(kernels)
    assert set(kernels.provenance) == set(load_kernels(DONORS[target]).provenance)
    for name, record in kernels.provenance.items():
        assert record.is_extrapolated, name
        assert (record.num_rows, record.heldout_mape) == (0, None)
        assert set(record.standard_errors.values()) == {None}
        expected = {"l40s": "l40", "rtx6000_ada": "l40", "h20": "h200_sxm"}
        donor = expected.get(target, DONORS[target]) if name == "l2" else DONORS[target]
        assert donor_of(record) == donor


@pytest.mark.parametrize("target", DONORS)
def test_no_memory_or_compute_rate_exceeds_the_peak(target: str) -> None:
    device, kernels = load_profile(target), load_kernels(target)
    for name in KERNEL_CLASSES:
        model = getattr(kernels, name)
        assert getattr(model, "hbm_bytes_per_s", 0.0) <= device.hbm_bytes_per_s
        assert getattr(model, "flops_per_s", 0.0) < device.peak_flops_per_s


def test_an_a100_with_slower_memory_differs_in_its_memory_rates_alone() -> None:
    source, found = A100.kernels, moved("a100_sxm_40gb")
    ratio = 1555 / 2039
    assert source.gemm is not None and found.gemm is not None
    hbm = found.gemm.hbm_bytes_per_s
    assert hbm == pytest.approx(source.gemm.hbm_bytes_per_s * ratio, rel=1e-4)
    assert replace(found.gemm, hbm_bytes_per_s=source.gemm.hbm_bytes_per_s) == source.gemm
    assert source.l2 is not None and found.l2 is not None
    assert found.l2.hbm_bytes_per_s == pytest.approx(1791.8e9 * ratio, rel=1e-4)
    assert replace(found.l2, hbm_bytes_per_s=source.l2.hbm_bytes_per_s) == source.l2
    assert (found.all_reduce, found.nccl) == (source.all_reduce, source.nccl)
    decode, there = found.decode_attention, source.decode_attention
    assert decode is not None and there is not None
    assert decode.cta_gqa_bytes_per_s == there.cta_gqa_bytes_per_s
    assert decode.launch_s == there.launch_s
    prefix, at_source = found.shared_prefix, source.shared_prefix
    assert prefix is not None and at_source is not None
    assert prefix.flashinfer_gqa_bytes_per_s == at_source.flashinfer_gqa_bytes_per_s
    assert prefix.hbm_bytes_per_s < at_source.hbm_bytes_per_s


def test_ada_memory_rates_follow_measured_streams_and_not_peaks() -> None:
    for target, stream in (("l40s", 820e9), ("rtx6000_ada", 820e9 * 960 / 864)):
        found, source = moved(target).decode_attention, A100.kernels.decode_attention
        assert found is not None and source is not None
        expected = source.hbm_bytes_per_s * stream / 1794e9
        assert found.hbm_bytes_per_s == pytest.approx(expected, rel=1e-4)
        assert (found.num_sms, found.split_slots) == (142, 284)
        block = (found.cta_gqa_bytes_per_s, found.cta_mha_bytes_per_s, found.straggler_bytes_per_s)
        assert block == (13.2e9, 13.2e9, 13.2e9)
    assert "820 over 1794 GB/s" in moved("l40s").provenance["gemm"].source


def test_compute_rates_follow_the_peaks() -> None:
    found, source = moved("rtx6000_ada").prefill_attention, A100.kernels.prefill_attention
    assert found is not None and source is not None
    assert found.flops_per_s == pytest.approx(source.flops_per_s * 364.2 / 312, rel=1e-4)
    assert found.tail_weight == source.tail_weight


def test_a_memory_rate_near_the_peak_is_cut_at_the_peak_and_says_so() -> None:
    kernels = moved("l40s")
    assert kernels.moe is not None
    assert kernels.moe.hbm_bytes_per_s == load_profile("l40s").hbm_bytes_per_s
    assert "at most the peak" in kernels.provenance["moe"].source
    assert "at most the peak" not in kernels.provenance["gemm"].source


def test_without_nvlink_collectives_are_those_of_nccl_over_pcie() -> None:
    kernels, source = moved("rtx6000_ada"), A100.kernels.nccl
    assert source is not None and kernels.all_reduce is not None
    assert kernels.all_reduce == kernels.nccl
    for here, there in zip(kernels.all_reduce.groups, source.groups, strict=True):
        assert here.base_s == there.base_s
        assert here.bytes_per_s == pytest.approx(there.bytes_per_s * 32 / 300, rel=1e-4)
        assert here.root_s >= there.root_s
        # A ring sends 2 (n - 1) / n of the message, which the link must carry.
        sent_per_s = here.bytes_per_s * 2 * (here.num_gpus - 1) / here.num_gpus
        assert sent_per_s < load_profile("rtx6000_ada").pcie_bytes_per_s
    assert "NVLink" in kernels.provenance["all_reduce"].source


def test_an_h20_has_the_l2_cache_of_an_h200_and_the_rate_of_its_own_processors() -> None:
    found, h200 = moved("h20").l2, H200.kernels.l2
    assert found is not None and h200 is not None
    assert (found.midpoint_bytes, found.log_width) == (h200.midpoint_bytes, h200.log_width)
    assert found.l2_bytes_per_s == pytest.approx(h200.l2_bytes_per_s * 78 / 132, rel=1e-4)
    assert found.hbm_bytes_per_s == pytest.approx(h200.hbm_bytes_per_s * 4.0 / 4.8, rel=1e-4)


def test_an_unknown_device_scales_the_curve_of_its_donor() -> None:
    mine = replace(H100, name="mine", num_sms=66, l2_bytes=25 * MIB, kernels_at="")
    found, source = transfer_kernels(H100.kernels, H100, mine, DATE).l2, H100.kernels.l2
    assert found is not None and source is not None
    assert found.midpoint_bytes == pytest.approx(source.midpoint_bytes / 2, rel=1e-4)
    assert found.l2_bytes_per_s == pytest.approx(source.l2_bytes_per_s / 2, rel=1e-4)
    assert found.hbm_bytes_per_s == source.hbm_bytes_per_s


def test_l2_is_never_slower_than_memory() -> None:
    mine = replace(A100, name="mine", num_sms=10)
    curve = transfer_kernels(A100.kernels, A100, mine, DATE).l2
    assert curve is not None
    assert curve.l2_bytes_per_s == curve.hbm_bytes_per_s


def test_blocks_get_faster_with_the_memory_behind_a_processor_and_never_slower() -> None:
    source = A100.kernels.decode_attention
    assert source is not None and source.cta_mha_bytes_per_s is not None
    for memory, ratio in ((2.0, 2.0), (0.5, 1.0)):
        mine = replace(A100, name="mine", hbm_bytes_per_s=memory * A100.hbm_bytes_per_s)
        found = transfer_kernels(A100.kernels, A100, mine, DATE).decode_attention
        assert found is not None
        assert found.cta_mha_bytes_per_s == pytest.approx(ratio * source.cta_mha_bytes_per_s)
        assert found.straggler_bytes_per_s == source.straggler_bytes_per_s
    hopper = moved("h20").decode_attention
    assert hopper is not None
    assert (hopper.cta_gqa_bytes_per_s, hopper.cta_mha_bytes_per_s) == (None, None)


def test_shared_prefixes_hold_the_transferred_models_of_their_device() -> None:
    kernels = moved("l40s")
    prefix = kernels.shared_prefix
    assert prefix is not None
    assert prefix.l2 is kernels.l2
    assert prefix.decode_attention is kernels.decode_attention
    assert prefix.prefill_attention is kernels.prefill_attention
    assert prefix.cta_slots == 284


def test_what_the_source_lacks_the_target_lacks() -> None:
    record = {name: one for name, one in A100.kernels.provenance.items() if name != "moe"}
    source = replace(A100.kernels, moe=None, provenance=record)
    found = transfer_kernels(source, A100, load_profile("l40s"), DATE)
    assert found.moe is None
    assert "moe" not in found.provenance


def test_a_device_keeps_its_constants_on_one_that_is_its_like() -> None:
    twin = replace(A100, name="twin")
    found, source = transfer_kernels(A100.kernels, A100, twin, DATE), A100.kernels
    for name in KERNEL_CLASSES:
        if name not in ("l2", "shared_prefix"):
            assert getattr(found, name) == getattr(source, name)
    assert found.l2 == source.l2


@pytest.mark.parametrize(
    ("source", "target", "line"),
    [
        ("h100_sxm", "h100_sxm", "is the same device, or needs another name"),
        ("h20", "l40s", "device h20 was not measured, .*measured: a100_sxm_80gb, h100_sxm, h200"),
    ],
)
def test_no_kernels_from_the_device_itself_or_from_a_transferred_one(
    source: str, target: str, line: str
) -> None:
    with pytest.raises(ConfigError, match=line):
        moved(target, source)


def test_a_constant_out_of_its_range_is_one_line() -> None:
    tiny = replace(A100, name="tiny", peak_flops_per_s=1e6)
    with pytest.raises(ConfigError, match="GemmModel: flops_per_s must be from") as caught:
        transfer_kernels(A100.kernels, A100, tiny, DATE)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("kernel", "low_s", "high_s"), [("flash_cascade", 32e-3, 34e-3), ("flash", 98e-3, 101e-3)]
)
def test_steps_of_an_rtx_6000_ada_come_near_the_measured_ones(
    kernel: SharedPrefixKernel, low_s: float, high_s: float
) -> None:
    """Llama-3.1-8B, 100 requests, one prefix of 10,000 tokens and 45 of their own.

    Source: step times of vLLM 0.14.0 (with cascade) and 0.22.1 (without); docs/l2_locality.md. The
    rate of a thread block is fitted to them, all else comes from the A100.
    """
    device, model = load_profile("rtx6000_ada"), load_model("llama3_1_8b")
    prefix = device.kernels.shared_prefix
    assert prefix is not None
    batch = PrefixBatch.from_levels([1, 100], [10_000, 45])
    step = device.decode_step_time(model, 1, np.full(100, 10_045))
    attention_s = model.num_layers * float(prefix.steps_s(batch, 32, 8, kernel=kernel)[0])
    total_s = step.total_s - step.attention_s + attention_s
    assert 0.85 * low_s < total_s < 1.15 * high_s
