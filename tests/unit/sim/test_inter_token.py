"""Gaps between tokens, weighted, against gaps listed one by one."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.inter_token import token_gaps, weighted_percentiles
from sim.metrics import summarize
from sim.records import SimulationResult
from tests.engine_runs import LinearCost, run_engine, token_steps
from tests.twin.stories import Ask, workload_of
from tests.twin.workloads import random_workload


def listed_gaps(result: SimulationResult) -> list[float]:
    """Every gap of every finished request."""
    gaps: list[float] = []
    for row, steps in enumerate(token_steps(result)):
        if result.requests.is_completed[row]:
            ends = result.instances[int(result.requests.instance[row])].step_end_s
            gaps += np.diff(ends[np.array(steps) - 1]).tolist()
    return gaps


def test_a_gap_is_shared_by_all_that_decode_in_the_step() -> None:
    result = run_engine(workload_of([Ask(0, 4, 3), Ask(0, 4, 2), Ask(7, 4, 2)]))
    gaps_s, weights = token_gaps(result)
    assert sorted(np.repeat(gaps_s, weights).tolist()) == [1.0] * 4


def test_a_preempted_request_has_one_long_gap() -> None:
    result = run_engine(workload_of([Ask(0, 8, 3)] * 3), usable_blocks=6)
    gaps_s, weights = token_gaps(result)
    assert sorted(np.repeat(gaps_s, weights).tolist()) == [1.0] * 5 + [3.0]


def test_gaps_of_unfinished_requests_do_not_count() -> None:
    result = run_engine(workload_of([Ask(0, 4, 3), Ask(0, 4, 99)]), horizon_s=9.5)
    gaps_s, weights = token_gaps(result)
    assert np.repeat(gaps_s, weights).tolist() == [1.0, 1.0]


@settings(max_examples=50, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    is_async=st.booleans(),
    num_instances=st.sampled_from([1, 1, 3]),
    macro_steps=st.booleans(),
)
def test_figures_equal_those_of_the_listed_gaps(
    seed: int, is_async: bool, num_instances: int, macro_steps: bool
) -> None:
    workload, limits = random_workload(seed, structured=False, step_s=0.01, max_requests=40)
    options: dict[str, Any] = {
        "usable_blocks": limits["num_gpu_blocks"] - 1,
        "seats": limits["max_num_seqs"],
        "budget": limits["max_num_batched_tokens"],
        "block_tokens": 16,
    }
    result = run_engine(
        workload,
        cost=LinearCost(),
        is_async=is_async,
        num_instances=num_instances,
        macro_steps=macro_steps,
        **options,
    )
    listed = listed_gaps(result)
    gaps_s, weights = token_gaps(result)
    assert sorted(np.repeat(gaps_s, weights).tolist()) == pytest.approx(sorted(listed), rel=1e-9)
    found = summarize(result, slo_ttft_s=1, slo_tpot_s=1)
    if listed:
        assert found["itl_mean_s"] == pytest.approx(np.mean(listed), rel=1e-9)
        for p in (50, 90, 99):
            assert found[f"itl_p{p}_s"] == pytest.approx(np.percentile(listed, p), rel=1e-9)
    else:
        assert found["itl_mean_s"] is None


@given(
    pairs=st.lists(st.tuples(st.floats(0, 10), st.integers(0, 6)), min_size=1, max_size=12).filter(
        lambda pairs: any(weight for _, weight in pairs)
    ),
    percentiles=st.lists(st.floats(0, 100), min_size=1, max_size=4),
)
def test_weighted_percentiles_equal_those_of_repeated_values(
    pairs: list[tuple[float, int]], percentiles: list[float]
) -> None:
    values, weights = (np.array(column) for column in zip(*pairs, strict=True))
    expected = np.percentile(np.repeat(values, weights), percentiles)
    found = weighted_percentiles(values, weights, percentiles)
    assert found == pytest.approx(expected.tolist(), rel=1e-9, abs=1e-12)
