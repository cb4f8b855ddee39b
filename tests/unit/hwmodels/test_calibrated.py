"""Step prices from calibrated kernels."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hwmodels.attention.choice import KernelChoice, MixedBatch
from hwmodels.calibrated import CalibratedCost
from hwmodels.device import DeviceSpec, load_profile
from hwmodels.model_catalogue import load_model
from hwmodels.roofline import RooflineCost
from sim.cost_totals import COST_COLUMNS, CostTotals
from sim.errors import ConfigError
from sim.interfaces import PrefillChunk
from sim.step_ends import StepEnds
from tests.engine_runs import run_engine
from tests.run_rows import decode_run, mixed_run
from tests.twin.workloads import random_workload
from tests.unit.hwmodels.kernels.parameter_sets import (
    A100_DECODE,
    A100_MIXED,
    A100_PREFILL,
    a100_kernels,
)
from tests.unit.hwmodels.kernels.test_kernel_times import device_with

SECONDS = [i for i, name in enumerate(COST_COLUMNS) if name.endswith("_s")]


@dataclass(frozen=True)
class Batch:
    """Requests that decode, by the contexts of the next step."""

    contexts: Sequence[int] = ()
    tree: None = None

    @property
    def num_requests(self) -> int:
        return len(self.contexts)

    @property
    def context_tokens(self) -> int:
        return sum(self.contexts)

    @property
    def context_tokens_squared(self) -> int:
        return sum(c * c for c in self.contexts)

    @property
    def max_context_tokens(self) -> int:
        return max(self.contexts, default=0)

    def after(self, num_steps: int) -> "Batch":
        return Batch([c + num_steps for c in self.contexts])


@pytest.fixture
def device(tmp_path: Path) -> DeviceSpec:
    return device_with(tmp_path, a100_kernels())


def seconds_of(totals: CostTotals) -> float:
    names = [item.name for item in fields(totals) if item.name.endswith("_s")]
    return float(sum(getattr(totals, name) for name in names))


@pytest.mark.parametrize(
    ("name", "tensor_parallel"), [("llama3_8b", 1), ("llama2_7b", 2), ("mixtral_8x7b", 4)]
)
@pytest.mark.parametrize("contexts", [[700], [9, 5000], list(range(100, 6000, 37))])
def test_a_decode_step_costs_what_the_step_by_kernels_does(
    device: DeviceSpec, name: str, tensor_parallel: int, contexts: list[int]
) -> None:
    shape = load_model(name)
    cost = CalibratedCost(device, shape, tensor_parallel)
    expected_s = device.decode_step_time_s(shape, tensor_parallel, np.array(contexts))
    assert cost.decode_step_s(Batch(contexts)) == pytest.approx(expected_s, rel=1e-12)


def test_every_step_of_a_run_costs_what_it_costs_alone_bit_for_bit(device: DeviceSpec) -> None:
    cost = CalibratedCost(device, load_model("llama3_8b"))
    for contexts in ([100], [120, 126, 127], [900 + 13 * k for k in range(60)], [50, 9000]):
        batch = Batch(contexts)
        steps_s = [cost.decode_step_s(batch.after(k)) for k in range(300)]
        assert cost.decode_run_s(batch, 300).tolist() == steps_s
        ends = StepEnds()
        ends.reserve(302)
        cost.write_run_ends(batch, 300, 7.0, ends, 2)
        assert list(ends.view[2:302]) == np.add.accumulate([7.0, *steps_s])[1:].tolist()


CHUNKS = [PrefillChunk(256, 0, True), PrefillChunk(64, 1024, False)]


def test_a_mixed_step_adds_its_prefills_and_shares_its_matrix_products(device: DeviceSpec) -> None:
    shape = load_model("llama3_8b")
    cost, batch = CalibratedCost(device, shape), Batch([500, 800])
    # Both chunks are one call: a single launch, and the tail of the longer context.
    chunks_s = (
        device.prefill_attention_time_s(1, 256, 0, 32, 8)
        + device.prefill_attention_time_s(1, 64, 1024, 32, 8)
        - A100_PREFILL.launch_s
        - A100_PREFILL.tail_weight * 108 * 4 * 128 * 64 * 256 / A100_PREFILL.flops_per_s
    )
    attention_s = 32 * (device.decode_attention_time_s([500, 800], 32, 8) + chunks_s)
    rest_s = cost.tokens_s(2 + 256 + 64, 2 + 1) + device.step_overhead_s
    assert cost.mixed_step_s(batch, CHUNKS) == pytest.approx(attention_s + rest_s, rel=1e-12)
    assert cost.mixed_step_s(batch, []) == cost.decode_step_s(batch)
    first = [PrefillChunk(256, 0, False)]
    alone_s = 32 * device.prefill_attention_time_s(1, 256, 0, 32, 8)
    assert cost.mixed_step_s(Batch(), first) == pytest.approx(
        alone_s + cost.tokens_s(256, 0) + device.step_overhead_s, rel=1e-12
    )


def test_a_fused_mixed_step_is_one_attention_call(device: DeviceSpec) -> None:
    fused = KernelChoice(mixed_batch="fused_varlen")
    cost = CalibratedCost(device, load_model("llama3_8b"), kernel=fused)
    call = (A100_DECODE, A100_PREFILL, 2, 1300, 800, [256, 64], [0, 1024], [0, 0], 32, 8)
    rest_s = cost.tokens_s(2 + 256 + 64, 2 + 1) + device.step_overhead_s
    expected_s = 32 * float(A100_MIXED.time_s(*call)[0]) + rest_s
    assert cost.mixed_step_s(Batch([500, 800]), CHUNKS) == pytest.approx(expected_s, rel=1e-12)
    # Without decodes it is the prefill kernel, without chunks the decode kernel.
    separate = CalibratedCost(device, load_model("llama3_8b"))
    assert cost.mixed_step_s(Batch(), CHUNKS) == separate.mixed_step_s(Batch(), CHUNKS)
    assert cost.mixed_step_s(Batch([9]), []) == separate.decode_step_s(Batch([9]))


def test_requests_of_a_step_add_host_time(device: DeviceSpec) -> None:
    """Every request once, whether it decodes or prefills."""
    costs = [
        CalibratedCost(replace(device, step_overhead_request_s=each_s), load_model("llama3_8b"))
        for each_s in (0.0, 1e-4)
    ]
    batch = Batch([500, 800, 20])
    without_s, with_s = (cost.decode_step_s(batch) for cost in costs)
    assert with_s - without_s == pytest.approx(3e-4, rel=1e-9)
    without_s, with_s = (cost.mixed_step_s(batch, CHUNKS) for cost in costs)
    assert with_s - without_s == pytest.approx(5e-4, rel=1e-9)
    ledger = costs[1].open_ledger()
    step_s = np.array([ledger.mixed_step_s(batch, CHUNKS)])
    launch_s = ledger.totals(mixed_run(batch, CHUNKS), step_s).launch_s
    assert launch_s == pytest.approx(device.step_overhead_s + 5e-4, rel=1e-12)


def test_terms_add_up_to_durations_and_do_not_depend_on_grouping(device: DeviceSpec) -> None:
    cost = CalibratedCost(device, load_model("llama3_8b"))
    batch = Batch([100, 700, 3000])
    pieces = ((0, 20), (20, 1), (21, 29))
    rows = [decode_run(batch.after(k), n) for k, n in pieces]
    durations_s = [cost.decode_run_s(batch.after(k), n).sum() for k, n in pieces]
    whole_s = cost.decode_run_s(batch, 50).sum(keepdims=True)
    one = cost.open_ledger().totals(decode_run(batch, 50), whole_s)
    other = cost.open_ledger().totals(np.concatenate(rows), np.array(durations_s))
    assert seconds_of(one) == pytest.approx(whole_s[0], rel=1e-12)
    for item in fields(CostTotals):
        assert getattr(one, item.name) == pytest.approx(getattr(other, item.name), rel=1e-12)


@pytest.mark.parametrize("mixed_batch", ["separate", "fused_varlen"])
def test_terms_of_a_mixed_step_add_up_to_its_duration(
    device: DeviceSpec, mixed_batch: MixedBatch
) -> None:
    kernel = KernelChoice(mixed_batch=mixed_batch)
    cost = CalibratedCost(device, load_model("llama3_8b"), 2, kernel=kernel)
    ledger, batch = cost.open_ledger(), Batch([500, 800])
    step_s = ledger.mixed_step_s(batch, CHUNKS)
    totals = ledger.totals(mixed_run(batch, CHUNKS), np.array([step_s]))
    assert seconds_of(totals) == pytest.approx(step_s, rel=1e-12)
    assert totals.attention_prefill_s > 0 < totals.collective_s


def test_flops_and_bytes_are_those_of_the_roofline(device: DeviceSpec) -> None:
    shape = load_model("qwen3_30b_a3b")
    batch, chunks = Batch([500, 800]), [PrefillChunk(256, 0, True)]
    counts = []
    for cost in (CalibratedCost(device, shape), RooflineCost(device, shape)):
        ledger = cost.open_ledger()
        step_s = ledger.mixed_step_s(batch, chunks)
        totals = ledger.totals(mixed_run(batch, chunks), np.array([step_s]))
        counts.append((totals.flops, totals.hbm_bytes))
        assert (totals.l2_read_bytes, totals.l2_hit_bytes) == (0, 0)
    assert counts[0] == counts[1]


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_in_the_engine_terms_explain_every_run_and_macro_steps_change_no_bit(
    device: DeviceSpec, is_async: bool
) -> None:
    workload, limits = random_workload(3, structured=False)
    options: dict[str, Any] = {
        "usable_blocks": limits["num_gpu_blocks"] - 1,
        "budget": limits["max_num_batched_tokens"],
        "seats": limits["max_num_seqs"],
        "block_tokens": 16,
        "cost": CalibratedCost(device, load_model("llama3_8b")),
        "is_async": is_async,
    }
    result = run_engine(workload, record_costs=True, **options)
    (instance,) = result.instances
    assert instance.run_costs is not None
    first = instance.run_column("first_step")
    last = first + instance.run_column("num_steps") - 1
    durations_s = instance.step_end_s[last] - instance.step_start_s[first]
    assert np.allclose(instance.run_costs[:, SECONDS].sum(axis=1), durations_s, rtol=1e-9)
    plain = run_engine(workload, macro_steps=False, **options)
    assert (plain.requests.finish_s == result.requests.finish_s).all()
    assert (plain.instances[0].step_end_s == instance.step_end_s).all()


def test_a_device_without_kernels_is_told_before_anything_runs() -> None:
    bare = replace(load_profile("a100_sxm_80gb"), kernels_at="")
    with pytest.raises(ConfigError, match="has no calibrated prefill_attention kernel"):
        CalibratedCost(bare, load_model("llama3_8b"))


def test_a_kernel_that_the_model_needs_is_missed_at_once(tmp_path: Path) -> None:
    every = a100_kernels()
    known = {name: one for name, one in every.provenance.items() if name != "moe"}
    device = device_with(tmp_path, replace(every, moe=None, provenance=known))
    CalibratedCost(device, load_model("llama3_8b"))
    with pytest.raises(ConfigError, match="has no calibrated moe kernel"):
        CalibratedCost(device, load_model("mixtral_8x7b"), 2)
