"""Hit ratio and bandwidth of cyclic scans."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwmodels.kernels.l2_curve import L2Curve
from sim.errors import ConfigError
from tests.unit.hwmodels.locality.devices import A100_L2, ADA_L2, H200_L2, MIB


def test_half_the_reads_hit_at_the_midpoint() -> None:
    curve = L2Curve(midpoint_bytes=100.0, log_width=0.5, l2_bytes_per_s=4e9, hbm_bytes_per_s=1e9)
    assert curve.hit_ratio(100) == 0.5
    # (200 / 100)^(1 / 0.5) = 4
    assert curve.hit_ratio(200) == pytest.approx(1 / 5, rel=1e-14)
    assert curve.hit_ratio(50) == pytest.approx(4 / 5, rel=1e-14)


def test_hits_and_misses_take_time_at_their_own_rates() -> None:
    curve = L2Curve(midpoint_bytes=100.0, log_width=0.5, l2_bytes_per_s=4e9, hbm_bytes_per_s=1e9)
    # 0.2 of a byte at 4 GB/s and 0.8 at 1 GB/s: 0.05 + 0.8 = 0.85 ns
    assert curve.bytes_per_s(200) == pytest.approx(1e9 / 0.85, rel=1e-14)


def test_numbers_of_the_published_curves() -> None:
    found = [A100_L2.bytes_per_s(30 * MIB), H200_L2.bytes_per_s(64 * MIB), ADA_L2.hit_ratio(1e8)]
    assert found == pytest.approx(
        [4307272419401.7236, 4320198087723.5957, 0.9866052327003855], rel=1e-9
    )


def test_scalars_give_floats_and_arrays_keep_their_shape() -> None:
    assert isinstance(A100_L2.hit_ratio(1.0), float)
    assert A100_L2.bytes_per_s(np.ones((2, 3))).shape == (2, 3)


def test_the_ends_of_the_range_are_finite() -> None:
    assert ADA_L2.hit_ratio([0.0, 1e30]).tolist() == pytest.approx([1.0, 0.0])
    assert ADA_L2.bytes_per_s(0.0) == pytest.approx(5214e9)
    assert ADA_L2.bytes_per_s(1e30) == pytest.approx(820e9)


@given(st.lists(st.floats(0, 1e13), min_size=2, max_size=20))
def test_hits_and_bandwidth_fall_as_the_data_set_grows(data_sets: list[float]) -> None:
    for curve in (A100_L2, H200_L2, ADA_L2):
        hits = curve.hit_ratio(np.sort(data_sets))
        assert (np.diff(hits) <= 0).all() and hits.min() >= 0 and hits.max() <= 1
        rates = curve.bytes_per_s(np.sort(data_sets))
        assert (np.diff(rates) <= 0).all()
        assert (rates >= curve.hbm_bytes_per_s * (1 - 1e-12)).all()
        assert (rates <= curve.l2_bytes_per_s * (1 + 1e-12)).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"midpoint_bytes": 0.0}, "midpoint_bytes must be from 1"),
        ({"log_width": 0.0}, "log_width must be above 0"),
        ({"l2_bytes_per_s": 5427.0}, "l2_bytes_per_s must be from 1e"),
        ({"hbm_bytes_per_s": 6e12}, "hbm_bytes_per_s must be at most l2_bytes_per_s"),
    ],
)
def test_constants_out_of_bounds_are_one_line(change: dict[str, float], message: str) -> None:
    constants = {
        "midpoint_bytes": 1e7,
        "log_width": 0.1,
        "l2_bytes_per_s": 5e12,
        "hbm_bytes_per_s": 2e12,
    }
    with pytest.raises(ConfigError, match=message):
        L2Curve(**(constants | change))


def test_a_negative_data_set_is_refused() -> None:
    with pytest.raises(ConfigError, match="data_set_bytes must be at least 0"):
        A100_L2.hit_ratio(-1.0)
