"""Matrix products: tiles, waves and splits by hand, reference parameters, bounds."""

from dataclasses import replace

import numpy as np
import pytest

from hwmodels.kernels.gemm import GemmModel, Tile
from sim.errors import ConfigError
from tests.unit.hwmodels.kernels.parameter_sets import (
    A100_FLOPS,
    A100_GEMM,
    A100_HBM,
    A100_TWO_TILES,
    H100_FLOPS,
    H100_GEMM,
    H100_HBM,
    TOY_GEMM,
)


def test_one_wave_takes_the_flops_of_one_tile() -> None:
    # 2 x 2 tiles on 4 processors of 1 TFLOP/s each; memory takes an eighth of that.
    tile_s = 2 * 64 * 64 * 64 / 1e12
    assert TOY_GEMM.time_s(128, 128, 64) == pytest.approx(1e-6 + tile_s, rel=1e-12)


def test_a_tile_more_than_fits_starts_a_second_wave_or_half_of_one() -> None:
    tile_s = 2 * 64 * 64 * 64 / 1e12
    assert TOY_GEMM.time_s(128, 129, 64) == pytest.approx(1e-6 + 2 * tile_s, rel=1e-12)
    halfway = replace(TOY_GEMM, wave_ceil_weight=0.5)  # 6 tiles are 1.5 waves
    assert halfway.time_s(128, 129, 64) == pytest.approx(1e-6 + 1.75 * tile_s, rel=1e-12)


def test_a_prologue_comes_with_every_wave() -> None:
    slow = replace(TOY_GEMM, prologue_s=0.2e-6)
    tile_s = 2 * 64 * 64 * 64 / 1e12 + 0.2e-6
    assert slow.time_s(128, 129, 64) == pytest.approx(1e-6 + 2 * tile_s, rel=1e-12)


def test_a_single_tile_splits_its_depth_over_idle_processors() -> None:
    # Four parts of depth 64, the smallest allowed, and a reduction.
    part_s = 2 * 64 * 64 * 64 / 1e12
    expected_s = 1e-6 + part_s + 0.3e-6
    assert TOY_GEMM.time_s(64, 64, 256) == pytest.approx(expected_s, rel=1e-12)
    # Two parts are allowed, but the reduction takes longer than it saves.
    whole_s = 2 * 64 * 64 * 128 / 1e12
    costly = replace(TOY_GEMM, split_k_s=0.6e-6)
    assert costly.time_s(64, 64, 128) == pytest.approx(1e-6 + whole_s, rel=1e-12)


def test_a_split_moves_partial_sums() -> None:
    bound_by_memory = replace(TOY_GEMM, hbm_bytes_per_s=1e9)
    # One part keeps a quarter of the processors loading, at half the rate: twice the bytes. Two
    # parts reach the rate and move their sums; four would move twice as many sums.
    moved_bytes = 2 * (64 * 256 * 2 + 64 * 64)
    partial_bytes = 2 * 64 * 64 * 8 / 3
    two_parts_s = (moved_bytes + partial_bytes) / 1e9 + 0.3e-6
    assert bound_by_memory.time_s(64, 64, 256) == pytest.approx(1e-6 + two_parts_s, rel=1e-12)


def test_few_thread_blocks_do_not_reach_the_memory_rate() -> None:
    bound_by_memory = replace(TOY_GEMM, hbm_bytes_per_s=1e9)
    moved_bytes = 2 * (64 + 64 * 64 + 64)
    expected_s = 1e-6 + 2 * moved_bytes / 1e9
    assert bound_by_memory.time_s(1, 64, 64) == pytest.approx(expected_s, rel=1e-12)


def test_p_norm_of_one_adds_compute_and_memory() -> None:
    adding = replace(TOY_GEMM, p_norm=1.0)
    tile_s = 2 * 64 * 64 * 64 / 1e12
    memory_s = 2 * (2 * 128 * 64 + 128 * 128) / 1e12
    assert adding.time_s(128, 128, 64) == pytest.approx(1e-6 + tile_s + memory_s, rel=1e-12)


def test_the_faster_tile_is_taken() -> None:
    small, large = Tile(m=64, n=64, efficiency=0.5), Tile(m=128, n=128, efficiency=1.0)
    both = replace(TOY_GEMM, tiles=(small, large), p_norm=4.0)
    m = np.array([16, 64, 500, 4096])
    alone_s = [replace(both, tiles=(tile,)).time_s(m, 512, 64) for tile in (small, large)]
    assert np.argmin(alone_s, axis=0).tolist() == [0, 0, 1, 1]
    np.testing.assert_allclose(both.time_s(m, 512, 64), np.min(alone_s, axis=0), rtol=1e-15)


# m, n, k; seconds on A100, on A100 with two tiles, and on H100
REFERENCE_TIMES = [
    (1, 4096, 4096, 2.842284196e-05, 2.806224997e-05, 1.495856295e-05),
    (16, 6144, 4096, 3.753812767e-05, 3.764346768e-05, 2.032602584e-05),
    (64, 28672, 4096, 1.623771806e-04, 1.693143685e-04, 8.470779092e-05),
    (256, 4096, 14336, 1.504164301e-04, 1.507400803e-04, 5.149296228e-05),
    (2048, 4096, 4096, 2.709702494e-04, 2.766544156e-04, 8.882418951e-05),
    (8192, 8192, 8192, 4.078971626e-03, 3.896283629e-03, 1.334244408e-03),
    (33, 1000, 513, 6.564657485e-06, 7.565035878e-06, 4.594558933e-06),
]


def test_reference_parameters_give_the_reference_times() -> None:
    m, n, k, *times_s = np.array(REFERENCE_TIMES).T
    for model, seconds in zip((A100_GEMM, A100_TWO_TILES, H100_GEMM), times_s, strict=True):
        np.testing.assert_allclose(model.time_s(m, n, k), seconds, rtol=1e-9)


@pytest.mark.parametrize(
    ("model", "flops_per_s", "hbm_bytes_per_s"),
    [
        (A100_GEMM, A100_FLOPS, A100_HBM),
        (A100_TWO_TILES, A100_FLOPS, A100_HBM),
        (H100_GEMM, H100_FLOPS, H100_HBM),
    ],
)
def test_never_faster_than_the_datasheet(
    model: GemmModel, flops_per_s: float, hbm_bytes_per_s: float
) -> None:
    rng = np.random.default_rng(1)
    m, n, k = 2 ** rng.uniform(0, [[13], [15], [15]], (3, 5000)) // 1
    bound_s = np.maximum(2 * m * n * k / flops_per_s, 2 * (m * k + k * n + m * n) / hbm_bytes_per_s)
    assert np.all(model.time_s(m, n, k) > bound_s)


@pytest.mark.parametrize("model", [A100_GEMM, A100_TWO_TILES, H100_GEMM])
def test_more_rows_of_the_same_tiles_never_take_less(model: GemmModel) -> None:
    m = np.arange(1, 4097)
    for n, k in ((1024, 1024), (4096, 14336), (300, 4096)):
        times_s = model.time_s(m, n, k)
        steps = np.diff(np.ceil(m / 64)) > 0
        is_slower = np.diff(times_s) >= 0
        assert np.all(is_slower | steps)


def test_more_rows_never_take_less_once_half_the_processors_load() -> None:
    for model in (A100_GEMM, H100_GEMM):
        times_s = model.time_s(np.arange(1, 4097), 8192, 4096)
        assert np.all(np.diff(times_s) >= 0)


def test_shapes_broadcast_and_scalars_give_a_float() -> None:
    times_s = A100_GEMM.time_s(np.array([[1], [64]]), [1024, 2048, 4096], 512)
    assert times_s.shape == (2, 3)
    assert times_s.dtype == np.float64
    alone_s: object = A100_GEMM.time_s(64, 2048, 512)
    assert isinstance(alone_s, float)
    assert times_s[1, 1] == alone_s


@pytest.mark.parametrize("sizes", [(0, 8, 8), (8, -1, 8), (8, 8, np.nan), (8, 8, np.inf)])
def test_sizes_below_one_are_refused(sizes: tuple[float, float, float]) -> None:
    with pytest.raises(ConfigError, match=r"^[mnk] must be at least 1, found"):
        A100_GEMM.time_s(*sizes)


def test_parameters_out_of_range_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"launch_s must be from 0 to 1, found 3\.69"):
        replace(A100_GEMM, launch_s=3.69)
    with pytest.raises(ConfigError, match="hbm_bytes_per_s must be from 1e"):
        replace(A100_GEMM, hbm_bytes_per_s=1726.0)
    with pytest.raises(ConfigError, match="at least one tile"):
        replace(A100_GEMM, tiles=())
    with pytest.raises(ConfigError, match="efficiency must be above 0"):
        Tile(m=64, n=64, efficiency=0.0)
