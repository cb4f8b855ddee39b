"""Where the time and the bytes of steps with shared prefixes went."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest

from hwmodels.attention.choice import KernelChoice
from hwmodels.calibrated import CalibratedCost
from hwmodels.device import load_profile
from hwmodels.roofline import RooflineCost
from sim.cost_totals import CostTotals
from sim.interfaces import CostModel, PrefillChunk
from sim.metrics import summarize
from tests.engine_runs import run_engine
from tests.run_rows import decode_run, mixed_run
from tests.twin.stories import Ask, workload_of
from tests.unit.hwmodels.attention.batches import (
    CHOICES,
    SharingBatch,
    alone,
    one_group,
    random_batch,
    shape_of,
    sharing_batch,
    step_s,
    steps_of,
)

A100, LLAMA = load_profile("a100_sxm_80gb"), shape_of("llama3_8b")
TOKEN_BYTES = 32 * 4 * 8 * 128
FUSED = KernelChoice(mixed_batch="fused_varlen")
CASCADE = KernelChoice(name="flash_cascade", mixed_batch="fused_varlen")


@cache
def cost_of(choice: KernelChoice, uses_l2: bool = True) -> CalibratedCost:
    return CalibratedCost(A100, LLAMA, kernel=choice, uses_l2=uses_l2)


def decode_totals(
    cost: CalibratedCost, batch: SharingBatch, pieces: Sequence[tuple[int, int]]
) -> CostTotals:
    """Totals of runs of decode steps, each (first step, number of steps)."""
    ledger, rows, durations_s = cost.open_ledger(), [], []
    for first, num_steps in pieces:
        if ledger.add_decode is not None:
            ledger.add_decode(batch.after(first), num_steps)
        rows.append(decode_run(batch.after(first), num_steps))
        durations_s.append(cost.decode_run_s(batch.after(first), num_steps).sum())
    return ledger.totals(np.concatenate(rows), np.array(durations_s))


def mixed_totals(
    cost: CalibratedCost, batch: SharingBatch, chunks: Sequence[PrefillChunk]
) -> tuple[CostTotals, float]:
    ledger = cost.open_ledger()
    duration_s = ledger.mixed_step_s(batch, chunks)
    return ledger.totals(mixed_run(batch, chunks), np.array([duration_s])), duration_s


def roofline_bytes(batch: SharingBatch, num_steps: int) -> int:
    ledger = RooflineCost(A100, LLAMA).open_ledger()
    return ledger.totals(decode_run(batch, num_steps), np.zeros(1)).hbm_bytes


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("seed", [3, 8, 21, 34])
def test_bytes_are_those_of_the_roofline_less_what_was_saved(
    choice: KernelChoice, seed: int
) -> None:
    batch, cost = random_batch(seed), cost_of(choice)
    steps = [batch.after(k) for k in range(40)]
    unread, hit = cost.attention.savings(steps_of(*steps))
    hit_bytes = sum(round(tokens * TOKEN_BYTES) for tokens in hit.tolist())
    unread_bytes = int(unread.sum()) * TOKEN_BYTES
    totals = decode_totals(cost, batch, [(0, 40)])
    assert totals.l2_hit_bytes == hit_bytes
    assert totals.hbm_bytes == roofline_bytes(batch, 40) - unread_bytes - hit_bytes
    logical_bytes = sum(one.context_tokens for one in steps) * TOKEN_BYTES
    reads = 0 if choice.name == "packed" else logical_bytes - unread_bytes
    assert totals.l2_read_bytes == reads


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("seed", [3, 8, 21, 34])
def test_bytes_do_not_depend_on_where_a_run_is_cut(choice: KernelChoice, seed: int) -> None:
    batch, cost = random_batch(seed), cost_of(choice)
    whole = decode_totals(cost, batch, [(0, 100)])
    cut = decode_totals(cost, batch, [(0, 1), (1, 15), (16, 50), (66, 2), (68, 32)])
    for name in ("hbm_bytes", "flops", "l2_read_bytes", "l2_hit_bytes"):
        assert getattr(whole, name) == getattr(cut, name)
    assert whole.attention_decode_s == pytest.approx(cut.attention_decode_s, rel=1e-12)
    assert whole.attention_prefill_s == cut.attention_prefill_s == 0


def test_a_step_that_was_planned_but_never_executed_leaves_no_trace() -> None:
    batch, chunks, cost = one_group(50, 2000, 40), [PrefillChunk(64, 2000, True)], cost_of(CASCADE)
    ledger = cost.open_ledger()
    assert ledger.add_decode is not None
    ledger.add_decode(batch, 3)
    ledger.mixed_step_s(alone([5] * 9), chunks)
    found = ledger.totals(decode_run(batch, 3), np.array([1.0]))
    alone_ledger = cost.open_ledger()
    assert alone_ledger.add_decode is not None
    alone_ledger.add_decode(batch, 3)
    assert found == alone_ledger.totals(decode_run(batch, 3), np.array([1.0]))


def test_a_request_that_begins_to_prefill_ends_the_cascade_though_nobody_else_decodes() -> None:
    asks = [((0,), 40)] * 50
    alike = sharing_batch([(-1, 2000), (-1, 70)], asks)
    joined = sharing_batch([(-1, 2000), (-1, 70)], asks, [(1,)])
    assert alike.tree.version == joined.tree.version
    cost = cost_of(CASCADE, uses_l2=False)
    ledger = cost.open_ledger()
    assert ledger.add_decode is not None
    for batch in (alike, joined, alike):
        ledger.add_decode(batch, 2)
    rows = np.concatenate([decode_run(alike, 2)] * 3)
    totals = ledger.totals(rows, np.ones(3))
    saved_bytes = 4 * 49 * 2000 * TOKEN_BYTES
    assert totals.hbm_bytes == 3 * roofline_bytes(alike, 2) - saved_bytes


def test_a_cascade_reads_the_common_tokens_once() -> None:
    # Without L2: 49 of 50 requests do not read 2000 tokens, 125 blocks, in each of 10 steps.
    batch = one_group(50, 2000, 40)
    totals = decode_totals(cost_of(CASCADE, uses_l2=False), batch, [(0, 10)])
    assert totals.hbm_bytes == roofline_bytes(batch, 10) - 10 * 49 * 2000 * TOKEN_BYTES
    assert totals.l2_hit_bytes == totals.l2_read_bytes == 0


@pytest.mark.parametrize(("prefix", "saved"), [(2000, 50 * 2000), (500, 50 * 496), (0, 0)])
def test_a_mixed_step_notes_what_it_cascades(prefix: int, saved: int) -> None:
    # 50 decodes and a chunk read the common tokens once.
    asks = [((0,), 40)] * 50
    batch = sharing_batch([(-1, 2000)], asks, [(0,)])
    chunks = [PrefillChunk(64, prefix, False)]
    found = [
        mixed_totals(cost_of(choice, uses_l2=False), batch, chunks)[0].hbm_bytes
        for choice in (FUSED, CASCADE)
    ]
    assert found[0] - found[1] == saved * TOKEN_BYTES


@pytest.mark.parametrize("num_decodes", [0, 1, 50])
def test_chunks_share_the_common_tokens_of_a_cascade(num_decodes: int) -> None:
    batch = sharing_batch([(-1, 2000)], [((0,), 40)] * num_decodes, [(0,)] * 8)
    chunks = [PrefillChunk(20, 2000, True)] * 8
    found = [
        mixed_totals(cost_of(choice, uses_l2=False), batch, chunks)[0].hbm_bytes
        for choice in (FUSED, CASCADE)
    ]
    assert found[0] - found[1] == (num_decodes + 8 - 1) * 2000 * TOKEN_BYTES


@pytest.mark.parametrize("choice", CHOICES)
def test_a_mixed_step_is_split_into_decodes_alone_and_the_rest(choice: KernelChoice) -> None:
    cost, chunks = cost_of(choice), [PrefillChunk(300, 0, False)]
    batch = one_group(40, 1000, 64)
    totals, duration_s = mixed_totals(cost, batch, chunks)
    decode_s, prefill_s = totals.attention_decode_s, totals.attention_prefill_s
    seconds = totals.gemm_s + totals.small_ops_s + totals.launch_s
    assert seconds + decode_s + prefill_s == pytest.approx(duration_s, rel=1e-9)
    # Equal contexts; the chunk is cold, so that nothing cascades in this step.
    plain = KernelChoice(family=choice.family, member_order=choice.member_order)
    alike = plain if choice.name == "flash_cascade" else choice
    alone_s = step_s(cost_of(alike).attention, batch)
    assert decode_s == pytest.approx(min(alone_s, decode_s + prefill_s), rel=1e-9)
    assert prefill_s > 0
    if choice.mixed_batch == "separate":
        assert prefill_s == pytest.approx(cost.attention.prefill.chunks_s(chunks), rel=1e-9)


def test_steps_of_one_kind_are_charged_to_it_alone() -> None:
    cost, chunks = cost_of(FUSED), [PrefillChunk(300, 20, True)]
    prefill_only, _ = mixed_totals(cost, alone([]), chunks)
    assert prefill_only.attention_decode_s == 0
    assert prefill_only.attention_prefill_s == pytest.approx(
        cost.attention.prefill.chunks_s(chunks), rel=1e-9
    )
    batch = one_group(40, 1000, 64)
    decode_only = decode_totals(cost, batch, [(0, 1)])
    assert decode_only.attention_prefill_s == 0
    assert decode_only.attention_decode_s == pytest.approx(step_s(cost.attention, batch), rel=1e-9)


def l2_hit_ratio(cost: CostModel, **options: Any) -> float | None:
    """Of one group of twelve requests behind 2000 tokens."""
    asks = [Ask(0.0, 2000 + 20 + k, 40, (0,)) for k in range(12)]
    engine = {"block_tokens": 16, "seats": 32, "usable_blocks": 4000, "budget": 2048}
    result = run_engine(workload_of(asks, [(-1, 2000)]), cost=cost, **(engine | options))
    ratio = summarize(result, slo_ttft_s=1, slo_tpot_s=1)["l2_hit_ratio"]
    assert ratio is None or isinstance(ratio, float)
    return ratio


def test_a_hit_ratio_is_told_where_there_is_an_l2_and_only_there() -> None:
    assert l2_hit_ratio(RooflineCost(A100, LLAMA)) is None
    assert l2_hit_ratio(cost_of(FUSED, uses_l2=False)) is None
    assert l2_hit_ratio(cost_of(CASCADE, uses_l2=False)) is None
    assert l2_hit_ratio(cost_of(KernelChoice(name="packed"))) is None
    for choice in (FUSED, CASCADE, KernelChoice(name="flashinfer")):
        ratio = l2_hit_ratio(cost_of(choice))
        assert ratio is not None
        assert 0 < ratio < 1
    # Eleven of twelve reads of the prefix, which is most of every context.
    flash = l2_hit_ratio(cost_of(FUSED))
    assert flash is not None
    assert 0.8 < flash < 11 / 12


def test_requests_with_a_kv_copy_each_do_not_hit() -> None:
    assert l2_hit_ratio(cost_of(FUSED), prefix_caching=False) == 0


def test_without_sharing_the_hit_ratio_is_nought() -> None:
    totals = decode_totals(cost_of(FUSED), alone([500] * 20), [(0, 30)])
    assert totals.l2_hit_bytes == 0 < totals.l2_read_bytes
