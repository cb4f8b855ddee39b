"""A user's device with kernels of the nearest measured one."""

import pickle
from dataclasses import replace

import pytest

from hwmodels.device import available_profiles, load_profile
from hwmodels.fitting.transferred_device import nearest_measured, with_transferred_kernels
from hwmodels.kernels.models import KERNEL_CLASSES
from sim.errors import ConfigError

A100, H100, H200 = map(load_profile, ("a100_sxm_80gb", "h100_sxm", "h200_sxm"))
MINE = replace(load_profile("l40s"), name="mine", kernels_at="")


@pytest.mark.parametrize("name", ["a100_sxm_80gb", "h100_sxm", "h200_sxm"])
def test_a_measured_device_is_nearest_to_itself(name: str) -> None:
    assert nearest_measured(load_profile(name)).name == name


@pytest.mark.parametrize(
    ("num_sms", "peak_flops_per_s", "hbm_bytes_per_s", "donor"),
    [
        (142, 364.2e12, 960e9, "a100_sxm_80gb"),
        (72, 125e12, 600e9, "a100_sxm_80gb"),
        (114, 756e12, 2e12, "h100_sxm"),
        (148, 2250e12, 8e12, "h200_sxm"),
    ],
)
def test_compute_per_processor_decides_then_memory_per_processor(
    num_sms: int, peak_flops_per_s: float, hbm_bytes_per_s: float, donor: str
) -> None:
    mine = replace(
        MINE,
        num_sms=num_sms,
        peak_flops_per_s=peak_flops_per_s,
        hbm_bytes_per_s=hbm_bytes_per_s,
    )
    assert nearest_measured(mine).name == donor


def test_kernels_are_those_of_the_donor_scaled_and_marked() -> None:
    device = with_transferred_kernels(MINE)
    assert device.kernels.device == "mine"
    assert device.kernels.date == A100.kernels.date
    assert all(record.is_extrapolated for record in device.kernels.provenance.values())
    for name in KERNEL_CLASSES:
        assert device.kernel(name) is getattr(device.kernels, name)
    assert device.gemm_time_s(64, 4096, 4096) > A100.gemm_time_s(64, 4096, 4096)
    assert device.kernels_at == "transferred from a100_sxm_80gb"


def test_the_constants_stay_and_the_device_pickles() -> None:
    device = with_transferred_kernels(MINE)
    assert (device.name, device.num_sms, device.l2_bytes) == ("mine", 142, MINE.l2_bytes)
    assert device.sources == MINE.sources
    assert pickle.loads(pickle.dumps(device)) == device


def test_a_transfer_repeats() -> None:
    assert with_transferred_kernels(MINE) == with_transferred_kernels(MINE)


def test_a_profile_that_bears_the_donors_name_is_refused_in_one_line() -> None:
    with pytest.raises(ConfigError, match=r"no kernels for device h100_sxm: .*another name"):
        with_transferred_kernels(replace(H100, kernels_at=""))


def test_only_measured_devices_are_donors() -> None:
    measured = {"a100_sxm_80gb", "h100_sxm", "h200_sxm"}
    assert {nearest_measured(load_profile(name)).name for name in available_profiles()} <= measured
