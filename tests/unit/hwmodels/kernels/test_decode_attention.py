"""Decode attention: waves, splits and stragglers by hand, reference parameters, bounds."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from hwmodels.kernels.decode_attention import DecodeAttentionModel
from sim.errors import ConfigError
from tests.unit.hwmodels.kernels.parameter_sets import (
    A100_DECODE,
    A100_FLOPS,
    A100_HBM,
    H100_DECODE,
    H100_FLOPS,
    H100_HBM,
    TOY_DECODE,
)

BLOCK_S = 128 * 512 / 1e9
"""128 tokens of one KV head of width 128 at 1 GB/s."""


def time_s(model: DecodeAttentionModel, lengths: Sequence[int], heads: int, kv: int) -> float:
    return float(model.lengths_time_s(lengths, heads, kv))


def test_a_full_wave_streams_all_bytes_at_the_memory_rate() -> None:
    expected_s = 1e-6 + 0.125e-6 + 4 * BLOCK_S
    assert time_s(TOY_DECODE, [128] * 4, 1, 1) == pytest.approx(expected_s, rel=1e-12)


def test_a_second_wave_streams_what_is_left() -> None:
    expected_s = 1e-6 + 2 * 0.125e-6 + 5 * BLOCK_S
    assert time_s(TOY_DECODE, [128] * 5, 1, 1) == pytest.approx(expected_s, rel=1e-12)
    # At half the memory rate, the one thread block of the second wave cannot use it all.
    limited = replace(TOY_DECODE, cta_mha_bytes_per_s=0.5e9)
    expected_s = 1e-6 + 2 * 0.125e-6 + 4 * BLOCK_S + 2 * BLOCK_S
    assert time_s(limited, [128] * 5, 1, 1) == pytest.approx(expected_s, rel=1e-12)


def test_each_kind_of_heads_has_its_own_block_rate() -> None:
    limited = replace(
        TOY_DECODE, cta_mha_bytes_per_s=0.2e9, cta_gqa_bytes_per_s=0.1e9, split_slots=1
    )
    assert time_s(limited, [128] * 4, 1, 1) == pytest.approx(1.125e-6 + 5 * BLOCK_S, rel=1e-12)
    assert time_s(limited, [128] * 4, 2, 1) == pytest.approx(1.125e-6 + 10 * BLOCK_S, rel=1e-12)


def test_grouped_heads_are_swapped_if_there_are_several_requests_and_kv_heads() -> None:
    base_s = 1.125e-6
    unsplit = replace(TOY_DECODE, split_slots=1)
    assert time_s(unsplit, [128] * 2, 4, 2) == pytest.approx(
        base_s + 0.25e-6 + 4 * BLOCK_S, rel=1e-12
    )
    assert time_s(unsplit, [128] * 4, 2, 1) == pytest.approx(base_s + 4 * BLOCK_S, rel=1e-12)
    assert time_s(unsplit, [128], 8, 4) == pytest.approx(base_s + 4 * BLOCK_S, rel=1e-12)


def test_a_single_request_is_split_and_combined() -> None:
    assert TOY_DECODE.splits(1, 512, 8, 1) == 4
    expected_s = 1.125e-6 + 0.5e-6 + 4 * BLOCK_S
    assert time_s(TOY_DECODE, [512], 8, 1) == pytest.approx(expected_s, rel=1e-12)
    # A block per part that is not full still streams whole blocks: 5 blocks in 4 parts are 2 each.
    limited = replace(TOY_DECODE, cta_gqa_bytes_per_s=0.1e9)
    slots = TOY_DECODE.splits(1, 640, 8, 1)
    assert slots == 3  # two blocks a part; a fourth part would not shorten the longest
    assert time_s(limited, [640], 8, 1) == pytest.approx(1.625e-6 + 20 * BLOCK_S, rel=1e-12)


def test_splits_follow_the_rule_of_the_kernel() -> None:
    # Thread blocks that fill 0.8 of 216 slots (172.8) are never split.
    batch = np.array([1, 4, 8, 16, 171 / 8, 172 / 8, 173 / 8, 27])
    longest = np.array([8, 8, 16, 32, 32, 32, 32, 32]) * 128
    found = A100_DECODE.splits(batch, longest, 32, 8)
    assert found.tolist() == [8, 4, 3, 3, 5, 5, 1, 1]
    found = H100_DECODE.splits([2, 16, 64], [3 * 128, 300 * 128, 20 * 128], 2, 1)
    assert found.tolist() == [3, 7, 2]
    # Two parts of 170 thread blocks would fill two waves of 216 no better than one part one wave.
    assert A100_DECODE.splits(170, 2 * 128, 8, 1) == 1
    # 400 blocks: 200 parts of 2 would fill 216 slots best, but 128 is the most; 100 parts of 4.
    assert A100_DECODE.splits(1, 400 * 128, 8, 1) == 100


def test_more_than_64_query_heads_of_a_kv_head_take_further_thread_blocks() -> None:
    wide_s = time_s(TOY_DECODE, [128] * 4, 65, 1)
    assert wide_s == pytest.approx(1e-6 + 2 * 0.125e-6 + 8 * BLOCK_S, rel=1e-12)


def test_the_longest_request_trails_the_token_weighted_mean() -> None:
    # S2/S1 = (2 * 64^2 + 2 * 192^2) / 512 = 160 tokens; the longest has 32 more.
    expected_s = 1.125e-6 + 4 * BLOCK_S + 32 * 512 / 1e9
    assert time_s(TOY_DECODE, [64, 192, 64, 192], 1, 1) == pytest.approx(expected_s, rel=1e-12)
    slower = replace(TOY_DECODE, straggler_bytes_per_s=0.5e9)
    expected_s += 32 * 512 / 1e9
    assert time_s(slower, [64, 192, 64, 192], 1, 1) == pytest.approx(expected_s, rel=1e-12)


def test_contexts_that_are_split_have_no_straggler() -> None:
    # 1 and 4 blocks, 2 thread blocks without a split: 2 parts fill the slots.
    assert TOY_DECODE.splits(2, 512, 8, 1) == 2
    expected_s = 1.125e-6 + 0.5e-6 + 5 * BLOCK_S
    assert time_s(TOY_DECODE, [128, 512], 8, 1) == pytest.approx(expected_s, rel=1e-12)


def test_bytes_that_hit_in_l2_take_no_memory_time() -> None:
    whole_s = TOY_DECODE.time_s(4, 512, 128, 4 * 128**2, 1, 1)
    half_s = TOY_DECODE.time_s(4, 512, 128, 4 * 128**2, 1, 1, hbm_bytes=2 * 128 * 512)
    assert whole_s - half_s == pytest.approx(2 * BLOCK_S, rel=1e-12)
    none_s = TOY_DECODE.time_s(4, 512, 128, 4 * 128**2, 1, 1, hbm_bytes=0)
    assert none_s == pytest.approx(1.125e-6, rel=1e-12)


CASES: list[tuple[list[int], int, int, int, float | None, float, float]] = [
    # lengths, heads, kv heads, head dim, HBM bytes, A100 and H100 seconds
    ([1024] * 8, 32, 8, 128, None, 4.406448229e-05, 2.404885733e-05),
    ([1000, 3000, 500, 9000], 32, 8, 128, None, 5.895566863e-05, 3.126238354e-05),
    ([2048] * 13, 32, 32, 128, None, 2.884779345e-04, 1.634611453e-04),
    ([2048] * 14, 32, 32, 128, None, 3.471740316e-04, 1.745940027e-04),
    ([4096] * 256, 64, 8, 128, None, 2.745392355e-03, 1.472491739e-03),
    ([512], 8, 1, 64, None, 1.732447669e-05, 1.295948772e-05),
    ([5000] * 100, 32, 8, 128, 4e8, 1.147598929e-03, 1.586360013e-04),
    ([300, 700] * 40, 71, 1, 64, None, 4.376029018e-05, 2.154537792e-05),
]


@pytest.mark.parametrize("case", CASES)
def test_reference_parameters_give_the_reference_times(
    case: tuple[list[int], int, int, int, float | None, float, float],
) -> None:
    lengths, heads, kv_heads, head_dim, hbm_bytes, *expected_s = case
    array = np.array(lengths, dtype=np.float64)
    moments = (len(lengths), array.sum(), array.max(), np.square(array).sum())
    for model, seconds in zip((A100_DECODE, H100_DECODE), expected_s, strict=True):
        found_s = model.time_s(*moments, heads, kv_heads, head_dim, hbm_bytes)
        assert found_s == pytest.approx(seconds, rel=1e-9)


def test_a_wave_more_costs_a_7b_model_a_fifth_on_a100() -> None:
    times_s = [time_s(A100_DECODE, [2048] * batch, 32, 32) for batch in (13, 14)]
    assert times_s[1] / times_s[0] == pytest.approx(1.203, abs=0.001)


@pytest.mark.parametrize(
    ("model", "flops_per_s", "hbm_bytes_per_s"),
    [(A100_DECODE, A100_FLOPS, A100_HBM), (H100_DECODE, H100_FLOPS, H100_HBM)],
)
def test_never_faster_than_the_datasheet(
    model: DecodeAttentionModel, flops_per_s: float, hbm_bytes_per_s: float
) -> None:
    rng = np.random.default_rng(2)
    for heads, kv_heads in ((32, 8), (32, 32), (8, 1), (64, 1), (64, 8)):
        for batch_size in (1, 7, 64, 300):
            lengths = rng.integers(1, rng.integers(2, 20000), batch_size)
            total = int(lengths.sum())
            moved_s = total * 512 * kv_heads / hbm_bytes_per_s
            bound_s = max(total * 512 * heads / flops_per_s, moved_s)
            assert model.lengths_time_s(lengths, heads, kv_heads) > bound_s


@pytest.mark.parametrize("model", [A100_DECODE, H100_DECODE])
@pytest.mark.parametrize(("heads", "kv_heads"), [(32, 8), (32, 32)])
def test_longer_contexts_and_larger_batches_never_take_less_at_the_same_splits(
    model: DecodeAttentionModel, heads: int, kv_heads: int
) -> None:
    batch, length = np.meshgrid(np.arange(1, 130), np.arange(16, 6000, 37), indexing="ij")
    moments = (batch, batch * length, length, batch * length**2)
    times_s = model.time_s(*moments, heads, kv_heads)
    splits = model.splits(batch, length, heads, kv_heads)
    for axis in (0, 1):
        is_same = np.diff(splits, axis=axis) == 0
        assert np.all(np.diff(times_s, axis=axis)[is_same] >= 0)


def test_a_run_of_steps_prices_at_once_as_step_by_step() -> None:
    lengths = np.array([500, 900, 1300])
    steps = np.arange(700)
    grown = lengths[:, None] + steps
    run_s = A100_DECODE.time_s(3, grown.sum(0), grown.max(0), np.square(grown).sum(0), 32, 8)
    each_s = [float(A100_DECODE.lengths_time_s(lengths + step, 32, 8)) for step in steps]
    assert run_s.shape == (700,)
    np.testing.assert_array_equal(run_s, each_s)


def test_a_padded_kernel_reads_every_context_at_the_longest() -> None:
    padded_s = A100_DECODE.lengths_time_s([100, 4000, 700], 32, 8, is_padded=True)
    assert padded_s == A100_DECODE.lengths_time_s([4000] * 3, 32, 8)


@pytest.mark.parametrize("lengths", [[], 5, [[1, 2]]])
def test_a_batch_is_one_row_of_lengths(lengths: object) -> None:
    with pytest.raises(ConfigError, match=r"context_tokens must have shape \(requests,\)"):
        A100_DECODE.lengths_time_s(lengths, 8, 1)  # type: ignore[arg-type]


def test_lengths_below_one_are_refused() -> None:
    with pytest.raises(ConfigError, match="context_tokens must be at least 1, found 0"):
        A100_DECODE.lengths_time_s([4, 0], 8, 1)
    with pytest.raises(ConfigError, match="hbm_bytes must be at least 0, found -1"):
        A100_DECODE.time_s(1, 8, 8, 64, 8, 1, hbm_bytes=-1)
