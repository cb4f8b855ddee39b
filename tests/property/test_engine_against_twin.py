"""The extent-based, macro-stepping engine gives what the per-block twin gives, step for step."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.records import SimulationResult
from sim.workload import Workload
from tests.engine_runs import run_engine, token_steps
from tests.twin.result import TwinResult
from tests.twin.scheduler import run_twin
from tests.twin.workloads import EngineLimits, random_workload

seeds = st.integers(0, 2**32)


def run_both(
    workload: Workload, limits: EngineLimits, is_async: bool, macro_steps: bool
) -> tuple[TwinResult, SimulationResult]:
    blocks, seats = limits["num_gpu_blocks"], limits["max_num_seqs"]
    budget = limits["max_num_batched_tokens"]
    twin = run_twin(
        workload,
        num_gpu_blocks=blocks,
        max_num_seqs=seats,
        max_num_batched_tokens=budget,
        async_scheduling=is_async,
        hash_in_flight_input=False,
    )
    ours = run_engine(
        workload,
        usable_blocks=blocks - 1,
        seats=seats,
        budget=budget,
        block_tokens=16,
        is_async=is_async,
        macro_steps=macro_steps,
    )
    return twin, ours


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("macro_steps", [True, False], ids=["macro", "plain"])
@settings(max_examples=60, deadline=None)
@given(seed=seeds, structured=st.booleans())
def test_hits_preemptions_and_tokens_equal_those_of_the_per_block_pool(
    is_async: bool, macro_steps: bool, seed: int, structured: bool
) -> None:
    workload, limits = random_workload(seed, structured=structured)
    twin, ours = run_both(workload, limits, is_async, macro_steps)
    assert ours.requests.cached_tokens.tolist() == [r.cached_tokens for r in twin.requests]
    assert ours.requests.num_preemptions.tolist() == [r.num_preemptions for r in twin.requests]
    assert token_steps(ours) == [r.token_steps for r in twin.requests]
    assert ours.instances[0].step_end_s.tolist() == twin.step_end_s


@settings(max_examples=40, deadline=None)
@given(seed=seeds, is_async=st.booleans())
def test_blocks_held_after_each_plan_equal_those_of_the_per_block_pool(
    seed: int, is_async: bool
) -> None:
    workload, limits = random_workload(seed, structured=False)
    twin, ours = run_both(workload, limits, is_async, macro_steps=False)
    usable = limits["num_gpu_blocks"] - 1
    assert ours.instances[0].run_column("used_blocks").tolist() == [
        usable - free for free in twin.free_blocks
    ]
