"""Attention of steps with prefill chunks: cascades, hits in L2, one call or two."""

from collections.abc import Sequence

import pytest

from hwmodels.attention.choice import KernelChoice, MixedBatch
from hwmodels.kernels.prefix_batch import PrefixBatch
from hwmodels.kernels.shared_prefix import SharedPrefixKernel
from sim.interfaces import PrefillChunk
from tests.unit.hwmodels.attention.batches import (
    CHOICES,
    SharingBatch,
    alone,
    gpu,
    one_group,
    pricer_of,
    shape_of,
    sharing_batch,
)
from tests.unit.hwmodels.attention.closed_forms import hit_tokens, prefix_and_merge_s

A100, LLAMA = gpu("a100_sxm_80gb"), shape_of("llama3_8b")
DECODE = A100.kernels.decode_attention
PREFILL = A100.kernels.prefill_attention
MIXED = A100.kernels.mixed_attention
assert DECODE is not None
assert PREFILL is not None
assert MIXED is not None

FUSED: MixedBatch = "fused_varlen"
SEPARATE: MixedBatch = "separate"


def mixed_s(
    batch: SharingBatch,
    chunks: Sequence[PrefillChunk],
    name: SharedPrefixKernel = "flash_cascade",
    mixed_batch: MixedBatch = FUSED,
    uses_l2: bool = False,
) -> float:
    choice = KernelChoice(name=name, mixed_batch=mixed_batch)
    pricer = pricer_of(A100, LLAMA, choice, uses_l2=uses_l2)
    tree = batch.tree if pricer.uses_tree else None
    return pricer.mixed_s(*batch.moments, tree, chunks)


def fused_s(
    contexts: Sequence[int], chunks: Sequence[PrefillChunk], hbm_tokens: float | None = None
) -> float:
    """One call of variable lengths, all layers."""
    assert MIXED is not None and DECODE is not None and PREFILL is not None
    layer_s = MIXED.time_s(
        DECODE,
        PREFILL,
        len(contexts),
        sum(contexts),
        max(contexts, default=0),
        [chunk.new_tokens for chunk in chunks],
        [chunk.prefix_tokens for chunk in chunks],
        [0] * len(chunks),
        32,
        8,
        hbm_tokens=hbm_tokens,
    )
    return 32 * float(layer_s[0])


def twenty(*prefilling: tuple[int, ...]) -> SharingBatch:
    """Twenty decodes behind one prefix of 1000 tokens, 62 full blocks, and who prefills."""
    asks = [((0,), 10 + 3 * k) for k in range(20)]
    return sharing_batch([(-1, 1000), (-1, 700)], asks, prefilling)


def test_a_chunk_with_a_cached_prefix_joins_the_cascade() -> None:
    batch, chunk = twenty((0,)), PrefillChunk(64, 1000, True)
    # 84 queries read the 992 common tokens once; of every context the rest is left.
    suffixes = [context - 992 for context in batch.contexts]
    expected_s = 32 * prefix_and_merge_s(A100, LLAMA, 84, 992)
    expected_s += fused_s(suffixes, [PrefillChunk(64, 8, True)])
    assert mixed_s(batch, [chunk]) == pytest.approx(expected_s, rel=1e-12)
    assert mixed_s(batch, [chunk]) != mixed_s(batch, [chunk], "flash")


def test_in_two_calls_the_suffixes_take_the_decode_kernel() -> None:
    batch, chunk = twenty((0,)), PrefillChunk(64, 1000, True)
    suffixes = [context - 992 for context in batch.contexts]
    assert DECODE is not None and PREFILL is not None
    expected_s = 32 * (
        prefix_and_merge_s(A100, LLAMA, 84, 992)
        + DECODE.lengths_time_s(suffixes, 32, 8)
        + PREFILL.time_s(1, 64, 8, 32, 8)
    )
    found_s = mixed_s(batch, [chunk], mixed_batch=SEPARATE)
    assert found_s == pytest.approx(float(expected_s), rel=1e-12)


def test_the_least_computed_chunk_caps_the_common_prefix() -> None:
    batch = twenty((0,), (0,))
    chunks = [PrefillChunk(64, 1000, True), PrefillChunk(100, 500, False)]
    # 496 is the largest whole number of blocks that all of them hold.
    suffixes = [context - 496 for context in batch.contexts]
    expected_s = 32 * prefix_and_merge_s(A100, LLAMA, 20 + 164, 496)
    expected_s += fused_s(suffixes, [PrefillChunk(64, 504, True), PrefillChunk(100, 4, False)])
    assert mixed_s(batch, chunks) == pytest.approx(expected_s, rel=1e-12)


@pytest.mark.parametrize("computed", [0, 255])
def test_a_cold_chunk_ends_the_cascade(computed: int) -> None:
    batch, chunk = twenty((0,)), PrefillChunk(64, computed, False)
    assert mixed_s(batch, [chunk]) == mixed_s(batch, [chunk], "flash")
    assert mixed_s(batch, [chunk]) == pytest.approx(fused_s(batch.contexts, [chunk]), rel=1e-12)


@pytest.mark.parametrize("path", [(1,), ()])
def test_a_running_request_of_another_group_ends_the_cascade(path: tuple[int, ...]) -> None:
    """Also one that is neither decoding nor in the step."""
    batch, chunk = twenty((0,), path), PrefillChunk(64, 1000, True)
    assert mixed_s(batch, [chunk]) == mixed_s(batch, [chunk], "flash")
    cascade = pricer_of(A100, LLAMA, KernelChoice(name="flash_cascade"), uses_l2=False)
    flash = pricer_of(A100, LLAMA, KernelChoice(name="flash"), uses_l2=False)
    moments = batch.moments
    assert cascade.step_s(*moments, batch.tree) == flash.step_s(*moments, None)
    alike = twenty((0,))
    assert cascade.step_s(*moments, alike.tree) < flash.step_s(*moments, None)


def test_a_chunk_of_several_queries_cascades_where_decodes_alone_would_not() -> None:
    """Asked in turns: an answer to one kind of step is none for another."""
    batch, several = one_group(8, 1000, 20), PrefillChunk(5, 1000, True)
    cascade = pricer_of(A100, LLAMA, KernelChoice(name="flash_cascade"), uses_l2=False)
    flash = pricer_of(A100, LLAMA, KernelChoice(name="flash"), uses_l2=False)
    for _ in range(2):
        assert cascade.step_s(*batch.moments, batch.tree) == flash.step_s(*batch.moments, None)
        # Nine requests: one query more is a step of decodes to the rule, five are not.
        for chunk, is_cascaded in ((PrefillChunk(1, 1000, True), False), (several, True)):
            found_s = cascade.mixed_s(*batch.moments, batch.tree, [chunk])
            is_same = found_s == flash.mixed_s(*batch.moments, None, [chunk])
            assert is_same != is_cascaded


def test_seven_requests_are_too_few_for_a_cascade_and_chunks_count_too() -> None:
    chunk = PrefillChunk(64, 1000, True)
    for size, is_cascaded in ((6, False), (7, True)):
        batch = one_group(size, 1000, 20)
        is_same = mixed_s(batch, [chunk]) == mixed_s(batch, [chunk], "flash")
        assert is_same != is_cascaded


def test_chunks_alone_cascade_too() -> None:
    batch = sharing_batch([(-1, 1000)], [], [(0,)] * 8)
    chunks = [PrefillChunk(20, 1000, True)] * 8
    expected_s = 32 * prefix_and_merge_s(A100, LLAMA, 160, 992)
    expected_s += fused_s([], [PrefillChunk(20, 8, True)] * 8)
    assert mixed_s(batch, chunks) == pytest.approx(expected_s, rel=1e-9)


def test_decodes_of_a_fused_call_hit_in_l2() -> None:
    batch, chunk = one_group(40, 5000, 64), PrefillChunk(64, 0, False)
    choice = KernelChoice(mixed_batch=FUSED)
    hit = hit_tokens(A100, LLAMA, choice, PrefixBatch.from_view(batch))
    assert hit > 30 * 5000
    expected_s = fused_s(batch.contexts, [chunk], batch.context_tokens - hit)
    found_s = mixed_s(batch, [chunk], "flash", uses_l2=True)
    assert found_s == pytest.approx(expected_s, rel=1e-12)
    assert found_s <= mixed_s(batch, [chunk], "flash")


def test_hits_of_a_fused_call_that_memory_binds_take_time_at_the_rate_of_l2() -> None:
    h200, batch, chunk = gpu("h200_sxm"), one_group(40, 5000, 64), PrefillChunk(64, 0, False)
    choice, models = KernelChoice(mixed_batch=FUSED), h200.kernels
    decode, prefill, mixed, l2 = (
        models.decode_attention,
        models.prefill_attention,
        models.mixed_attention,
        models.l2,
    )
    assert decode is not None and prefill is not None and mixed is not None and l2 is not None
    hit = hit_tokens(h200, LLAMA, choice, PrefixBatch.from_view(batch))
    loaded = batch.context_tokens - hit * (1 - decode.hbm_bytes_per_s / l2.l2_bytes_per_s)
    sizes = (40, batch.context_tokens, 5064, [64], [0], [0], 32, 8)
    without_s, expected_s = (
        32 * float(mixed.time_s(decode, prefill, *sizes, hbm_tokens=tokens)[0])
        for tokens in (None, loaded)
    )
    pricer = pricer_of(h200, LLAMA, choice)
    found_s = pricer.mixed_s(*batch.moments, batch.tree, [chunk])
    assert found_s == pytest.approx(expected_s, rel=1e-12)
    assert found_s < 0.7 * without_s


@pytest.mark.parametrize("choice", CHOICES)
def test_where_decodes_and_chunks_run_apart_their_times_add_up(choice: KernelChoice) -> None:
    pricer = pricer_of(A100, LLAMA, choice)
    batch = alone([400, 3000, 20])
    chunks = [PrefillChunk(64, 0, False), PrefillChunk(16, 300, True)]
    chunks_s = pricer.prefill.chunks_s(chunks)
    found_s = pricer.mixed_s(*batch.moments, batch.tree, chunks)
    apart_s = pricer.step_s(*batch.moments, batch.tree) + chunks_s
    if choice.mixed_batch == SEPARATE:
        assert found_s == pytest.approx(apart_s, rel=1e-12)
    else:
        assert found_s != pytest.approx(apart_s, rel=1e-3)


def test_chunks_of_one_call_share_a_launch_and_the_longest_tail() -> None:
    assert PREFILL is not None
    pricer = pricer_of(A100, LLAMA, KernelChoice())
    single = PrefillChunk(64, 1024, False)
    assert pricer.prefill.chunks_s([single]) == pytest.approx(
        32 * float(PREFILL.time_s(1, 64, 1024, 32, 8)), rel=1e-12
    )
    # Two alike are the batch of two of the form.
    assert pricer.prefill.chunks_s([single] * 2) == pytest.approx(
        32 * float(PREFILL.time_s(2, 64, 1024, 32, 8)), rel=1e-12
    )
    # Their order makes no difference.
    chunks = [PrefillChunk(64, 1024, False), PrefillChunk(300, 0, True), PrefillChunk(5, 90, True)]
    assert pricer.prefill.chunks_s(chunks) == pytest.approx(
        pricer.prefill.chunks_s(chunks[::-1]), rel=1e-12
    )
