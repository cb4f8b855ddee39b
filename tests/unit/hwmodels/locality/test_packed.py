"""The kernel that reads every node once."""

import numpy as np
import pytest

from hwmodels.kernels.packed import PackedModel
from sim.errors import ConfigError

PLAIN = PackedModel(
    launch_s=1e-5, hbm_bytes_per_s=1e12, flops_per_s=1e14, p_norm=1.0, merge_bytes_per_s=2e12
)


def test_memory_compute_launch_and_merge_by_hand() -> None:
    # 1e9 bytes: 1 ms; 4 * 128 * 32 * 1e6 FLOPs: 0.16384 ms; 1000 * 32 * 128 * 8 bytes: 16.384 us
    found = PLAIN.time_s(1e6, 1e9, 1000, 32, 128)
    assert found == pytest.approx(1e-5 + 1e-3 + 1.6384e-4 + 1.6384e-5, rel=1e-12)


def test_times_broadcast() -> None:
    found = PLAIN.time_s(np.array([1e6, 2e6]), 1e9, np.array([[0.0], [1000.0]]), 32)
    assert found.shape == (2, 2)
    assert found[1, 0] == PLAIN.time_s(1e6, 1e9, 1000, 32)


def test_sizes_below_zero_are_refused() -> None:
    with pytest.raises(ConfigError, match="unique_bytes must be at least 0"):
        PLAIN.time_s(1, -1, 0, 32)
