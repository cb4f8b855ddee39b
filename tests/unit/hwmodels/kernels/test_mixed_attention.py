"""Mixed steps: terms by hand, the limits of the form, bounds, and the scalar pricer beside it."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwmodels.kernels.decode_attention import DecodeAttentionModel
from hwmodels.kernels.mixed_attention import MixedAttentionModel
from hwmodels.kernels.prefill_attention import PrefillAttentionModel
from hwmodels.mixed_pricer import MixedPricer
from hwmodels.model_catalogue import load_model
from sim.errors import ConfigError
from sim.interfaces import PrefillChunk
from tests.unit.hwmodels.kernels.parameter_sets import (
    A100_DECODE,
    A100_FLOPS,
    A100_HBM,
    A100_MIXED,
    A100_PREFILL,
    H100_DECODE,
    H100_FLOPS,
    H100_HBM,
    H100_MIXED,
    H100_PREFILL,
    TOY_DECODE,
)

GPUS = [
    (A100_MIXED, A100_DECODE, A100_PREFILL, A100_FLOPS, A100_HBM),
    (H100_MIXED, H100_DECODE, H100_PREFILL, H100_FLOPS, H100_HBM),
]

TOY_PREFILL = PrefillAttentionModel(
    num_sms=4, launch_s=1e-6, flops_per_s=1e12, tail_weight=0.0, io_bytes_per_s=1e18
)
TOY = MixedAttentionModel(
    block_s=0.0, idle_block_s=0.0, longest_weight=0.0, l2_reach_bytes=1e18, packs_queries=False
)
TILE_TOKEN_S = 4 * 128 * 64 / 1e12
"""A tile of 64 queries of one head against one context token."""
CHUNK_S = 64 * TILE_TOKEN_S
"""64 new tokens of one head without a prefix."""
FAST_DECODE = replace(TOY_DECODE, hbm_bytes_per_s=1e17)


def toy_s(
    model: MixedAttentionModel = TOY,
    decode: DecodeAttentionModel = FAST_DECODE,
    prefill: PrefillAttentionModel = TOY_PREFILL,
    lengths: tuple[int, ...] = (100, 300),
    chunk: int = 64,
    prefix: int = 0,
    heads: int = 4,
    kv_heads: int = 1,
    hbm_tokens: float | None = None,
) -> float:
    """Seconds beyond the launch."""
    batch = (len(lengths), sum(lengths), max(lengths, default=0))
    chunks = (chunk, prefix, 0)
    times_s = model.time_s(decode, prefill, *batch, *chunks, heads, kv_heads, hbm_tokens=hbm_tokens)
    return float(times_s[0]) - 1e-6


def test_a_decode_is_a_tile_of_queries_per_head_and_context_token() -> None:
    assert toy_s(lengths=()) == pytest.approx(4 * CHUNK_S, rel=1e-6)
    assert toy_s() == pytest.approx(4 * CHUNK_S + 4 * 400 * TILE_TOKEN_S, rel=1e-6)


def test_packed_heads_share_a_tile() -> None:
    packed = replace(TOY, packs_queries=True)
    assert toy_s(packed) == pytest.approx(4 * CHUNK_S + 400 * TILE_TOKEN_S, rel=1e-6)
    expected_s = 130 * CHUNK_S + 3 * 400 * TILE_TOKEN_S
    assert toy_s(packed, heads=130) == pytest.approx(expected_s, rel=1e-6)
    assert packed.blocks_each(130, 1) == 3


def test_memory_and_compute_overlap() -> None:
    slow = replace(TOY_DECODE, hbm_bytes_per_s=1e9)
    assert toy_s(decode=slow) == pytest.approx(400 * 512 / 1e9, rel=1e-6)
    assert toy_s(decode=slow, hbm_tokens=250) == pytest.approx(250 * 512 / 1e9, rel=1e-6)
    assert toy_s(decode=slow, hbm_tokens=0) == toy_s()


def test_heads_of_a_group_read_again_what_exceeds_l2() -> None:
    slow = replace(TOY_DECODE, hbm_bytes_per_s=1e9)
    # The contexts of one KV head are at the reach: half of three further reads miss.
    half = replace(TOY, l2_reach_bytes=400 * 512.0)
    assert toy_s(half, slow) == pytest.approx(2.5 * 400 * 512 / 1e9, rel=1e-6)
    none = replace(TOY, l2_reach_bytes=1.0)
    assert toy_s(none, slow) == pytest.approx(4 * 400 * 512 / 1e9, rel=1e-6)
    packed = replace(none, packs_queries=True)
    assert toy_s(packed, slow) == pytest.approx(400 * 512 / 1e9, rel=1e-6)


def test_heads_of_few_decodes_run_side_by_side_and_hit() -> None:
    slow = replace(TOY_DECODE, hbm_bytes_per_s=1e9)
    # Two decodes on four processors: y = 0.5 * 4 / 2 = 1, so that half of three reads hit.
    side_by_side = replace(TOY, l2_reach_bytes=1.0, resident_weight=0.5)
    assert toy_s(side_by_side, slow) == pytest.approx(2.5 * 400 * 512 / 1e9, rel=1e-6)


def test_the_longest_block_is_a_decode_or_the_tail_of_a_chunk() -> None:
    base_s = toy_s()
    tailed = replace(TOY_PREFILL, tail_weight=0.5)
    tail_s = 0.5 * 4 * 64 * TILE_TOKEN_S
    assert toy_s(prefill=tailed) == pytest.approx(base_s + tail_s, rel=1e-6)
    # 300 tokens of 512 bytes at 1 GB/s, half of it hidden.
    weighted = replace(TOY, longest_weight=0.5)
    longest_s = 0.5 * 300 * 512 / 1e9
    assert toy_s(weighted) == pytest.approx(base_s + longest_s, rel=1e-6)
    assert toy_s(weighted, prefill=tailed) == pytest.approx(base_s + longest_s, rel=1e-6)


def test_every_decode_starts_blocks_and_as_many_idle_ones_as_the_chunk_has_tiles_more() -> None:
    base_s = toy_s(chunk=129)
    costly = replace(TOY, block_s=1e-3, idle_block_s=1e-4)
    # Two decodes of four heads on four processors; three tiles in the grid, one with work.
    assert toy_s(costly, chunk=129) == pytest.approx(base_s + 2e-3 + 2 * 2e-4, rel=1e-6)
    packed = replace(costly, packs_queries=True)
    packed_s = toy_s(replace(TOY, packs_queries=True), chunk=129) + 2 * 1e-3 / 4
    assert toy_s(packed, chunk=129) == pytest.approx(packed_s, rel=1e-6)


@pytest.mark.parametrize(("model", "decode", "prefill"), [gpu[:3] for gpu in GPUS])
def test_without_decodes_it_is_the_prefill_kernel(
    model: MixedAttentionModel, decode: DecodeAttentionModel, prefill: PrefillAttentionModel
) -> None:
    chunk, prefix = [1, 64, 100, 2048], [0, 3000, 17, 8192]
    found_s = model.time_s(
        decode, prefill, [0] * 4, [0] * 4, [0] * 4, chunk, prefix, [0, 1, 2, 3], 32, 8
    )
    np.testing.assert_allclose(found_s, prefill.time_s(1, chunk, prefix, 32, 8), rtol=1e-12)


def test_chunks_of_a_step_share_the_launch_and_the_longest_block() -> None:
    moments = ([64, 3], [90000, 1200], [4000, 900])
    chunk, prefix, step = [300, 20, 512, 40], [0, 700, 5000, 10], [1, 0, 1, 1]
    joint_s = A100_MIXED.time_s(A100_DECODE, A100_PREFILL, *moments, chunk, prefix, step, 32, 8)
    assert joint_s.shape == (2,)
    alone_s = A100_MIXED.time_s(A100_DECODE, A100_PREFILL, 64, 90000, 4000, 20, 700, 0, 32, 8)
    assert joint_s[0] == alone_s[0]
    parts_s = A100_PREFILL.time_s(1, [300, 512, 40], [0, 5000, 10], 32, 8)
    no_decodes_s = A100_MIXED.time_s(
        A100_DECODE, A100_PREFILL, 0, 0, 0, [300, 512, 40], [0, 5000, 10], [0, 0, 0], 32, 8
    )
    tail_s = A100_PREFILL.tail_weight * 108 * 4 * 128 * 64 / A100_PREFILL.flops_per_s
    shared_s = 2 * A100_PREFILL.launch_s + (300 + 50) * tail_s
    assert no_decodes_s[0] == pytest.approx(float(np.sum(parts_s)) - shared_s, rel=1e-12)


SIZES = st.integers(1, 300)
TOKENS = st.integers(1, 9000)


@given(
    gpu=st.sampled_from(GPUS),
    heads=st.sampled_from([(32, 8), (32, 32), (64, 8), (8, 1)]),
    lengths=st.lists(TOKENS, min_size=1, max_size=40),
    chunk=st.integers(1, 4096),
    prefix=st.integers(0, 9000),
    share=st.floats(0.1, 1.0),
    more=st.sampled_from(["batch", "context", "longest", "chunk", "prefix"]),
)
def test_above_the_datasheet_and_monotone(
    gpu: Any,
    heads: tuple[int, int],
    lengths: list[int],
    chunk: int,
    prefix: int,
    share: float,
    more: str,
) -> None:
    model, decode, prefill, flops_per_s, hbm_bytes_per_s = gpu
    total, hbm_tokens = sum(lengths), share * sum(lengths)

    def time_s(lengths: list[int], chunk: int, prefix: int, hbm_tokens: float) -> float:
        batch = (len(lengths), sum(lengths), max(lengths))
        found = model.time_s(
            decode, prefill, *batch, chunk, prefix, 0, *heads, hbm_tokens=hbm_tokens
        )
        return float(found[0])

    base_s = time_s(lengths, chunk, prefix, hbm_tokens)
    pairs = total + chunk * prefix + chunk * (chunk + 1) / 2
    moved_bytes = 512 * heads[1] * (hbm_tokens + chunk + prefix)
    assert base_s > 4 * 128 * heads[0] * pairs / flops_per_s
    assert base_s > moved_bytes / hbm_bytes_per_s
    changed = {
        "batch": ([*lengths, 1], chunk, prefix, hbm_tokens),
        "context": ([lengths[0] + 50, *lengths[1:]], chunk, prefix, hbm_tokens),
        "longest": ([max(lengths) + 50, *lengths[1:]], chunk, prefix, hbm_tokens + 50),
        "chunk": (lengths, chunk + 1, prefix, hbm_tokens),
        "prefix": (lengths, chunk, prefix + 1, hbm_tokens),
    }
    # Where memory binds, a context that L2 serves whole costs nothing.
    assert time_s(*changed[more]) >= base_s * (1.0 if more == "context" else 1.0 + 1e-12)


@given(
    gpu=st.sampled_from(GPUS),
    name=st.sampled_from(["llama3_8b", "llama2_7b", "qwen2_5_7b"]),
    lengths=st.lists(TOKENS, max_size=60),
    chunks=st.lists(st.tuples(st.integers(1, 3000), st.integers(0, 9000)), min_size=1, max_size=4),
    share=st.none() | st.floats(0.0, 1.0),
)
def test_the_scalar_pricer_gives_the_same_times(
    gpu: Any,
    name: str,
    lengths: list[int],
    chunks: list[tuple[int, int]],
    share: float | None,
) -> None:
    model, decode, prefill = gpu[:3]
    shape = load_model(name)
    batch = (len(lengths), sum(lengths), max(lengths, default=0))
    hbm_tokens = None if share is None else share * sum(lengths)
    pricer = MixedPricer(model, decode, prefill, shape)
    found_s = pricer.attention_s(*batch, [PrefillChunk(*one, True) for one in chunks], hbm_tokens)
    new, prefix = zip(*chunks, strict=True)
    layer_s = model.time_s(
        decode,
        prefill,
        *batch,
        new,
        prefix,
        [0] * len(chunks),
        shape.num_attention_heads,
        shape.num_kv_heads,
        shape.head_dim,
        hbm_tokens,
    )
    assert found_s == pytest.approx(shape.num_layers * float(layer_s[0]), rel=1e-12)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batch_size": -1}, "batch_size must be at least 0, found -1"),
        ({"chunk_tokens": 0}, "chunk_tokens must be at least 1, found 0"),
        ({"prefix_tokens": -5}, "prefix_tokens must be at least 0, found -5"),
        ({"chunk_step": 1}, "chunk_step must be from 0 to 0"),
        ({"chunk_step": -1}, "chunk_step must be from 0 to 0"),
        ({"batch_size": [1, 1]}, "every step needs a prefill chunk"),
        ({"chunk_tokens": [], "prefix_tokens": [], "chunk_step": []}, "chunk_step must be from"),
        ({"hbm_tokens": -1}, "hbm_tokens must be at least 0, found -1"),
    ],
)
def test_sizes_that_cannot_be_are_refused(changes: dict[str, Any], message: str) -> None:
    shape: dict[str, Any] = {
        "batch_size": 1,
        "context_tokens_sum": 100,
        "context_tokens_max": 100,
        "chunk_tokens": 64,
        "prefix_tokens": 0,
        "chunk_step": 0,
        "num_heads": 32,
        "num_kv_heads": 8,
    }
    with pytest.raises(ConfigError, match=message):
        A100_MIXED.time_s(A100_DECODE, A100_PREFILL, **(shape | changes))


def test_constants_in_the_wrong_unit_are_refused() -> None:
    with pytest.raises(ConfigError, match="block_s must be from 0 to 1"):
        replace(A100_MIXED, block_s=5.6)
    with pytest.raises(ConfigError, match="l2_reach_bytes must be from 1"):
        replace(A100_MIXED, l2_reach_bytes=0.0)
