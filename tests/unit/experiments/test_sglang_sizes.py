"""What an SGLang server takes on a GPU, and the KV tokens that follow, by hand."""

from dataclasses import replace

import pytest

from experiments.composing import compose_config
from experiments.deployment import build_deployment
from experiments.schema.job import read_job
from experiments.sglang_sizes import (
    chunked_prefill_size,
    max_running_requests,
    mem_fraction_static,
    sglang_capacity,
)
from hwmodels.device import load_profile
from hwmodels.model_catalogue import load_model
from sim.errors import CapacityError, ConfigError
from sim.units import GIB, MIB

A100 = load_profile("a100_sxm_80gb")
LLAMA3_8B = load_model("llama3_8b")


@pytest.mark.parametrize(
    ("memory_gib", "tokens"),
    [(34.9, 2048), (35, 4096), (59.9, 4096), (60, 8192), (159.9, 8192), (160, 16384)],
)
def test_the_chunk_size_follows_the_memory(memory_gib: float, tokens: int) -> None:
    device = replace(A100, hbm_capacity_bytes=int(memory_gib * GIB))
    assert chunked_prefill_size(device) == tokens


@pytest.mark.parametrize("profile", ["a100_sxm_80gb", "h100_sxm", "h200_sxm"])
def test_the_chunk_size_of_large_gpus_is_8192(profile: str) -> None:
    assert chunked_prefill_size(load_profile(profile)) == 8192


@pytest.mark.parametrize(
    ("memory_mib", "prefill_tokens", "tensor_parallel", "reserved_mib"),
    [
        (81920, 8192, 1, 512 + 12288 + 512 + 128),
        (81920, 8192, 4, 512 + 12288 + 1024 + 512),
        (81920, 2048, 1, 10240),  # at least 10 GiB on large GPUs
        (24576, 1024, 1, 512 + 3072 + 48 + 128),  # no less than for 2,048 tokens
        (24576, 2048, 8, 512 + 3072 + 160 + 1024),
    ],
)
def test_the_share_of_the_memory_leaves_room_for_activations_and_graphs(
    memory_mib: int, prefill_tokens: int, tensor_parallel: int, reserved_mib: int
) -> None:
    device = replace(A100, hbm_capacity_bytes=memory_mib * MIB)
    share = mem_fraction_static(device, prefill_tokens, tensor_parallel)
    assert share == round((memory_mib - reserved_mib) / memory_mib, 3)


def test_seats_are_512_per_context_that_fits_between_2048_and_4096() -> None:
    assert LLAMA3_8B.max_context_tokens == 8192
    assert max_running_requests(LLAMA3_8B, 10_000) == 2048
    assert max_running_requests(LLAMA3_8B, 40_016) == 2501
    assert max_running_requests(LLAMA3_8B, 400_000) == 4096


def test_the_cache_gets_what_the_weights_leave_of_the_share() -> None:
    capacity = sglang_capacity(A100, LLAMA3_8B, 1, 0.5)
    free_bytes = A100.hbm_capacity_bytes - A100.cuda_context_bytes
    kv_bytes = int(free_bytes * 0.5) - LLAMA3_8B.sharded(1).weight_bytes
    assert capacity.num_tokens == kv_bytes // 131_072
    total = capacity.weight_bytes + capacity.cuda_context_bytes + capacity.kv_bytes
    assert capacity.budget_bytes == total


def test_weights_that_do_not_fit_are_refused_in_one_line() -> None:
    with pytest.raises(CapacityError, match="llama2_70b does not fit a100_sxm_80gb") as caught:
        sglang_capacity(A100, load_model("llama2_70b"), 1, 0.9)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("overrides", "seats", "chunk", "share"),
    [
        ([], 4096, 8192, 0.834),
        (["engine.max_num_seqs=7"], 7, 8192, 0.834),
        (["engine.max_num_batched_tokens=100"], 4096, 100, 0.874),
        (["engine.gpu_memory_utilization=0.5"], 4096, 8192, 0.5),
        (["engine.num_gpu_blocks=5001"], 2048, 8192, None),
    ],
)
def test_sizes_given_replace_defaults(
    overrides: list[str], seats: int, chunk: int, share: float | None
) -> None:
    job = read_job(compose_config(["engine=sglang", *overrides])[0])
    sizes = build_deployment(job).sizes
    assert (sizes.max_num_seqs, sizes.max_num_batched_tokens) == (seats, chunk)
    assert sizes.gpu_memory_utilization == share


def test_other_pages_are_refused() -> None:
    config = compose_config(["engine=sglang", "engine.block_tokens=16"])[0]
    with pytest.raises(ConfigError, match=r"engine\.block_tokens=16: engine Sglang is modelled"):
        read_job(config)
