"""Prefill attention: tiles by hand, reference parameters, bounds and monotonicity."""

from dataclasses import replace

import numpy as np
import pytest

from hwmodels.kernels.prefill_attention import PrefillAttentionModel
from sim.errors import ConfigError
from tests.unit.hwmodels.kernels.parameter_sets import (
    A100_FLOPS,
    A100_HBM,
    A100_PREFILL,
    H100_FLOPS,
    H100_HBM,
    H100_PREFILL,
)

TOY = PrefillAttentionModel(
    num_sms=2, launch_s=1e-6, flops_per_s=1e12, tail_weight=0.0, io_bytes_per_s=1e15
)
TILE_S = 4 * 64 * 64 * 64 / 1e12
"""64 queries of one head of width 64 against 64 keys."""


def compute_s(
    model: PrefillAttentionModel, batch: int, chunk: int, prefix: int, heads: int, kv: int
) -> float:
    computing = replace(model, launch_s=0.0, io_bytes_per_s=1e18)
    return float(computing.time_s(batch, chunk, prefix, heads, kv, head_dim=64))


def test_tiles_see_the_prefix_and_all_tiles_up_to_their_own() -> None:
    assert compute_s(TOY, 1, 64, 0, 1, 1) == pytest.approx(TILE_S, rel=1e-6)
    assert compute_s(TOY, 1, 65, 0, 1, 1) == pytest.approx(3 * TILE_S, rel=1e-6)
    assert compute_s(TOY, 1, 65, 128, 1, 1) == pytest.approx((3 + 2 * 2) * TILE_S, rel=1e-6)
    assert compute_s(TOY, 3, 64, 64, 2, 1) == pytest.approx(3 * 2 * 2 * TILE_S, rel=1e-6)


def test_the_tail_is_tiles_over_the_whole_context_on_one_processor() -> None:
    tailed = replace(TOY, tail_weight=0.5)
    # Half a tile at the rate of one of two processors: twice the time of all of them.
    tail_s = 0.5 * 2 * 3 * TILE_S
    assert compute_s(tailed, 1, 64, 128, 1, 1) == pytest.approx(3 * TILE_S + tail_s, rel=1e-6)


def test_queries_outputs_keys_and_values_move_once() -> None:
    moving = replace(TOY, flops_per_s=1e18, io_bytes_per_s=1e9)
    elements = 3 * 64 * (2 * 4 * 10 + 2 * 2 * (10 + 30))
    assert moving.time_s(3, 10, 30, 4, 2, 64) == pytest.approx(1e-6 + 2 * elements / 1e9, rel=1e-6)


def test_reference_parameters_give_the_reference_times() -> None:
    batch, chunk, prefix = [1, 4, 1, 2], [2048, 512, 100, 8192], [0, 4096, 7, 1000]
    heads, kv_heads, width = [32, 32, 64, 32], [8, 8, 8, 32], [128, 128, 64, 128]
    shape = (batch, chunk, prefix, heads, kv_heads, width)
    a100_s = [2.795892356e-04, 9.911370597e-04, 1.441081292e-05, 8.130451233e-03]
    np.testing.assert_allclose(A100_PREFILL.time_s(*shape), a100_s, rtol=1e-9)
    h100_s = [1.010396421e-04, 3.177727339e-04, 1.427984679e-05, 2.408658559e-03]
    np.testing.assert_allclose(H100_PREFILL.time_s(*shape), h100_s, rtol=1e-9)


@pytest.mark.parametrize(
    ("model", "flops_per_s", "hbm_bytes_per_s"),
    [(A100_PREFILL, A100_FLOPS, A100_HBM), (H100_PREFILL, H100_FLOPS, H100_HBM)],
)
def test_never_faster_than_the_datasheet_and_monotone(
    model: PrefillAttentionModel, flops_per_s: float, hbm_bytes_per_s: float
) -> None:
    chunk, prefix = np.meshgrid(np.arange(1, 9000, 61), np.arange(0, 30000, 997), indexing="ij")
    for batch, heads, kv_heads in ((1, 8, 1), (3, 32, 32), (16, 64, 8)):
        times_s = model.time_s(batch, chunk, prefix, heads, kv_heads)
        pairs = chunk * prefix + chunk * (chunk + 1) // 2
        flops_s = 4 * 128 * heads * batch * pairs / flops_per_s
        elements = 2 * heads * chunk + 2 * kv_heads * (chunk + prefix)
        assert np.all(times_s > flops_s)
        assert np.all(times_s > batch * 2 * 128 * elements / hbm_bytes_per_s)
        assert np.all(np.diff(times_s, axis=0) > 0)
        assert np.all(np.diff(times_s, axis=1) > 0)


def test_scalars_give_a_float_and_empty_chunks_are_refused() -> None:
    assert isinstance(A100_PREFILL.time_s(1, 16, 0, 8, 8), float)
    with pytest.raises(ConfigError, match="chunk_tokens must be at least 1, found 0"):
        A100_PREFILL.time_s(1, 0, 0, 8, 8)
    with pytest.raises(ConfigError, match="prefix_tokens must be at least 0, found -1"):
        A100_PREFILL.time_s(1, 16, -1, 8, 8)
