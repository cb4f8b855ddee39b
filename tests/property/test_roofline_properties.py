"""Rules that every roofline price keeps, over devices, models, groups and batches."""

from dataclasses import dataclass, fields, replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hwmodels.device import load_profile
from hwmodels.model_catalogue import load_model
from hwmodels.roofline import RooflineCost
from sim.cost_totals import CostTotals
from sim.interfaces import PrefillChunk
from tests.run_rows import decode_run, mixed_run

COSTS = [
    RooflineCost(load_profile(device), load_model(model), tensor_parallel)
    for device, model, tensor_parallel in [
        ("a100_sxm_80gb", "llama2_7b", 1),
        ("a100_sxm_80gb", "llama3_8b", 1),
        ("a100_sxm_80gb", "opt_13b", 2),
        ("h100_sxm", "llama3_70b", 4),
        ("h100_sxm", "qwen2_5_0_5b", 2),
        ("h200_sxm", "qwen3_30b_a3b", 1),
        ("h200_sxm", "mixtral_8x7b", 8),
    ]
]
# A GPU whose memory is so fast that attention is bound by compute.
COSTS.append(
    RooflineCost(
        replace(load_profile("h200_sxm"), hbm_bytes_per_s=1e15), load_model("llama3_8b"), 1
    )
)


@dataclass(frozen=True)
class Batch:
    contexts: tuple[int, ...]
    tree: None = None

    @property
    def num_requests(self) -> int:
        return len(self.contexts)

    @property
    def context_tokens(self) -> int:
        return sum(self.contexts)

    @property
    def context_tokens_squared(self) -> int:
        return sum(tokens * tokens for tokens in self.contexts)

    @property
    def max_context_tokens(self) -> int:
        return max(self.contexts, default=0)

    def after(self, num_steps: int) -> "Batch":
        return Batch(tuple(tokens + num_steps for tokens in self.contexts))


def batches(min_size: int = 1) -> st.SearchStrategy[Batch]:
    contexts = st.lists(st.integers(1, 200_000), min_size=min_size, max_size=40)
    return contexts.map(lambda tokens: Batch(tuple(tokens)))


costs = st.sampled_from(COSTS)
chunks = st.builds(PrefillChunk, st.integers(1, 9_000), st.integers(0, 120_000), st.booleans())
chunk_lists = st.lists(chunks, max_size=4)


def seconds(totals: CostTotals) -> float:
    names = [item.name for item in fields(totals) if item.name.endswith("_s")]
    return float(sum(getattr(totals, name) for name in names))


def decode_totals(cost: RooflineCost, batch: Batch, num_steps: int) -> CostTotals:
    durations_s = cost.decode_run_s(batch, num_steps).sum(keepdims=True)
    return cost.open_ledger().totals(decode_run(batch, num_steps), durations_s)


def mixed_totals(cost: RooflineCost, batch: Batch, chunks: list[PrefillChunk]) -> CostTotals:
    ledger = cost.open_ledger()
    step_s = ledger.mixed_step_s(batch, chunks)
    return ledger.totals(mixed_run(batch, chunks), np.array([step_s]))


@given(costs, batches(), st.integers(1, 5000))
def test_run_equals_its_steps_bit_for_bit(cost: RooflineCost, batch: Batch, num_steps: int) -> None:
    durations_s = cost.decode_run_s(batch, num_steps)
    assert durations_s.shape == (num_steps,)
    assert durations_s[0] == cost.decode_step_s(batch)
    for k in {0, 1, num_steps // 2, num_steps - 1} & set(range(num_steps)):
        assert durations_s[k] == cost.decode_step_s(batch.after(k))


@given(costs, batches(), st.integers(1, 300), st.integers(1, 300))
def test_cutting_a_run_changes_no_bit(
    cost: RooflineCost, batch: Batch, first: int, second: int
) -> None:
    whole = cost.decode_run_s(batch, first + second).tolist()
    parts = [cost.decode_run_s(batch, first), cost.decode_run_s(batch.after(first), second)]
    assert whole == parts[0].tolist() + parts[1].tolist()


@given(costs, batches())
def test_mixed_step_without_chunks_is_the_decode_step(cost: RooflineCost, batch: Batch) -> None:
    assert cost.mixed_step_s(batch, []) == cost.decode_step_s(batch)


@given(costs, batches(), st.integers(1, 50), st.data())
def test_totals_do_not_depend_on_how_steps_are_grouped(
    cost: RooflineCost, batch: Batch, num_steps: int, data: st.DataObject
) -> None:
    whole = decode_totals(cost, batch, num_steps)
    rows, durations_s = [], []
    done = 0
    while done < num_steps:
        size = data.draw(st.integers(1, num_steps - done))
        rows.append(decode_run(batch.after(done), size))
        durations_s.append(cost.decode_run_s(batch.after(done), size).sum())
        done += size
    parts = cost.open_ledger().totals(np.concatenate(rows), np.array(durations_s))
    assert (whole.hbm_bytes, whole.flops) == (parts.hbm_bytes, parts.flops)
    assert type(whole.hbm_bytes) is type(whole.flops) is int
    for item in fields(whole):
        assert getattr(whole, item.name) == pytest.approx(getattr(parts, item.name), rel=1e-9)


@given(costs, batches(), st.integers(1, 400))
def test_decode_terms_add_up_to_the_durations(
    cost: RooflineCost, batch: Batch, num_steps: int
) -> None:
    totals = decode_totals(cost, batch, num_steps)
    assert seconds(totals) == pytest.approx(cost.decode_run_s(batch, num_steps).sum(), rel=1e-9)


@given(costs, batches(min_size=0), chunk_lists)
def test_mixed_terms_add_up_to_the_duration(
    cost: RooflineCost, batch: Batch, chunks: list[PrefillChunk]
) -> None:
    totals = mixed_totals(cost, batch, chunks)
    assert seconds(totals) == pytest.approx(cost.mixed_step_s(batch, chunks), rel=1e-9)


@given(costs, batches(min_size=0), chunk_lists)
def test_no_step_beats_the_peaks_of_the_device(
    cost: RooflineCost, batch: Batch, chunks: list[PrefillChunk]
) -> None:
    totals = mixed_totals(cost, batch, chunks)
    device = cost.device
    compute_s = totals.flops / device.peak_flops_per_s
    memory_s = totals.hbm_bytes / device.hbm_bytes_per_s
    assert cost.mixed_step_s(batch, chunks) > max(compute_s, memory_s)


@given(costs, batches())
def test_weights_and_kv_are_moved_at_least_once(cost: RooflineCost, batch: Batch) -> None:
    totals = decode_totals(cost, batch, 1)
    shard = cost.shard
    kv_bytes = batch.context_tokens * shard.kv_bytes_per_token
    dense = shard.num_layers * shard.attention_matrix_parameters * shard.dtype_bytes
    assert totals.hbm_bytes > kv_bytes + dense


@given(costs, batches(), st.integers(1, 1000))
def test_longer_contexts_take_longer(cost: RooflineCost, batch: Batch, grown: int) -> None:
    first, *rest = batch.contexts
    longer = Batch((first + grown, *rest))
    assert cost.decode_step_s(longer) > cost.decode_step_s(batch) > 0


@given(costs, batches(), st.integers(1, 200_000))
def test_one_more_request_takes_longer(cost: RooflineCost, batch: Batch, context: int) -> None:
    larger = Batch((*batch.contexts, context))
    assert cost.decode_step_s(larger) > cost.decode_step_s(batch)


@given(costs, batches(min_size=0), chunks, st.integers(1, 2000), st.integers(1, 2000))
def test_longer_chunks_and_prefixes_take_longer(
    cost: RooflineCost, batch: Batch, chunk: PrefillChunk, more_new: int, more_prefix: int
) -> None:
    base_s = cost.mixed_step_s(batch, [chunk])
    new_tokens, prefix_tokens, _ = chunk
    longer = chunk._replace(new_tokens=new_tokens + more_new)
    deeper = chunk._replace(prefix_tokens=prefix_tokens + more_prefix)
    assert cost.mixed_step_s(batch, [longer]) > base_s
    assert cost.mixed_step_s(batch, [deeper]) > base_s
    inner_s = cost.mixed_step_s(batch, [chunk._replace(is_last=False)])
    assert cost.mixed_step_s(batch, [chunk._replace(is_last=True)]) > inner_s


@given(costs, batches(min_size=0), chunk_lists, chunks)
def test_one_more_chunk_takes_longer(
    cost: RooflineCost, batch: Batch, chunks: list[PrefillChunk], added: PrefillChunk
) -> None:
    assert cost.mixed_step_s(batch, [*chunks, added]) > cost.mixed_step_s(batch, chunks)


@given(costs, st.integers(0, 100_000))
def test_last_prefill_token_works_like_a_decode(cost: RooflineCost, prefix_tokens: int) -> None:
    prefill = mixed_totals(cost, Batch(()), [PrefillChunk(1, prefix_tokens, True)])
    decode = decode_totals(cost, Batch((prefix_tokens + 1,)), 1)
    assert (prefill.flops, prefill.hbm_bytes) == (decode.flops, decode.hbm_bytes)


GROUPS = [
    [
        RooflineCost(load_profile("h100_sxm"), load_model(name), tensor_parallel)
        for tensor_parallel in (1, 2, 4, 8)
    ]
    for name in ("llama2_70b", "opt_13b", "mixtral_8x7b", "qwen3_32b")
]


@settings(max_examples=50)
@given(st.sampled_from(GROUPS), batches(min_size=0), chunk_lists)
def test_more_gpus_share_the_work_but_never_gain_more_than_their_number(
    group: list[RooflineCost], batch: Batch, chunks: list[PrefillChunk]
) -> None:
    all_totals = []
    for cost in group:
        totals = mixed_totals(cost, batch, chunks)
        all_totals.append(totals)
    for fewer, more in pairwise(all_totals):
        own_s = [seconds(totals) - totals.collective_s for totals in (fewer, more)]
        assert own_s[1] <= own_s[0]
        assert 2 * own_s[1] >= own_s[0] * (1 - 1e-12)
        assert fewer.flops <= 2 * more.flops <= 1.01 * fewer.flops
        assert more.hbm_bytes <= fewer.hbm_bytes <= 2 * more.hbm_bytes
    assert all_totals[0].collective_s == 0
    if batch.contexts or chunks:
        assert all(totals.collective_s > 0 for totals in all_totals[1:])
