"""Twin: random workloads are small, varied, reproducible, and run to their end."""

from collections.abc import Sequence

import numpy as np
import pytest

from sim.prefix_tree import NO_NODE
from sim.workload import Workload
from tests.twin.result import Chunk, TwinResult
from tests.twin.scheduler import run_twin
from tests.twin.workloads import EngineLimits, random_workload

SEEDS = range(12)


def has_conversations(workload: Workload) -> bool:
    return workload.output_node is not None and bool(np.any(workload.output_node != NO_NODE))


def columns(workload: Workload) -> list[list[float]]:
    return [
        workload.arrival_s.tolist(),
        workload.prompt_tokens.tolist(),
        workload.output_tokens.tolist(),
        workload.path_nodes.tolist(),
        workload.tree.num_tokens.tolist(),
    ]


@pytest.mark.parametrize("structured", [False, True])
def test_a_seed_fixes_workload_and_limits(structured: bool) -> None:
    first, again = (random_workload(3, structured=structured) for _ in range(2))
    assert columns(first[0]) == columns(again[0])
    assert first[1] == again[1]
    assert columns(first[0]) != columns(random_workload(4, structured=structured)[0])


def test_structured_arrivals_lie_on_accumulated_step_ends() -> None:
    step_s = 0.1
    boundaries = set(np.add.accumulate([0.0, *[step_s] * 2000]).tolist())
    for seed in SEEDS:
        structured, _ = random_workload(seed, structured=True, step_s=step_s)
        assert set(structured.arrival_s.tolist()) <= boundaries


def test_the_seeds_cover_what_they_are_for() -> None:
    kinds = (False, True)
    cases = [random_workload(seed, structured=kind) for seed in SEEDS for kind in kinds]
    results = [run_twin(workload, **limits) for workload, limits in cases]
    assert all(5 <= workload.num_requests <= 80 for workload, _ in cases)
    assert all(limits["max_num_seqs"] <= limits["max_num_batched_tokens"] for _, limits in cases)
    assert sum(result.num_preemptions > 0 for result in results) >= 4
    assert sum(result.num_preemptions == 0 for result in results) >= 4
    assert any(sum(r.cached_tokens for r in result.requests) > 0 for result in results)
    assert any(sum(sum(r.hit_blocks[1:]) for r in result.requests) > 0 for result in results)
    assert any(has_conversations(workload) for workload, _ in cases)
    assert any((np.diff(workload.arrival_s) == 0).any() for workload, _ in cases)
    assert any(limits["long_prefill_token_threshold"] for _, limits in cases)


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("structured", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_every_token_is_generated_within_the_limits(
    seed: int, structured: bool, is_async: bool
) -> None:
    workload, limits = random_workload(seed, structured=structured, max_requests=30)
    result = run_twin(workload, **limits, async_scheduling=is_async)
    check_tokens(workload, result)
    check_limits(limits, result)
    check_times(workload, result, is_async)


def test_a_cost_by_work_reaches_the_step_times() -> None:
    def seconds(num_decodes: int, context_sum: int, chunks: Sequence[Chunk]) -> float:
        return 1e-3 + 1e-4 * num_decodes + 1e-6 * context_sum + sum(c.new_tokens for c in chunks)

    workload, limits = random_workload(1, structured=False, max_requests=10)
    result = run_twin(workload, **limits, step_duration=seconds)
    for step in result.steps:
        expected = seconds(step.num_decodes, step.context_sum, step.chunks)
        assert step.end_s == step.start_s + expected


def check_tokens(workload: Workload, result: TwinResult) -> None:
    for index, request in enumerate(result.requests):
        assert len(request.token_steps) == workload.output_tokens[index]
        assert np.all(np.diff(request.token_steps) > 0)
        assert request.finish_step == request.token_steps[-1]
        assert request.first_token_step >= request.admission_steps[0]
        assert request.cached_tokens < workload.prompt_tokens[index]
    admissions = [request.admission_steps[0] for request in result.requests]
    assert admissions == sorted(admissions)


def check_limits(limits: EngineLimits, result: TwinResult) -> None:
    for step in result.steps:
        tokens = [tokens for _, tokens in step.scheduled]
        assert 0 < sum(tokens) <= limits["max_num_batched_tokens"]
        assert len(tokens) <= limits["max_num_seqs"]
        assert step.num_decodes + len(step.chunks) == len(tokens)
        threshold = limits["long_prefill_token_threshold"]
        assert not threshold or max(tokens) <= threshold
        assert 0 <= step.free_blocks < limits["num_gpu_blocks"]


def check_times(workload: Workload, result: TwinResult, is_async: bool) -> None:
    for request, arrival_s in zip(result.requests, workload.arrival_s.tolist(), strict=True):
        assert arrival_s <= request.admission_plan_s[0]
    for before, step in zip(result.steps, result.steps[1:], strict=False):
        assert before.end_s <= step.start_s
        # One step ahead at most: planned when its predecessor started, or later.
        assert step.planned_s >= (before.start_s if is_async else before.end_s)
        assert is_async or step.planned_s == step.start_s
