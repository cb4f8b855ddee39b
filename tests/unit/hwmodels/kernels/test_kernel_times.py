"""What a loaded device profile answers about its kernels, and what it says when it cannot."""

import json
import os
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hwmodels
from hwmodels.device import CONSTANT_UNITS, DeviceSpec, load_profile
from hwmodels.kernels import KernelModels
from hwmodels.model_catalogue import load_model
from sim.errors import ConfigError
from tests.unit.hwmodels.kernels.parameter_sets import (
    A100_ALL_REDUCE,
    A100_DECODE,
    A100_GEMM,
    A100_L2,
    A100_MOE,
    A100_PREFILL,
    SLOW_NCCL,
    a100_kernels,
)


def device_with(folder: Path, kernels: KernelModels | None) -> DeviceSpec:
    """A profile called `mine` with the constants of an A100 and kernels beside it."""
    a100 = load_profile("a100_sxm_80gb")
    constants = {
        key: {"value": getattr(a100, key), "unit": unit, "source": "test"}
        for key, unit in CONSTANT_UNITS.items()
    }
    record = {"name": "mine", "title": "Mine", "date": "2026-01-31", "constants": constants}
    (folder / "mine.json").write_text(json.dumps(record), encoding="utf-8")
    if kernels is not None:
        (folder / "kernels").mkdir()
        text = json.dumps(kernels.to_json())
        (folder / "kernels" / "mine.json").write_text(text, encoding="utf-8")
    return load_profile(folder / "mine.json")


@pytest.fixture
def device(tmp_path: Path) -> DeviceSpec:
    return device_with(tmp_path, a100_kernels())


def test_profile_and_model_load_from_the_package() -> None:
    assert hwmodels.load_profile("h100_sxm") == load_profile("h100_sxm")
    assert hwmodels.load_model("llama3_8b") == load_model("llama3_8b")


def test_each_method_asks_its_kernel(device: DeviceSpec) -> None:
    assert device.gemm_time_s(64, 4096, 1024) == A100_GEMM.time_s(64, 4096, 1024)
    lengths = [100, 900, 2000]
    expected_s = A100_DECODE.lengths_time_s(lengths, 32, 8, 64)
    assert device.decode_attention_time_s(lengths, 32, 8, 64) == expected_s
    shape = (2, 512, 100, 32, 8, 64)
    assert device.prefill_attention_time_s(*shape) == A100_PREFILL.time_s(*shape)
    assert device.allreduce_time_s(8192, 2) == A100_ALL_REDUCE.time_s(8192, 2)
    assert device.allreduce_time_s(8192, 2, mode="nccl") == SLOW_NCCL.time_s(8192, 2)
    assert device.l2_bandwidth_bytes_per_s(3e7) == A100_L2.bytes_per_s(3e7)
    experts = (4, 4096, 14336, 2, 8)
    assert device.moe_time_s(*experts) == A100_MOE.time_s(*experts)


def test_prefix_trees_go_to_the_model_of_the_packaged_device() -> None:
    a100 = load_profile("a100_sxm_80gb")
    model = a100.kernels.shared_prefix
    assert model is not None
    tree = ([1, 16], [4096, 200], 32, 8)
    for kernel in ("flash", "flash_pat", "flash_cascade", "flashinfer", "packed"):
        asked_s = a100.shared_prefix_decode_time_s(*tree, kernel=kernel)
        assert asked_s == model.time_s(*tree, 128, kernel=kernel)
        narrow_s = a100.shared_prefix_decode_time_s(*tree, 64, kernel=kernel)
        assert narrow_s == model.time_s(*tree, 64, kernel=kernel) < asked_s


def test_heads_are_128_wide_unless_said_otherwise(device: DeviceSpec) -> None:
    assert device.decode_attention_time_s([500], 32, 8) == device.decode_attention_time_s(
        [500], 32, 8, 128
    )
    assert device.prefill_attention_time_s(1, 64, 0, 32, 8) == device.prefill_attention_time_s(
        1, 64, 0, 32, 8, 128
    )


def test_arrays_keep_their_shape(device: DeviceSpec) -> None:
    sets = np.array([[1e6, 1e7, 1e8]])
    rates = device.l2_bandwidth_bytes_per_s(sets)
    assert rates.shape == (1, 3)
    assert np.all(np.diff(rates[0]) < 0)
    assert isinstance(device.l2_bandwidth_bytes_per_s(1e6), float)
    assert device.allreduce_time_s(sets, [[2], [4]]).shape == (2, 3)


def test_decode_kernels_differ_where_lengths_or_splits_do(device: DeviceSpec) -> None:
    def seconds(lengths: list[int], kernel: str) -> float:
        return device.decode_attention_time_s(lengths, 32, 8, kernel=kernel)

    assert seconds([8000], "unsplit") > 2 * seconds([8000], "flash")
    one_head_s = device.decode_attention_time_s([8000], 8, 1, kernel="unsplit")
    assert one_head_s > 10 * device.decode_attention_time_s([8000], 8, 1)
    equal = [1000] * 64  # no split, equal lengths: all three are one
    assert seconds(equal, "unsplit") == seconds(equal, "padded") == seconds(equal, "flash")
    unequal = [1000] * 63 + [4000]
    assert seconds(unequal, "unsplit") == seconds(unequal, "flash")
    assert seconds(unequal, "padded") == seconds([4000] * 64, "flash")


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (
            lambda p: p.decode_attention_time_s([5], 8, 1, kernel="paged"),
            "kernel must be flash or unsplit or padded, found 'paged'",
        ),
        (
            lambda p: p.allreduce_time_s(5, 2, mode="eager"),
            "mode must be cuda_graph or nccl, found 'eager'",
        ),
        (lambda p: p.gemm_time_s(0, 8, 8), "m must be at least 1, found 0"),
        (lambda p: p.l2_bandwidth_bytes_per_s(0), "data_set_bytes must be at least 1, found 0"),
        (
            lambda p: p.shared_prefix_decode_time_s([1, 4], [100, 10], 8, 1),
            "device mine has no calibrated shared_prefix kernel; profiles that have it: ",
        ),
    ],
)
def test_one_clear_line(
    device: DeviceSpec, ask: Callable[[DeviceSpec], object], message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        ask(device)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_a_device_without_kernels_says_so(tmp_path: Path) -> None:
    bare = device_with(tmp_path, None)
    line = "device mine has no calibrated gemm kernel; profiles that have it: "
    with pytest.raises(ConfigError, match=line):
        bare.gemm_time_s(1, 1, 1)
    with pytest.raises(ConfigError, match="device mine has no calibrated kernels; profiles that"):
        _ = bare.kernels


def test_profiles_that_have_the_kernel_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = {"big": a100_kernels(), "bare": a100_kernels(moe=None), "small": a100_kernels()}
    monkeypatch.setattr("hwmodels.kernels.available_kernels", lambda: sorted(known))
    monkeypatch.setattr("hwmodels.kernel_times._loaded", known.__getitem__)
    with pytest.raises(
        ConfigError, match=r"no calibrated moe kernel; .* it: big, small; a profile "
    ):
        device_with(tmp_path, None).moe_time_s(1, 1, 1, 1, 1)


def test_kernels_of_another_device_are_refused(tmp_path: Path) -> None:
    device = device_with(tmp_path, a100_kernels())
    with pytest.raises(ConfigError, match=r"device other: .* holds kernels of device mine"):
        replace(device, name="other").gemm_time_s(1, 1, 1)


def test_a_device_with_kernels_pickles_and_shows_its_provenance(device: DeviceSpec) -> None:
    again: Any = pickle.loads(pickle.dumps(device))
    assert again == device
    assert again.gemm_time_s(8, 1024, 1024) == device.gemm_time_s(8, 1024, 1024)
    assert device.kernels.provenance["gemm"].heldout_mape == 0.07


def test_a_kernel_file_that_changed_is_read_anew(tmp_path: Path) -> None:
    device = device_with(tmp_path, a100_kernels())
    before_s = device.gemm_time_s(1, 1024, 1024)
    faster = a100_kernels(gemm=replace(A100_GEMM, launch_s=0.0))
    path = tmp_path / "kernels" / "mine.json"
    path.write_text(json.dumps(faster.to_json()), encoding="utf-8")
    os.utime(path, ns=(1, 1))
    assert before_s - device.gemm_time_s(1, 1024, 1024) == pytest.approx(3.69e-6, rel=1e-9)
    path.unlink()
    with pytest.raises(ConfigError, match=r"mine.json: cannot read the file"):
        device.gemm_time_s(1, 1024, 1024)
