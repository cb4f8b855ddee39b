"""Mean KV usage, by formula, against blocks counted step by step."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.kv_usage import kv_usage_mean_ratio
from sim.metrics import makespan_of
from sim.records import SimulationResult
from tests.engine_runs import LinearCost, run_engine
from tests.twin.stories import Ask, workload_of
from tests.twin.workloads import random_workload


def usage(result: SimulationResult) -> float | None:
    return kv_usage_mean_ratio(result, makespan_of(result))


def counted_usage(plain: SimulationResult) -> float:
    """The same from a run with one row per step: blocks after each plan times its duration."""
    held = 0.0
    for instance in plain.instances:
        used = instance.run_column("used_blocks").tolist()
        spans = zip(instance.step_start_s.tolist(), instance.step_end_s.tolist(), strict=True)
        held += sum(u * (end - start) for u, (start, end) in zip(used, spans, strict=True))
    return held / (makespan_of(plain) * (plain.num_gpu_blocks - 1) * len(plain.instances))


def test_a_lone_request_by_hand() -> None:
    # 3 tokens in step 1; then 4, 5, ... 9: blocks 1 1 2 2 2 2 3.
    result = run_engine(workload_of([Ask(0, 3, 7)]), usable_blocks=10)
    assert usage(result) == pytest.approx(13 / 7 / 10, rel=1e-12)


def test_idle_time_holds_nothing() -> None:
    result = run_engine(workload_of([Ask(0, 4, 1), Ask(9, 4, 1)]), usable_blocks=10)
    assert usage(result) == pytest.approx(2 / 10 / 10, rel=1e-12)


def test_shared_blocks_count_once() -> None:
    asks = [Ask(0, 9, 1, (0,)), Ask(0, 9, 1, (0,))]
    result = run_engine(workload_of(asks, [(-1, 8)]), usable_blocks=10)
    assert usage(result) == pytest.approx(4 / 10, rel=1e-12)


def test_an_idle_instance_halves_the_mean() -> None:
    result = run_engine(workload_of([Ask(0, 4, 1)]), usable_blocks=10, num_instances=2)
    assert usage(result) == pytest.approx(1 / 20, rel=1e-12)


def test_without_a_makespan_there_is_no_mean() -> None:
    assert usage(run_engine(workload_of([]))) is None


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    structured=st.booleans(),
    is_async=st.booleans(),
    num_instances=st.sampled_from([1, 1, 2]),
)
def test_usage_equals_that_counted_step_by_step(
    seed: int, structured: bool, is_async: bool, num_instances: int
) -> None:
    workload, limits = random_workload(seed, structured=structured, step_s=0.01, max_requests=40)
    options: dict[str, Any] = {
        "usable_blocks": limits["num_gpu_blocks"] - 1,
        "seats": limits["max_num_seqs"],
        "budget": limits["max_num_batched_tokens"],
        "block_tokens": 16,
        "num_instances": num_instances,
        "is_async": is_async,
        "cost": LinearCost(),
    }
    plain = run_engine(workload, macro_steps=False, **options)
    macro = run_engine(workload, macro_steps=True, **options)
    expected = pytest.approx(counted_usage(plain), rel=1e-9)
    assert usage(plain) == expected
    assert usage(macro) == expected
