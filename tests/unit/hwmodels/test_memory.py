"""KV capacity: each term, published logs, and models that do not fit."""

from dataclasses import replace

import pytest

from hwmodels.device import load_profile
from hwmodels.memory import (
    COLLECTIVE_BUFFER_BYTES,
    SAMPLER_BYTES_PER_LOGIT,
    activation_peak_bytes,
    check_weights_fit,
    kv_capacity,
)
from hwmodels.model_catalogue import load_model
from sim.errors import CapacityError, ConfigError
from sim.units import GIB

A100 = load_profile("a100_sxm_80gb")
LLAMA3_8B = load_model("llama3_8b")


def test_llama3_8b_on_an_a100_gets_the_blocks_that_vllm_logs() -> None:
    capacity = kv_capacity(A100, LLAMA3_8B)
    assert 27_000 <= capacity.num_blocks <= 29_000
    assert 430_000 <= capacity.num_tokens <= 450_000


@pytest.mark.parametrize(
    ("total_gib", "kv_gib", "activation_gib"),
    [(79.22, 53.29, 1.26), (79.14, 54.93, 1.19)],
)
def test_llama3_8b_agrees_with_public_vllm_profiling_logs(
    total_gib: float, kv_gib: float, activation_gib: float
) -> None:
    """Logs of vLLM 0.6.5 (pull request 10511) and 0.7, 8,192 tokens and 256 requests a step."""
    device = replace(A100, hbm_capacity_bytes=int(total_gib * GIB))
    capacity = kv_capacity(device, LLAMA3_8B, max_num_batched_tokens=8192)
    assert capacity.weight_bytes / GIB == pytest.approx(14.96, abs=0.005)
    assert capacity.activation_bytes / GIB == pytest.approx(activation_gib, rel=0.08)
    assert capacity.kv_bytes / GIB == pytest.approx(kv_gib, rel=0.03)


def test_terms_add_up_to_the_budget() -> None:
    capacity = kv_capacity(A100, LLAMA3_8B, tensor_parallel=2, gpu_memory_utilization=0.8)
    terms = (
        capacity.weight_bytes
        + capacity.activation_bytes
        + capacity.cuda_context_bytes
        + capacity.collective_buffer_bytes
        + capacity.kv_bytes
    )
    assert terms == capacity.budget_bytes == int(0.8 * A100.hbm_capacity_bytes)
    assert capacity.collective_buffer_bytes == COLLECTIVE_BUFFER_BYTES
    assert capacity.block_bytes == 16 * LLAMA3_8B.kv_bytes_per_token // 2
    assert capacity.num_blocks == capacity.kv_bytes // capacity.block_bytes


def test_one_gpu_needs_no_collective_buffers() -> None:
    assert kv_capacity(A100, LLAMA3_8B).collective_buffer_bytes == 0


def test_two_gpus_hold_more_than_twice_the_blocks_of_one() -> None:
    one, two = (kv_capacity(A100, LLAMA3_8B, tensor_parallel=n) for n in (1, 2))
    assert 2.0 < two.num_blocks / one.num_blocks < 2.5


def test_smaller_blocks_give_more_of_them() -> None:
    by_16, by_8 = (kv_capacity(A100, LLAMA3_8B, block_tokens=n) for n in (16, 8))
    assert by_8.num_blocks // 2 == by_16.num_blocks


def test_activation_peak_is_the_sampler_or_the_forward_pass() -> None:
    sampler = 256 * 128_256 * SAMPLER_BYTES_PER_LOGIT
    assert activation_peak_bytes(LLAMA3_8B, 128_256, 2048, 256) == sampler
    forward = int(32_768 * (2 * 4096 + 3 * 14_336) * 2 * 1.1)
    assert activation_peak_bytes(LLAMA3_8B, 128_256, 32_768, 256) == forward


def test_a_step_never_samples_more_requests_than_it_has_tokens() -> None:
    few = activation_peak_bytes(LLAMA3_8B, 128_256, 64, 1024)
    assert few == 64 * 128_256 * SAMPLER_BYTES_PER_LOGIT


def test_experts_widen_the_forward_pass_by_the_visited_ones() -> None:
    shape = load_model("qwen3_30b_a3b")
    widest = 8 * (3 * 768 + 2048)
    expected = int(65_536 * (2 * 2048 + widest) * 2 * 1.1)
    assert activation_peak_bytes(shape, shape.vocab_size, 65_536, 1) == expected


def test_model_that_does_not_fit_says_what_is_missing_and_what_would_fit() -> None:
    with pytest.raises(CapacityError) as caught:
        kv_capacity(A100, load_model("llama3_70b"))
    message = str(caught.value)
    assert "llama3_70b does not fit a100_sxm_80gb with cluster.tensor_parallel=1" in message
    assert "GiB missing per GPU" in message
    assert "cluster.tensor_parallel=2 would fit" in message
    assert "\n" not in message
    assert kv_capacity(A100, load_model("llama3_70b"), tensor_parallel=2).num_blocks > 2


def test_model_that_fits_no_group_says_so() -> None:
    deep = replace(load_model("llama3_70b"), num_layers=800)
    with pytest.raises(CapacityError, match=r"no cluster\.tensor_parallel up to 8 fits"):
        kv_capacity(A100, deep, tensor_parallel=2)


def test_weights_that_fit_need_no_room_for_anything_else() -> None:
    check_weights_fit(A100, load_model("llama3_70b"), 2)
    check_weights_fit(A100, LLAMA3_8B, 1, LLAMA3_8B.weight_bytes / A100.hbm_capacity_bytes + 1e-9)


def test_weights_that_do_not_fit_are_refused_in_the_words_of_the_capacity() -> None:
    with pytest.raises(CapacityError) as caught:
        check_weights_fit(A100, load_model("llama3_70b"))
    assert str(caught.value) == (
        "model llama3_70b does not fit a100_sxm_80gb with cluster.tensor_parallel=1: "
        "60.18 GiB missing per GPU (71.23 GiB usable of 79.15 - weights 131.42); "
        "cluster.tensor_parallel=2 would fit"
    )
    with pytest.raises(CapacityError, match=r"no cluster\.tensor_parallel up to 8 fits"):
        check_weights_fit(A100, load_model("llama3_70b"), 2, 0.01)


@pytest.mark.parametrize(("degree", "ratio"), [(0, 0.9), (3, 0.9), (16, 0.9), (1, 0), (1, 2)])
def test_check_of_the_weights_refuses_bad_arguments(degree: int, ratio: float) -> None:
    with pytest.raises(ConfigError):
        check_weights_fit(A100, LLAMA3_8B, degree, ratio)


def test_room_for_the_null_block_alone_does_not_count() -> None:
    capacity = kv_capacity(A100, LLAMA3_8B)
    for num_blocks, fits in ((2, True), (1, False)):
        surplus = capacity.kv_bytes - num_blocks * capacity.block_bytes
        device = replace(A100, cuda_context_bytes=A100.cuda_context_bytes + surplus)
        if fits:
            assert kv_capacity(device, LLAMA3_8B).num_blocks == 2
        else:
            with pytest.raises(CapacityError):
                kv_capacity(device, LLAMA3_8B)


def test_summary_shows_every_term() -> None:
    text = kv_capacity(A100, LLAMA3_8B).summary()
    assert text.startswith("27,9")
    assert "weights 14.96" in text
    assert "activations 1.19" in text
    assert "CUDA context 0.50" in text


@pytest.mark.parametrize("ratio", [0.0, -0.5, 1.01, float("nan")])
def test_utilization_outside_its_range_is_refused(ratio: float) -> None:
    with pytest.raises(ConfigError, match="gpu_memory_utilization must be above 0 and at most 1"):
        kv_capacity(A100, LLAMA3_8B, gpu_memory_utilization=ratio)


@pytest.mark.parametrize("key", ["max_num_batched_tokens", "max_num_seqs", "block_tokens"])
def test_counts_below_one_are_refused(key: str) -> None:
    with pytest.raises(ConfigError, match=f"{key} must be at least 1, found 0"):
        kv_capacity(A100, LLAMA3_8B, **{key: 0})


def test_impossible_split_is_a_configuration_error() -> None:
    with pytest.raises(ConfigError, match="possible: 1, 2, 4"):
        kv_capacity(A100, load_model("qwen2_5_7b"), tensor_parallel=8)


@pytest.mark.parametrize("key", ["max_num_batched_tokens", "max_num_seqs", "block_tokens"])
def test_absurd_counts_are_refused(key: str) -> None:
    with pytest.raises(ConfigError, match=f"{key} must be at most 1,000,000,000, found 1000"):
        kv_capacity(A100, LLAMA3_8B, **{key: 10**400})


def test_a_shape_of_the_largest_sizes_allowed_is_refused_in_one_line() -> None:
    size = 10**9
    huge = replace(
        LLAMA3_8B,
        hidden_size=size,
        num_layers=size,
        intermediate_size=size,
        num_attention_heads=size,
        num_kv_heads=size,
    )
    with pytest.raises(CapacityError, match=r"no cluster\.tensor_parallel up to 8 fits"):
        kv_capacity(A100, huge)
