"""Benchmarks priced at once agree with the models of a profile, one by one."""

import itertools

import numpy as np
import pytest

from hwmodels.fitting.rows_file import columns_of
from hwmodels.fitting.rows_forms import CascadeForm, GivenSplits, cascade_s, decode_s, prefill_s
from hwmodels.fitting.rows_mixed import fused_s, separate_s
from hwmodels.fitting.rows_shared_prefix import hbm_bytes, packed_s, unaware_s
from hwmodels.kernels.prefix_batch import PrefixBatch
from hwmodels.microbench.cases import (
    CascadeCase,
    DecodeAttentionCase,
    MixedCase,
    PackedCase,
    PrefillCase,
    SharedPrefixCase,
)
from tests.unit.hwmodels.rows.measured import HIDDEN, hidden_with_drift

HEADS = ((32, 8), (32, 32), (8, 1))


def trees(cache: str) -> list[SharedPrefixCase]:
    axes = (HEADS, (1, 3, 16), (1, 5, 64), (512, 8192), (1, 300), ("contiguous", "interleaved"))
    return [
        SharedPrefixCase(
            num_heads=heads[0],
            num_kv_heads=heads[1],
            groups=groups,
            members=members,
            prefix_tokens=prefix,
            suffix_tokens=suffix,
            member_order=order,  # type: ignore[arg-type]
            cache=cache,  # type: ignore[arg-type]
        )
        for heads, groups, members, prefix, suffix, order in itertools.product(*axes)
    ]


@pytest.mark.parametrize("drift_tokens", [1.0, 600.0, 1e5])
def test_cold_shared_prefixes_have_the_traffic_and_time_of_the_tree_form(
    drift_tokens: float,
) -> None:
    model = hidden_with_drift(drift_tokens).shared_prefix
    assert model is not None
    assert model.l2 is not None
    cases = trees("cold")
    columns = columns_of(cases)
    moved = hbm_bytes(columns, model.l2, model.cta_slots, model.drift_tokens)
    times_s = unaware_s(model, columns)
    for case, num_bytes, time_s in zip(cases, moved, times_s, strict=True):
        batch = PrefixBatch.from_levels(
            (case.groups, case.batch), (case.prefix_tokens, case.suffix_tokens)
        )
        heads = (case.num_heads, case.num_kv_heads)
        traffic = model.traffic(batch, *heads, 128, "flash_pat", case.member_order)
        assert num_bytes == pytest.approx(float(traffic.hbm_bytes[0]), rel=1e-9), case.id
        expected_s = model.steps_s(batch, *heads, 128, "flash_pat", case.member_order)
        assert time_s == pytest.approx(float(expected_s[0]), rel=1e-9), case.id


def test_a_warm_run_finds_what_fits_into_the_cache() -> None:
    model = HIDDEN.shared_prefix
    assert model is not None
    assert model.l2 is not None
    slots, drift = model.cta_slots, model.drift_tokens
    cold = hbm_bytes(columns_of(trees("cold")), model.l2, slots, drift)
    warm = hbm_bytes(columns_of(trees("warm")), model.l2, slots, drift)
    unique = np.array([case.stored_tokens * case.token_bytes for case in trees("cold")])
    assert (warm <= cold).all()
    assert warm == pytest.approx(cold - unique * model.l2.hit_ratio(unique), abs=1e-6)
    is_small = unique < 0.3 * model.l2.midpoint_bytes
    assert is_small.any()
    assert (warm[is_small] < 0.01 * unique[is_small]).all(), "read from L2 alone"


def test_packed_trees_take_the_time_of_the_packed_kernel() -> None:
    model = HIDDEN.shared_prefix
    assert model is not None
    cases = [
        PackedCase(
            num_heads=heads[0],
            num_kv_heads=heads[1],
            groups=groups,
            members=members,
            prefix_tokens=1024,
            suffix_tokens=128,
        )
        for heads, groups, members in itertools.product(HEADS, (1, 4), (2, 32))
    ]
    for case, time_s in zip(cases, packed_s(model.packed, columns_of(cases)), strict=True):
        nodes, tokens = (case.groups, case.batch), (case.prefix_tokens, case.suffix_tokens)
        expected_s = model.time_s(nodes, tokens, case.num_heads, case.num_kv_heads, kernel="packed")
        assert time_s == pytest.approx(expected_s), case.id


def test_a_cascade_takes_the_time_that_a_profile_gives_it() -> None:
    model = HIDDEN.shared_prefix
    assert model is not None
    assert model.decode_attention is not None
    assert model.prefill_attention is not None
    cases = [
        CascadeCase(
            num_heads=32, num_kv_heads=8, batch=batch, prefix_tokens=prefix, suffix_tokens=128
        )
        for batch, prefix in itertools.product((32, 256), (1024, 8192))
    ]
    form = CascadeForm(
        scale=2.0,
        decode_attention=model.decode_attention,
        prefill_attention=model.prefill_attention,
        packed=model.packed,
    )
    for case, time_s in zip(cases, cascade_s(form, columns_of(cases)), strict=True):
        nodes, tokens = (1, case.batch), (case.prefix_tokens, case.suffix_tokens)
        expected_s = model.time_s(nodes, tokens, 32, 8, kernel="flash_cascade")
        assert time_s == pytest.approx(2.0 * expected_s), case.id


def test_decode_uses_the_splits_that_were_asked_for() -> None:
    model = HIDDEN.decode_attention
    assert model is not None
    assert float(model.splits(1, 16384, 32, 8)) not in (1.0, 4.0), "else this shows nothing"
    times_s = {}
    for splits in (1, 4, int(model.splits(1, 16384, 32, 8))):
        case = DecodeAttentionCase(
            num_heads=32, num_kv_heads=8, batch=1, context=16384, splits=splits
        )
        times_s[splits] = float(decode_s(model, columns_of([case]))[0])
        given = GivenSplits.of(model, splits)
        assert times_s[splits] == given.time_s(1, 16384, 16384, 16384**2, 32, 8)
    chosen = min(times_s)
    assert times_s[chosen] > times_s[4] > times_s[max(times_s)]
    assert times_s[max(times_s)] == model.time_s(1, 16384, 16384, 16384**2, 32, 8)


def test_unequal_lengths_enter_by_their_moments() -> None:
    model = HIDDEN.decode_attention
    assert model is not None
    case = DecodeAttentionCase(
        num_heads=32, num_kv_heads=8, batch=64, context=1024, lengths="one_long", ratio=16
    )
    lengths = [1024] * 63 + [16384]
    columns = columns_of([case])
    assert columns["context_sum"] == [sum(lengths)]
    assert columns["context_max"] == [16384]
    assert columns["context_squares"] == [sum(n * n for n in lengths)]
    given = GivenSplits.of(model, 1)
    assert decode_s(model, columns) == pytest.approx(given.lengths_time_s(lengths, 32, 8))


def test_separate_calls_add_and_a_fused_one_is_the_mixed_form() -> None:
    decode, prefill, mixed = (
        HIDDEN.decode_attention,
        HIDDEN.prefill_attention,
        HIDDEN.mixed_attention,
    )
    assert decode is not None
    assert prefill is not None
    assert mixed is not None
    case = MixedCase(
        num_heads=32,
        num_kv_heads=8,
        batch=16,
        context=2048,
        chunk_tokens=256,
        prefix_tokens=4096,
        form="fused",
    )
    columns = columns_of([case])
    total = 16 * 2048
    chunk = PrefillCase(num_heads=32, num_kv_heads=8, chunk_tokens=256, prefix_tokens=4096)
    apart_s = GivenSplits.of(decode, 1).time_s(16, total, 2048, total * 2048, 32, 8)
    apart_s = apart_s + prefill_s(prefill, columns_of([chunk]))
    assert separate_s(decode, prefill, columns) == pytest.approx(apart_s)
    one_s = mixed.time_s(decode, prefill, 16, total, 2048, 256, 4096, 0, 32, 8)
    assert fused_s(mixed, decode, prefill, columns) == pytest.approx(one_s)
