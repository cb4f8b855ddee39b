"""Collectives inside a node: latency plus bytes over bandwidth."""

from dataclasses import replace

import pytest

from hwmodels.collectives import all_gather_s, all_reduce_s, check_fits_node
from hwmodels.device import load_profile
from sim.errors import ConfigError

DEVICE = replace(
    load_profile("a100_sxm_80gb"),
    nvlink_bytes_per_s=1000.0,
    nvlink_efficiency_ratio=0.5,
    collective_latency_s=0.25,
)


def test_one_gpu_has_nothing_to_exchange() -> None:
    assert all_reduce_s(DEVICE, 10**9, 1) == 0
    assert all_gather_s(DEVICE, 10**9, 1) == 0


def test_all_reduce_sends_the_message_twice_less_the_own_part() -> None:
    assert all_reduce_s(DEVICE, 1000, 2) == pytest.approx(0.25 + 1000 / 500)
    assert all_reduce_s(DEVICE, 1000, 4) == pytest.approx(0.25 + 1500 / 500)


def test_all_gather_sends_a_part_to_each_peer() -> None:
    assert all_gather_s(DEVICE, 100, 4) == pytest.approx(0.25 + 300 / 500)


@pytest.mark.parametrize("name", ["a100_sxm_80gb", "h100_sxm", "h200_sxm"])
def test_decode_sized_all_reduce_takes_5_to_22_us(name: str) -> None:
    """Measured range of the CUDA-graph all-reduce at decode sizes (aiconfigurator tables)."""
    for num_requests in (1, 16, 64):
        for num_gpus in (2, 4, 8):
            time_s = all_reduce_s(load_profile(name), num_requests * 8192 * 2, num_gpus)
            assert 4e-6 < time_s < 22e-6


@pytest.mark.parametrize("num_gpus", [0, 9, 16])
def test_groups_beyond_a_node_are_refused(num_gpus: int) -> None:
    with pytest.raises(
        ConfigError, match=rf"^cluster.tensor_parallel={num_gpus}: .* allowed: 1..8"
    ):
        check_fits_node(num_gpus)
