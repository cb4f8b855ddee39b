"""A whole decode step: which kernels run, how often, and the host's time exactly once."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hwmodels.collectives import all_gather_s
from hwmodels.device import DeviceSpec
from hwmodels.kernels.decode_step import layer_products
from hwmodels.model_catalogue import available_models, load_model
from hwmodels.roofline import RooflineCost
from hwmodels.work import layer_matmuls, matmul_work, small_ops_bytes
from sim.errors import ConfigError
from tests.unit.hwmodels.kernels.parameter_sets import (
    A100_ALL_REDUCE,
    A100_DECODE,
    A100_GEMM,
    A100_MOE,
    SLOW_NCCL,
    a100_kernels,
)
from tests.unit.hwmodels.kernels.test_kernel_times import device_with

LENGTHS = [700, 1500, 2300, 3100]


@pytest.fixture
def device(tmp_path: Path) -> DeviceSpec:
    return device_with(tmp_path, a100_kernels())


@pytest.mark.parametrize("name", available_models())
def test_products_are_those_that_the_roofline_counts(name: str) -> None:
    shape = load_model(name)
    products = layer_products(shape)
    works = [matmul_work(7, inner, outer, shape.dtype_bytes) for outer, inner in products]
    assert works == layer_matmuls(shape, 7)[: len(works)]
    assert len(layer_matmuls(shape, 7)) - len(works) == (2 if shape.num_experts else 0)


def test_terms_of_a_dense_model_by_hand(device: DeviceSpec) -> None:
    shape = load_model("llama3_8b")
    step = device.decode_step_time(shape, 1, LENGTHS)
    products_s = A100_GEMM.time_s(4, [6144, 4096, 28672, 4096], [4096, 4096, 4096, 14336]).sum()
    logits_s = A100_GEMM.time_s(4, 128256, 4096)
    assert step.gemm_s == pytest.approx(32 * products_s + logits_s, rel=1e-12)
    assert step.attention_s == 32 * A100_DECODE.lengths_time_s(LENGTHS, 32, 8)
    layers_s = np.hypot(32 * 11e-6, 4 * small_ops_bytes(shape, 1) / 1e12)
    expected_s = layers_s + 40e-6 + 4 * 4 * 128256 / 1e12
    assert step.small_ops_s == pytest.approx(expected_s, rel=1e-12)
    assert step.collective_s == 0.0
    assert step.host_s == device.step_overhead_s == 1e-3


def test_the_host_counts_once_in_either_form(device: DeviceSpec) -> None:
    shape = load_model("llama3_8b")
    constant = device.decode_step_time(shape, 1, LENGTHS)
    growing = device.decode_step_time(shape, 1, LENGTHS, host_overhead="per_request")
    assert growing.host_s == pytest.approx(0.48e-3 + 4 * 0.019e-3, rel=1e-12)
    assert growing.total_s - constant.total_s == pytest.approx(growing.host_s - 1e-3, abs=1e-15)
    terms = (constant.gemm_s, constant.attention_s, constant.small_ops_s, constant.host_s)
    assert constant.total_s == pytest.approx(sum(terms), rel=1e-12)
    assert device.decode_step_time_s(shape, 1, LENGTHS) == constant.total_s


@pytest.mark.parametrize(("mode", "model"), [("cuda_graph", A100_ALL_REDUCE), ("nccl", SLOW_NCCL)])
def test_two_gpus_split_heads_and_exchange_results(
    device: DeviceSpec, mode: str, model: Any
) -> None:
    shape = load_model("llama3_8b")
    step = device.decode_step_time(shape, 2, LENGTHS, all_reduce_mode=mode)
    products_s = A100_GEMM.time_s(4, [3072, 4096, 14336, 4096], [4096, 2048, 4096, 7168]).sum()
    logits_s = A100_GEMM.time_s(4, 64128, 4096)
    assert step.gemm_s == pytest.approx(32 * products_s + logits_s, rel=1e-12)
    assert step.attention_s == 32 * A100_DECODE.lengths_time_s(LENGTHS, 16, 4)
    reduce_s = model.time_s(4 * 4096 * 2, 2)
    gather_s = all_gather_s(device, 4 * 64128 * 2, 2)
    assert step.collective_s == pytest.approx(65 * reduce_s + gather_s, rel=1e-12)
    sampling_s = 40e-6 + 4 * 4 * 128256 / 1e12
    layers_s = np.hypot(32 * 11e-6, 4 * small_ops_bytes(shape.sharded(2), 1) / 1e12)
    assert step.small_ops_s == pytest.approx(layers_s + sampling_s, rel=1e-12)


def test_experts_take_the_place_of_the_dense_mlp(device: DeviceSpec) -> None:
    step = device.decode_step_time(load_model("mixtral_8x7b"), 2, LENGTHS)
    products_s = A100_GEMM.time_s(4, [3072, 4096, 8], [4096, 2048, 4096]).sum()
    experts_s = A100_MOE.time_s(4, 4096, 7168, 2, 8)
    logits_s = A100_GEMM.time_s(4, 16000, 4096)
    assert step.gemm_s == pytest.approx(32 * (products_s + experts_s) + logits_s, rel=1e-12)


def test_a_step_is_close_to_and_above_the_roofline(device: DeviceSpec) -> None:
    shape = load_model("llama3_8b")
    roofline = RooflineCost(device, shape)
    roofline_s = roofline.constant_s(64, 64, 64) + 64 * 2000 * roofline.context_token_s
    calibrated_s = device.decode_step_time_s(shape, 1, np.full(64, 2000))
    assert 1.0 < calibrated_s / roofline_s < 1.5


def test_choices_are_checked(device: DeviceSpec) -> None:
    shape = load_model("llama3_8b")
    with pytest.raises(ConfigError, match="host_overhead must be constant or per_request, found"):
        device.decode_step_time(shape, 1, LENGTHS, host_overhead="both")
    with pytest.raises(ConfigError, match="all_reduce_mode must be cuda_graph or nccl, found"):
        device.decode_step_time(shape, 1, LENGTHS, all_reduce_mode="ring")
    with pytest.raises(ConfigError, match="tensor_parallel=3 does not divide"):
        device.decode_step_time_s(shape, 3, LENGTHS)
    with pytest.raises(ConfigError, match=r"context_tokens must have shape \(requests,\)"):
        device.decode_step_time_s(shape, 1, [])
