"""Executors around the real cost models: exact in macro-steps, monotone, with known limits."""

import functools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hwmodels.attention.choice import KernelChoice
from hwmodels.calibrated import CalibratedCost
from hwmodels.device import load_profile
from hwmodels.executors.as_measured import AsMeasured
from hwmodels.executors.cuda_graph import CAPTURE_SIZES, CudaGraph
from hwmodels.executors.eager import Eager
from hwmodels.executors.executor import REPLAY_IN_HOST_S, Executor, Fitting, KernelCost, Site
from hwmodels.executors.kv_rm import KvRm
from hwmodels.executors.static_graph import StaticGraph
from hwmodels.executors.uniform_batch import UniformBatch
from hwmodels.model_catalogue import load_model
from hwmodels.roofline import RooflineCost
from sim.cost_totals import COST_COLUMNS
from sim.executed_cost import ExecutedCost
from sim.interfaces import PrefillChunk
from sim.records import SimulationResult
from tests.engine_runs import run_engine
from tests.property.test_macro_stepping import columns
from tests.twin.workloads import random_workload

EXECUTORS: dict[str, Executor] = {
    "as_measured": AsMeasured(),
    "eager": Eager(launch_s=30e-6),
    "cuda_graph": CudaGraph(capture_sizes=[2, 4, 16], piece_s=300e-6),
    "static_graph": StaticGraph(max_context_tokens=2048, smallest_bucket_tokens=16),
    "kv_rm": KvRm(near_window_tokens=128, merge_max_gap_blocks=1),
    "kv_rm, full": KvRm(gather="full", has_double_buffer=False, staged_layers="one"),
}
"""Constants that make each of them matter."""

FIDELITIES = ("roofline", "calibrated", "calibrated_l2", "cascade")


@functools.cache
def cost_of(fidelity: str) -> KernelCost:
    device, shape = load_profile("a100_sxm_80gb"), load_model("qwen2_5_0_5b")
    if fidelity == "roofline":
        return RooflineCost(device, shape)
    choice = KernelChoice(
        name="flash_cascade" if fidelity == "cascade" else "flash", mixed_batch="fused_varlen"
    )
    return CalibratedCost(device, shape, kernel=choice, uses_l2=fidelity == "calibrated_l2")


def fit(executor: Executor, cost: KernelCost, num_blocks: int = 50_000, seats: int = 64) -> Fitting:
    return executor.fit(
        Site(
            cost=cost,
            kv_bytes=None,
            num_gpu_blocks=num_blocks,
            block_tokens=16,
            max_num_seqs=seats,
            max_model_len=None,
        )
    )


def assert_times_add_up(result: SimulationResult) -> None:
    """The seconds of the cost terms are the durations, run by run and in all."""
    seconds = [i for i, name in enumerate(COST_COLUMNS) if name.endswith("_s")]
    for one in result.instances:
        assert one.run_costs is not None
        spent = one.run_costs[:, seconds].sum(axis=1)
        np.testing.assert_allclose(spent, one.run_durations_s, rtol=1e-9, atol=1e-12)
        for column, name in enumerate(COST_COLUMNS):
            total = getattr(one.costs, name)
            np.testing.assert_allclose(total, one.run_costs[:, column].sum(), rtol=1e-9, atol=1e-12)


@settings(max_examples=80, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    structured=st.booleans(),
    name=st.sampled_from(sorted(EXECUTORS)),
    fidelity=st.sampled_from(FIDELITIES),
    is_async=st.booleans(),
    horizon_s=st.sampled_from([None, None, 0.2]),
)
def test_macro_steps_change_nothing_under_any_executor(
    seed: int,
    structured: bool,
    name: str,
    fidelity: str,
    is_async: bool,
    horizon_s: float | None,
) -> None:
    workload, limits = random_workload(seed, structured=structured, step_s=0.003)
    fitting = fit(EXECUTORS[name], cost_of(fidelity), seats=limits["max_num_seqs"])
    blocks = limits["num_gpu_blocks"] - 1
    if not fitting.reserves_blocks:
        blocks = fitting.num_gpu_blocks - 1
    results = [
        run_engine(
            workload,
            horizon_s,
            usable_blocks=blocks,
            seats=fitting.max_num_seqs,
            budget=limits["max_num_batched_tokens"],
            block_tokens=16,
            cost=fitting.cost,
            is_async=is_async,
            prefix_caching=fitting.shares_prefixes,
            macro_steps=macro_steps,
            record_costs=True,
        )
        for macro_steps in (True, False)
    ]
    macro, plain = results
    assert columns(macro) == columns(plain)
    for result in results:
        assert_times_add_up(result)
    for one, other in zip(macro.instances, plain.instances, strict=True):
        for name_ in COST_COLUMNS:
            assert getattr(one.costs, name_) == pytest.approx(
                getattr(other.costs, name_), rel=1e-9, abs=1e-15
            )


@settings(max_examples=60, deadline=None)
@given(
    size=st.integers(1, 64),
    context=st.integers(1, 1000),
    num_steps=st.integers(1, 100),
    name=st.sampled_from(sorted(EXECUTORS)),
    fidelity=st.sampled_from(FIDELITIES),
)
def test_a_run_costs_what_its_steps_cost(
    size: int, context: int, num_steps: int, name: str, fidelity: str
) -> None:
    cost = fit(EXECUTORS[name], cost_of(fidelity)).cost
    run_s = cost.decode_run_s(UniformBatch(size, context), num_steps)
    assert run_s[0] == cost.decode_step_s(UniformBatch(size, context))
    if not isinstance(cost, ExecutedCost) or not name.startswith("static"):
        last = UniformBatch(size, context + num_steps - 1)
        assert run_s[-1] == pytest.approx(cost.decode_step_s(last), rel=1e-9)


@settings(max_examples=60, deadline=None)
@given(
    size=st.integers(1, 60),
    context=st.integers(1, 500),
    chunk=st.integers(1, 400),
    name=st.sampled_from(["eager", "cuda_graph", "static_graph", "kv_rm"]),
)
def test_prices_grow_with_requests_contexts_and_chunks(
    size: int, context: int, chunk: int, name: str
) -> None:
    """With the roofline, whose own prices are monotone; up to the last digit."""
    cost = fit(EXECUTORS[name], cost_of("roofline")).cost
    here = cost.decode_step_s(UniformBatch(size, context)) - 1e-15
    assert 0 < here <= cost.decode_step_s(UniformBatch(size + 1, context))
    assert here <= cost.decode_step_s(UniformBatch(size, context + 100))
    shorter, longer = (PrefillChunk(n, 0, True) for n in (chunk, chunk + 50))
    batch = UniformBatch(size, context)
    assert here <= cost.mixed_step_s(batch, [shorter])
    if name == "cuda_graph":  # a step above the largest size is not padded
        return
    least = cost.mixed_step_s(batch, [shorter]) - 1e-15
    assert least <= cost.mixed_step_s(batch, [longer])


@pytest.mark.parametrize("fidelity", FIDELITIES)
@pytest.mark.parametrize("size", [1, 2, 4, 8, 64, 256])
def test_a_captured_size_costs_what_was_measured(fidelity: str, size: int) -> None:
    cost = cost_of(fidelity)
    graph = fit(CudaGraph(), cost, seats=256).cost
    batch = UniformBatch(size, 700)
    assert graph.decode_step_s(batch) == cost.decode_step_s(batch)


@pytest.mark.parametrize("fidelity", FIDELITIES)
def test_eager_steps_that_hide_their_launches_differ_by_a_replay(fidelity: str) -> None:
    cost = cost_of(fidelity)
    graph, eager = (fit(one, cost, seats=256).cost for one in (CudaGraph(), Eager()))
    batch = UniformBatch(256, 60_000)  # GPU time far above 24 layers x 11 x 6 us
    difference_s = graph.decode_step_s(batch) - eager.decode_step_s(batch)
    assert difference_s == pytest.approx(REPLAY_IN_HOST_S, rel=1e-6)


def test_a_batch_is_padded_to_the_next_captured_size() -> None:
    cost = cost_of("calibrated")
    assert isinstance(cost, CalibratedCost)
    graph = fit(CudaGraph(), cost, seats=256).cost
    for size, padded in ((3, 4), (5, 8), (9, 16), (250, 256)):
        batch = UniformBatch(size, 700)
        more_s = graph.decode_step_s(batch) - cost.decode_step_s(batch)
        layers = [cost.layer_times(n) for n in (padded, size)]
        parts = zip(*layers, strict=True)
        assert more_s == pytest.approx(sum(max(0.0, x - y) for x, y in parts), abs=1e-12)
    assert CAPTURE_SIZES[:5] == (1, 2, 4, 8, 16)
    assert (len(CAPTURE_SIZES), CAPTURE_SIZES[-1]) == (51, 512)


def test_executors_survive_a_copy_between_processes() -> None:
    import pickle

    batch = UniformBatch(5, 300)
    for name, executor in EXECUTORS.items():
        copied: Any = pickle.loads(pickle.dumps(executor))
        one, other = (fit(e, cost_of("roofline")).cost for e in (executor, copied))
        assert one.decode_step_s(batch) == other.decode_step_s(batch), name
