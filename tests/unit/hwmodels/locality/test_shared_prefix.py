"""Times over prefix trees, kernel by kernel."""

from dataclasses import replace
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hwmodels.kernels.cascade import prefix_pass_s
from hwmodels.kernels.parameters import from_values, to_values
from hwmodels.kernels.prefix_batch import PrefixBatch
from hwmodels.kernels.shared_prefix import SharedPrefixKernel, SharedPrefixModel
from hwmodels.kernels.tree_traffic import MemberOrder, tree_traffic
from sim.errors import ConfigError
from tests.l2_oracle.trees import random_tree
from tests.unit.hwmodels.locality.devices import A100, A100_DECODE, A100_L2, A100_PREFILL, ADA, H200

KERNELS: tuple[SharedPrefixKernel, ...] = get_args(SharedPrefixKernel)
ORDERS: tuple[MemberOrder, ...] = get_args(MemberOrder)


@pytest.mark.parametrize(
    ("nodes", "tokens", "heads", "packed_s", "flash_pat_s", "flashinfer_s"),
    [
        (
            [1, 10],
            [4096, 416],
            (32, 32),
            9.003812658691546e-05,
            0.00030271599501600807,
            0.00015394212540439638,
        ),
        (
            [1, 4, 256],
            [32, 256, 32],
            (16, 8),
            3.859324276100413e-05,
            0.00012601748449993426,
            8.50434527816532e-05,
        ),
        (
            [4, 16, 256, 512],
            [512, 32, 128, 32],
            (64, 8),
            0.00020384237950888987,
            0.000514160094151854,
            0.0003349214497090209,
        ),
        (
            [256],
            [1024],
            (32, 8),
            0.0006275182272047102,
            0.000650400802809203,
            0.0006307241701800368,
        ),
    ],
)
def test_published_constants_give_published_times(
    nodes: list[int],
    tokens: list[int],
    heads: tuple[int, int],
    packed_s: float,
    flash_pat_s: float,
    flashinfer_s: float,
) -> None:
    assert A100.time_s(nodes, tokens, *heads, kernel="packed") == pytest.approx(packed_s, rel=1e-9)
    # Those times count waves as a real number; ten requests in 1.5 waves of slots are 2 here.
    found = [A100.time_s(nodes, tokens, *heads, kernel=k) for k in ("flash_pat", "flashinfer")]
    assert found == pytest.approx(
        [flash_pat_s, flashinfer_s], rel=0.06 if nodes == [1, 10] else 5e-3
    )


def test_without_sharing_flash_is_the_decode_form() -> None:
    found = A100.time_s([50], [3000], 32, 8, kernel="flash")
    expected = A100_DECODE.time_s(50, 150_000, 3000, 50 * 3000**2, 32, 8)
    assert found == pytest.approx(float(expected), rel=1e-12)


def test_thread_blocks_bound_what_sharing_saves() -> None:
    # 800 thread blocks in 7 full waves of 108 and one of 44, at 18.23 GB/s each.
    alone_s = 5020 * 512 / 18.23e9
    found = A100.time_s([1, 100], [5000, 20], 32, 8, kernel="flash")
    assert found == pytest.approx(7.76e-6 + 4.36e-6 + 8 * (1.507e-6 + alone_s), rel=1e-3)


def test_splits_make_waves_of_fewer_requests() -> None:
    # 10 requests of 8 KV heads fill 80 of 216 slots; split in 5 they are 400 thread blocks.
    batch = PrefixBatch.from_levels([1, 10], [8000, 20])
    assert A100_DECODE.splits(10, 8020, 32, 8) == 5
    options: dict[str, Any] = {"token_bytes": 4096.0, "drift_tokens": 128.0}
    expected = tree_traffic(batch, A100_L2, requests_per_wave=216 / 40, **options)
    for kernel in ("flash", "flash_cascade"):
        found = replace(A100, cta_slots=999).traffic(batch, 32, 8, kernel=kernel)
        assert found.hbm_bytes == pytest.approx(expected.hbm_bytes, rel=1e-12)
    assert expected.hbm_bytes > 1.05 * expected.unique_bytes
    other = A100.traffic(batch, 32, 8, kernel="flashinfer")
    assert other.hbm_bytes == pytest.approx(
        tree_traffic(batch, A100_L2, requests_per_wave=216 / 8, **options).hbm_bytes, rel=1e-12
    )


def test_more_than_64_queries_per_kv_head_take_more_thread_blocks() -> None:
    batch = PrefixBatch.from_levels([1, 216], [8000, 20])
    found = A100.traffic(batch, 65, 1, kernel="flashinfer")
    # 216 slots hold 108 requests: half of the requests' own tokens and the root are a wave.
    assert found.wave_bytes == pytest.approx([512 * (8000 + 108 * 20)], rel=1e-12)


def test_splits_change_within_a_run() -> None:
    batch = PrefixBatch.from_levels([1, 7], [700, 20])
    splits = A100_DECODE.splits(7, 720 + np.arange(600), 32, 8)
    assert splits.min() <= 3 and splits.max() >= 5  # one wave, two waves
    # A cache that holds what requests in step read, but not a wave: then the waves matter.
    model = replace(A100, l2=replace(A100_L2, midpoint_bytes=1e5), drift_tokens=1.0)
    run = model.steps_s(batch, 32, 8, num_steps=600)
    moved = model.traffic(batch, 32, 8, num_steps=600)
    for step in range(0, 600, 7):
        one = PrefixBatch.from_levels([1, 7], [700, 20 + step])
        assert model.traffic(one, 32, 8).hbm_bytes[0] == pytest.approx(moved.hbm_bytes[step])
        assert model.steps_s(one, 32, 8)[0] == pytest.approx(run[step], rel=1e-12)


def test_the_last_token_is_never_part_of_the_common_prefix() -> None:
    found = A100.tree_time_s([-1], [512], [20], 32, 32, kernel="flash_cascade")
    suffixes_s = A100.time_s([1, 20], [8, 8], 32, 32, kernel="flash")
    merge_s = 7.76e-6 + 20 * 32 * 128 * 8 / 3121e9
    prefix_s = prefix_pass_s(A100_PREFILL, 20, 496, 32, 32)
    assert found == pytest.approx(prefix_s + suffixes_s + merge_s, rel=1e-6)


def test_a_cascade_is_prefix_pass_suffixes_and_merge() -> None:
    found = A100.time_s([1, 100], [5000, 20], 32, 8, kernel="flash_cascade")
    prefix_s = prefix_pass_s(A100_PREFILL, 100, 4992, 32, 8)  # whole blocks of 16
    suffixes_s = A100.time_s([1, 100], [8, 20], 32, 8, kernel="flash", member_order="contiguous")
    merge_s = 7.76e-6 + 100 * 32 * 128 * 8 / 3121e9
    assert found == pytest.approx(prefix_s + suffixes_s + merge_s, rel=1e-9)
    assert found < 0.5 * A100.time_s([1, 100], [5000, 20], 32, 8, kernel="flash")


@pytest.mark.parametrize(
    ("nodes", "tokens"),
    [([5, 100], [5000, 20]), ([1, 13], [5000, 20]), ([1, 100], [255, 20])],
)
def test_where_the_rule_does_not_cascade_it_is_flash(nodes: list[int], tokens: list[int]) -> None:
    cascade, flash = (
        A100.time_s(nodes, tokens, 32, 8, kernel=kernel) for kernel in ("flash_cascade", "flash")
    )
    assert cascade == flash


def test_one_deviating_request_ends_the_cascade() -> None:
    parents = [-1] + [0] * 99 + [-1]
    alike = ADA.tree_time_s(parents[:-1], [5000] + [20] * 99, [99] + [1] * 99, 32, 8,
                            kernel="flash_cascade")  # fmt: skip
    mixed = ADA.tree_time_s(parents, [5000] + [20] * 99 + [5020], [99] + [1] * 100, 32, 8,
                            kernel="flash_cascade")  # fmt: skip
    assert mixed > 2 * alike


def test_a_tree_by_levels_and_node_by_node_take_the_same_time() -> None:
    parents = [-1, 0, 0, 1, 1, 2, 2]
    for kernel in KERNELS:
        one = A100.time_s([1, 2, 4], [600, 30, 5], 32, 8, kernel=kernel)
        other = A100.tree_time_s(
            parents, [600, 30, 30, 5, 5, 5, 5], [4, 2, 2, 1, 1, 1, 1], 32, 8, kernel=kernel
        )
        assert other == pytest.approx(one, rel=1e-12)


@pytest.mark.parametrize("model", [A100, H200, ADA])
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("heads", [(32, 8), (32, 32), (14, 2), (8, 1)])
def test_a_run_equals_its_steps_one_by_one(
    model: SharedPrefixModel, kernel: SharedPrefixKernel, order: MemberOrder, heads: tuple[int, int]
) -> None:
    run = model.steps_s(
        PrefixBatch.from_levels([3, 30], [900, 60]), *heads, 128, kernel, order, num_steps=200
    )
    assert run.shape == (200,)
    for step in (0, 1, 63, 64, 65, 199):
        batch = PrefixBatch.from_levels([3, 30], [900, 60 + step])
        one = model.steps_s(batch, *heads, 128, kernel, order)
        assert run[step] == pytest.approx(one[0], rel=1e-12)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(KERNELS), st.sampled_from(ORDERS))
def test_no_kernel_beats_its_unique_bytes_or_its_flops(
    seed: int, kernel: SharedPrefixKernel, order: MemberOrder
) -> None:
    tree = random_tree(np.random.default_rng(seed))
    tokens = [16 * tiles for tiles in tree.num_tiles]
    batch = PrefixBatch.from_tree(tree.parents, tokens, tree.members().tolist())
    peaks = ((A100, 312e12, 2039e9), (H200, 989e12, 4.8e12), (ADA, 364.2e12, 960e9))
    for model, flops_per_s, hbm_bytes_per_s in peaks:
        if model is not A100 and kernel in ("packed", "flashinfer", "flash_pat"):
            continue  # known for the A100 only
        times_s = model.steps_s(batch, 32, 8, 128, kernel, order, num_steps=20)
        added = batch.batch_size * np.arange(20)
        flops = 4 * 128 * 32 * (batch.context_tokens_sum + added)
        assert (times_s >= flops / flops_per_s).all()
        assert (times_s >= 4096 * (batch.unique_tokens + added) / hbm_bytes_per_s).all()


def test_where_no_thread_block_limit_is_known_hits_cost_l2_bandwidth() -> None:
    found = H200.time_s([1, 256], [8000, 10], 32, 8, kernel="flash")
    logical_bytes = 256 * 8010 * 4096
    assert found >= logical_bytes / 10073e9
    assert found < 0.7 * logical_bytes / 4173e9


def test_more_sharing_is_never_slower() -> None:
    for kernel in KERNELS:
        for order in ORDERS:
            times_s = [
                A100.time_s([groups, 96], [4000, 50], 32, 8, kernel=kernel, member_order=order)
                for groups in (1, 2, 3, 4, 6, 8, 12, 24, 48, 96)
            ]
            assert (np.diff(times_s) >= -1e-12).all(), (kernel, order)


def test_requests_side_by_side_are_never_slower_than_mixed_ones() -> None:
    for kernel in KERNELS:
        for groups in (2, 5, 20):
            contiguous, interleaved = (
                A100.time_s([groups, 100], [5000, 50], 32, 8, kernel=kernel, member_order=order)
                for order in ("contiguous", "interleaved")
            )
            assert contiguous <= interleaved * (1 + 1e-12)


def test_parameters_survive_json_without_the_models_beside_them() -> None:
    beside = frozenset({"l2", "decode_attention", "prefill_attention"})
    values = to_values(A100, beside)
    assert values["packed"]["merge_bytes_per_s"] == 3121e9
    given_models = {name: getattr(A100, name) for name in beside}
    assert from_values("x", SharedPrefixModel, values, given_models) == A100


def test_an_unknown_kernel_lists_the_known_ones() -> None:
    allowed = "allowed: flash, flash_pat, flash_cascade, flashinfer, packed"
    with pytest.raises(ConfigError, match=f"unknown kernel 'pat'; {allowed}"):
        A100.time_s([1, 4], [100, 10], 32, 8, kernel="pat")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("missing", "kernel"),
    [
        ("l2", "flashinfer"),
        ("l2", "flash"),
        ("decode_attention", "flash"),
        ("decode_attention", "flash_cascade"),
        ("prefill_attention", "flash_cascade"),
    ],
)
def test_a_kernel_whose_model_is_missing_says_so(missing: str, kernel: SharedPrefixKernel) -> None:
    model = replace(A100, **{missing: None})  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=f"need {missing}, which the device lacks"):
        model.time_s([1, 40], [1000, 10], 32, 8, kernel=kernel)
    assert model.time_s([1, 40], [1000, 10], 32, 8, kernel="packed") > 0
