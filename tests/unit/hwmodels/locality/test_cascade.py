"""When vLLM cascades, and what the pass over the prefix costs."""

import numpy as np
import pytest

from hwmodels.kernels.cascade import common_prefix_tokens, prefix_pass_s, uses_cascade
from tests.unit.hwmodels.locality.devices import A100_PREFILL, ADA_PREFILL

A100_SMS, ADA_SMS = 108, 142


@pytest.mark.parametrize(
    ("num_heads", "num_kv_heads", "num_sms", "smallest_batch"),
    [(32, 8, A100_SMS, 14), (32, 8, ADA_SMS, 18), (14, 2, A100_SMS, 55), (14, 2, ADA_SMS, 72)],
)
def test_grouped_queries_cascade_from_a_batch_on(
    num_heads: int, num_kv_heads: int, num_sms: int, smallest_batch: int
) -> None:
    batches = np.arange(1, smallest_batch + 1)
    used = uses_cascade(batches, 5008, num_heads, num_kv_heads, num_sms)
    assert used.tolist() == [False] * (smallest_batch - 1) + [True]


def test_short_prefixes_and_small_batches_never_cascade() -> None:
    assert uses_cascade(8, 256, 32, 32, A100_SMS)
    assert not uses_cascade(7, 256, 32, 32, A100_SMS)
    assert not uses_cascade(8, 255, 32, 32, A100_SMS)
    assert not uses_cascade(100, 5000, 32, 32, A100_SMS, is_plain_attention=False)


def test_a_prefill_in_the_step_decides_for_the_cascade() -> None:
    assert not uses_cascade(8, 5008, 32, 8, A100_SMS)
    assert uses_cascade(8, 5008, 32, 8, A100_SMS, longest_query_tokens=2)


def test_one_query_head_per_kv_head_decides_for_the_cascade() -> None:
    # 2 tiles against ceil(8 8 2 / 108) = 2: no fewer waves, and yet it is used.
    assert uses_cascade(8, 256, 8, 8, A100_SMS)
    assert not uses_cascade(8, 256, 16, 8, A100_SMS)


def test_equal_waves_do_not_cascade() -> None:
    # 2 tiles of prefix, 27 requests of 4 KV heads are 216 tiles: 2 waves; 32 heads of one query
    # tile are one wave of 2 tiles.
    assert not uses_cascade(27, 256, 32, 4, A100_SMS)
    assert uses_cascade(28, 256, 32, 4, A100_SMS)


def test_groups_of_more_than_a_tile_count_twice() -> None:
    # 40 tiles of prefix; 256 and 258 heads are both 3 waves, 120. For 127 requests of 2 KV heads
    # groups of 128 are ceil(127 2 40 / 108) = 95, groups of 129 are two tiles each, 189.
    assert not uses_cascade(127, 5008, 256, 2, A100_SMS)
    assert uses_cascade(127, 5008, 258, 2, A100_SMS)


def test_more_queries_than_a_tile_count_twice() -> None:
    # 64 heads of up to 128 queries are one wave of 40 tiles, of up to 256 two waves, 80; requests
    # of one KV head are ceil(128 40 / 108) = 48 and ceil(129 40 / 108) = 48.
    assert uses_cascade(128, 5008, 64, 1, A100_SMS)
    assert not uses_cascade(129, 5008, 64, 1, A100_SMS)


def test_the_common_prefix_is_whole_blocks_computed_everywhere() -> None:
    assert common_prefix_tokens(1000, 5000) == 992
    assert common_prefix_tokens(1000, 500) == 496
    assert common_prefix_tokens(1000, 500, block_tokens=128) == 384
    assert common_prefix_tokens(15, 500) == 0


def test_the_prefix_pass_by_hand() -> None:
    # 100 queries are 2 tiles of 64: 4 * 128 * 64 * 5000 FLOPs per tile and head.
    tile_flops = 163.84e6
    tile_s = 0.823 * 108 * tile_flops / 188.493e12
    io_s = 2 * 2 * 128 * (32 * 100 + 8 * 5000) / 843.5e9
    assert tile_s > io_s
    found = prefix_pass_s(A100_PREFILL, 100, 5000, 32, 8)
    assert found == pytest.approx(10.236e-6 + tile_s, rel=1e-12)
    # 300 queries are 5 tiles: 160 blocks, two waves of 108.
    found = prefix_pass_s(A100_PREFILL, 300, 5000, 32, 8)
    assert found == pytest.approx(10.236e-6 + 2 * tile_s, rel=1e-12)
    # Few heads of queries for many of KV: the bytes bind.
    found = prefix_pass_s(A100_PREFILL, 1, 5000, 64, 64)
    io_s = 2 * 2 * 128 * (64 * 1 + 64 * 5000) / 843.5e9
    assert found == pytest.approx(10.236e-6 + io_s, rel=1e-12)


def test_a_prefix_of_5k_for_100_requests_takes_far_longer_than_its_bytes() -> None:
    found = prefix_pass_s(ADA_PREFILL, 100, 5000, 32, 8)
    assert found > 4 * 4096 * 5000 / 960e9


def test_the_prefix_pass_never_gets_cheaper_with_queries_or_prefix() -> None:
    queries, prefixes = np.arange(1, 300)[:, None], np.arange(256, 4096, 16)
    found = prefix_pass_s(A100_PREFILL, queries, prefixes, 32, 8)
    assert found.shape == (299, 240)
    assert (np.diff(found, axis=0) >= 0).all() and (np.diff(found, axis=1) > 0).all()
