"""The packaged parameters: physical bounds of each device, and whole steps against measurements."""

from collections.abc import Callable

import numpy as np
import pytest

from hwmodels import load_model, load_profile
from hwmodels.device import DeviceSpec
from hwmodels.kernels import available_kernels
from sim.interfaces import FloatArray

RNG_SEED = 7


def bound_s(device: DeviceSpec, flops: FloatArray, unique_bytes: FloatArray) -> FloatArray:
    """What the datasheet allows at best."""
    compute_s, memory_s = flops / device.peak_flops_per_s, unique_bytes / device.hbm_bytes_per_s
    return np.maximum(compute_s, memory_s)


def gemm_ratio(device: DeviceSpec) -> FloatArray:
    m, n, k = 2 ** np.random.default_rng(RNG_SEED).uniform(0, [[13], [15], [15]], (3, 4000)) // 1
    moved_bytes = 2 * (m * k + k * n + m * n)
    return device.gemm_time_s(m, n, k) / bound_s(device, 2 * m * n * k, moved_bytes)


def prefill_ratio(device: DeviceSpec) -> FloatArray:
    rng = np.random.default_rng(RNG_SEED)
    chunk, prefix = rng.integers(1, 9000, 4000), rng.integers(0, 30000, 4000)
    flops = 4 * 128 * 32 * (chunk * prefix + chunk * (chunk + 1) / 2)
    moved_bytes = 2 * 128 * (2 * 32 * chunk + 2 * 8 * (chunk + prefix))
    found_s = device.prefill_attention_time_s(1, chunk, prefix, 32, 8)
    return found_s / bound_s(device, flops, moved_bytes)


def decode_ratio(device: DeviceSpec) -> FloatArray:
    rng = np.random.default_rng(RNG_SEED)
    ratios = []
    for kv_heads in (1, 8, 32):
        for batch_size in (1, 13, 64, 300):
            lengths = rng.integers(1, 20000, batch_size)
            moved_bytes = np.asarray(lengths.sum() * 512.0 * kv_heads)
            flops = np.asarray(lengths.sum() * 512.0 * 32)
            least_s = bound_s(device, flops, moved_bytes)
            ratios.append(device.decode_attention_time_s(lengths, 32, kv_heads) / least_s)
    return np.array(ratios)


def mixed_ratio(device: DeviceSpec) -> FloatArray:
    rng = np.random.default_rng(RNG_SEED)
    batch, chunk = rng.integers(0, 300, 4000), rng.integers(1, 9000, 4000)
    prefix, longest = rng.integers(0, 30000, 4000), rng.integers(1, 20000, 4000)
    longest = np.where(batch > 0, longest, 0)
    total = (batch * longest * rng.uniform(0.5, 1.0, 4000)).astype(np.int64)
    total = np.maximum(total, longest + batch - 1).clip(0)
    flops = 4 * 128 * 32 * (total + chunk * prefix + chunk * (chunk + 1) / 2)
    moved_bytes = 512.0 * 8 * (total + chunk + prefix)
    found_s = device.kernel("mixed_attention").time_s(
        device.kernel("decode_attention"),
        device.kernel("prefill_attention"),
        batch,
        total,
        longest,
        chunk,
        prefix,
        np.arange(4000),
        32,
        8,
    )
    limit_s = bound_s(device, flops, np.asarray(moved_bytes, dtype=np.float64))
    ratio: FloatArray = found_s / limit_s
    return ratio


def experts_ratio(device: DeviceSpec) -> FloatArray:
    tokens = np.unique(np.geomspace(1, 16384, 200).astype(int))
    visited = 8 * (1 - (1 - 2 / 8) ** tokens)
    matrices = 6 * 4096 * 14336
    least_s = bound_s(device, tokens * 2 * matrices, visited * matrices)
    return device.moe_time_s(tokens, 4096, 14336, 2, 8) / least_s


@pytest.mark.parametrize("name", available_kernels())
@pytest.mark.parametrize(
    "ratio", [gemm_ratio, prefill_ratio, decode_ratio, mixed_ratio, experts_ratio]
)
def test_never_faster_than_the_datasheet(
    name: str, ratio: Callable[[DeviceSpec], FloatArray]
) -> None:
    assert np.min(ratio(load_profile(name))) > 1.0


@pytest.mark.parametrize("name", available_kernels())
def test_rates_stay_below_the_peaks_of_the_device(name: str) -> None:
    device = load_profile(name)
    models = device.kernels
    assert models.gemm is not None
    assert models.gemm.flops_per_s < device.peak_flops_per_s
    assert models.gemm.hbm_bytes_per_s < device.hbm_bytes_per_s
    assert models.gemm.num_sms == device.num_sms
    assert models.decode_attention is not None
    assert models.decode_attention.hbm_bytes_per_s < device.hbm_bytes_per_s
    assert models.prefill_attention is not None
    assert models.prefill_attention.flops_per_s < device.peak_flops_per_s


@pytest.mark.parametrize("name", ["a100_sxm_80gb", "h100_sxm", "h200_sxm"])
def test_only_a_kernel_that_does_not_pack_slows_many_decodes_beside_a_chunk(name: str) -> None:
    """One call against two: on A100 every head reads for itself, on Hopper a group does."""
    device = load_profile(name)
    decode, prefill = device.kernel("decode_attention"), device.kernel("prefill_attention")
    mixed = device.kernel("mixed_attention")
    assert mixed.packs_queries is (name != "a100_sxm_80gb")
    moments = (64, 64 * 1500, 1500)
    one_s = float(mixed.time_s(decode, prefill, *moments, 512, 0, 0, 32, 8)[0])
    two_s = decode.time_s(*moments, 64 * 1500**2, 32, 8) + prefill.time_s(1, 512, 0, 32, 8)
    low, high = (0.9, 1.2) if mixed.packs_queries else (2.0, 2.7)
    assert low < one_s / two_s < high


INTER_TOKEN_S = [
    ("llama3_1_8b", 1, 2.5, 238, 12.803e-3),
    ("llama3_1_8b", 1, 6.0, 238, 15.076e-3),
    ("llama2_70b", 4, 2.5, 246, 32.364e-3),
    ("llama2_70b", 4, 6.0, 246, 38.094e-3),
]
"""Model, GPUs, requests per second, output tokens, mean inter-token latency.

Source: vLLM 0.15.1 on A100-80GB, numbers restated from the accuracy data of inference-sim; about
547 prompt tokens, whose cached share is not recorded."""


def test_whole_steps_give_the_measured_inter_token_latency() -> None:
    """By Little's law, with prompts wholly cached: then every step is a decode step.

    Nothing is fitted to these points. The miss grows with load, that is with the prefill steps that
    the closed form leaves out.
    """
    device = load_profile("a100_sxm_80gb")
    errors = []
    for name, num_gpus, rate_per_s, output_tokens, measured_s in INTER_TOKEN_S:
        shape, context = load_model(name), 547 + output_tokens // 2
        found_s = measured_s
        for _ in range(20):
            running = rate_per_s * output_tokens * found_s
            lower = int(running)
            step_s = [
                device.decode_step_time_s(shape, num_gpus, [context] * batch_size)
                for batch_size in (lower, lower + 1)
            ]
            found_s = float(np.interp(running, (lower, lower + 1), step_s))
        errors.append(found_s / measured_s - 1.0)
    assert np.max(np.abs(errors)) < 0.10
    assert np.mean(np.abs(errors)) < 0.05
