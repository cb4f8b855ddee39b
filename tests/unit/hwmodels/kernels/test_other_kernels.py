"""Routed experts, all-reduce and small operators: by hand, reference parameters, bounds."""

from dataclasses import replace

import numpy as np
import pytest

from hwmodels.kernels.all_reduce import AllReduceGroup, AllReduceModel
from hwmodels.kernels.moe import MoeModel
from hwmodels.kernels.small_ops import SmallOpsModel
from sim.errors import ConfigError
from tests.unit.hwmodels.kernels.parameter_sets import (
    A100_ALL_REDUCE,
    A100_FLOPS,
    A100_HBM,
    A100_MOE,
)

TOY_MOE = MoeModel(
    launch_s=1e-6,
    hbm_bytes_per_s=1e9,
    flops_per_s=1e9,
    p_norm=1.0,
    expert_s=0.5e-6,
    activation_weight=2.0,
)
TOY_SMALL_OPS = SmallOpsModel(
    layer_s=10e-6, bytes_per_s=1e9, sampling_s=30e-6, sampling_bytes_per_s=2e9
)


def test_one_token_visits_its_experts_and_pads_their_rows_to_a_tile() -> None:
    # One of two experts: 3 matrices of 8 x 4, 16 rows instead of one.
    weight_bytes = 2 * 3 * 8 * 4
    activation_bytes = 2 * 2 * (2 * 8 + 3 * 4)
    flops = 16 * 2 * 3 * 8 * 4
    expected_s = 1e-6 + 2 * 0.5e-6 + (weight_bytes + activation_bytes + flops) / 1e9
    assert TOY_MOE.time_s(1, 8, 4, 1, 2) == pytest.approx(expected_s, rel=1e-12)


def test_tiles_of_experts_grow_with_their_rows_up_to_64() -> None:
    # All experts are visited (top_k = E), so that the rows of each are the tokens.
    computing = replace(TOY_MOE, launch_s=0.0, expert_s=0.0, hbm_bytes_per_s=1e18)
    row_s = 2 * 3 * 8 * 4 / 1e9
    rows = [computing.time_s(tokens, 8, 4, 1, 1) / row_s for tokens in (1, 17, 33, 64, 200)]
    assert rows == pytest.approx([16, 17 + 16, 33 + 32, 64 + 32, 200 + 32], rel=1e-6)


def test_experts_reference_parameters() -> None:
    found_s = A100_MOE.time_s(
        [1, 64, 4096], [4096, 2048, 4096], [14336, 768, 14336], [2, 8, 2], [8, 128, 8]
    )
    expected_s = [4.350259016e-04, 7.188294005e-04, 2.110405281e-02]
    np.testing.assert_allclose(found_s, expected_s, rtol=1e-9)


def test_experts_are_never_faster_than_the_datasheet_and_monotone() -> None:
    tokens = np.unique(np.geomspace(1, 8192, 200).astype(int))
    for hidden, width, top_k, experts in ((4096, 14336, 2, 8), (2048, 768, 8, 128)):
        times_s = A100_MOE.time_s(tokens, hidden, width, top_k, experts)
        visited = experts * (1 - (1 - top_k / experts) ** tokens)
        moved_s = visited * 6 * hidden * width / A100_HBM
        flops_s = tokens * top_k * 6 * hidden * width / A100_FLOPS
        assert np.all(times_s > np.maximum(moved_s, flops_s))
        assert np.all(np.diff(times_s) > 0)


def test_a_token_cannot_visit_more_experts_than_there_are() -> None:
    with pytest.raises(ConfigError, match="top_k must be at most num_experts"):
        TOY_MOE.time_s(1, 8, 4, 3, 2)


def test_all_reduce_by_hand() -> None:
    model = AllReduceModel(
        groups=(AllReduceGroup(num_gpus=2, base_s=3e-6, bytes_per_s=1e9, root_s=4e-6),)
    )
    # 0.25 MB: half of the square-root term; from 1 MB on all of it.
    assert model.time_s(250_000, 2) == pytest.approx(3e-6 + 250e-6 + 2e-6, rel=1e-12)
    assert model.time_s(4_000_000, 2) == pytest.approx(3e-6 + 4e-3 + 4e-6, rel=1e-12)


def test_all_reduce_reference_parameters() -> None:
    found_s = A100_ALL_REDUCE.time_s([131072, 131072, 8 * 2**20, 5], [2, 4, 8, 1])
    expected_s = [5.778520860e-06, 7.825349604e-06, 1.041262327e-04, 0.0]
    np.testing.assert_allclose(found_s, expected_s, rtol=1e-9)


def test_all_reduce_refuses_groups_without_parameters() -> None:
    with pytest.raises(ConfigError, match=r"num_gpus must be 1, 2, 4, 8 for .*, found 3"):
        A100_ALL_REDUCE.time_s(1024, [2, 3])
    with pytest.raises(ConfigError, match="groups must differ"):
        AllReduceModel(groups=A100_ALL_REDUCE.groups[:1] * 2)
    with pytest.raises(ConfigError, match="groups must differ"):
        AllReduceModel(groups=())
    with pytest.raises(ConfigError, match="num_gpus must be at least 2"):
        AllReduceGroup(num_gpus=1, base_s=0.0, bytes_per_s=1e9, root_s=0.0)


def test_small_operators_take_a_fixed_time_for_few_tokens_and_their_bytes_for_many() -> None:
    # 10 us, and 7.5, 24 and 30,000 us at 1 GB/s.
    times_s = TOY_SMALL_OPS.time_s([15, 48, 60000], 500, num_layers=3)
    np.testing.assert_allclose(times_s, [37.5e-6, 78e-6, 90e-3], rtol=1e-7)
    np.testing.assert_allclose(times_s[:2], [37.5e-6, 78e-6], rtol=1e-12)
    assert isinstance(TOY_SMALL_OPS.time_s(1, 500), float)


def test_sampling_takes_the_logits_of_the_sampled_positions() -> None:
    times_s = TOY_SMALL_OPS.sample_s([0, 1, 10], 1000)
    np.testing.assert_allclose(times_s, [0.0, 32e-6, 50e-6], rtol=1e-12)


def test_small_operators_refuse_negative_sizes() -> None:
    assert TOY_SMALL_OPS.time_s(1, 0) == 10e-6
    with pytest.raises(ConfigError, match="token_bytes must be at least 0, found -1"):
        TOY_SMALL_OPS.time_s(1, -1)
    with pytest.raises(ConfigError, match="num_sampled must be at least 0, found -1"):
        TOY_SMALL_OPS.sample_s(-1, 10)
