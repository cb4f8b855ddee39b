"""Routers that score all instances at once decide as they do one by one."""

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import sim.loads
import sim.prefix_index
from policies.routing.first_minimum import first_minimum, first_minimum_of_array
from policies.routing.lmetric import LMetric
from sim.interfaces import ClusterView
from sim.request import Request
from tests.engine_runs import LinearCost, run_engine
from tests.twin.workloads import random_workload


class Noting(LMetric):
    """LMETRIC that notes its scores, and whether it had arrays."""

    def __init__(self, plus_one: bool) -> None:
        super().__init__(plus_one=plus_one)
        self.seen: list[list[float]] = []
        self.had_arrays: set[bool] = set()

    def route(self, request: Request, cluster: ClusterView, now_s: float) -> int:
        choice = super().route(request, cluster, now_s)
        assert self.last_scores is not None
        self.seen.append(list(self.last_scores))
        self.had_arrays.add(isinstance(self._scores, np.ndarray))
        return choice


def run(router: LMetric, seed: int, num_instances: int, **options: Any) -> bytes:
    workload, limits = random_workload(seed, structured=seed % 2 == 0, step_s=0.01)
    result = run_engine(
        workload,
        router=router,
        num_instances=num_instances,
        usable_blocks=limits["num_gpu_blocks"] - 1,
        seats=limits["max_num_seqs"],
        budget=limits["max_num_batched_tokens"],
        block_tokens=16,
        cost=LinearCost(),
        **options,
    )
    return result.requests.instance.tobytes()


@settings(
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    seed=st.integers(0, 2**32),
    num_instances=st.integers(1, 6),
    plus_one=st.booleans(),
    is_async=st.booleans(),
    min_masked=st.integers(2, 4),
)
def test_lmetric_decides_on_arrays_as_on_lists(
    monkeypatch: pytest.MonkeyPatch,
    seed: int,
    num_instances: int,
    plus_one: bool,
    is_async: bool,
    min_masked: int,
) -> None:
    monkeypatch.setattr(sim.prefix_index, "MIN_MASKED", min_masked)
    found = []
    for min_instances in (1, 1000):
        monkeypatch.setattr(sim.loads, "MIN_INSTANCES", min_instances)
        router = Noting(plus_one)
        found.append((run(router, seed, num_instances, is_async=is_async), router.seen))
        assert router.had_arrays == {min_instances == 1}
    assert found[0] == found[1]


@pytest.mark.parametrize("options", [{"view_delay_s": 0.1}, {"publish_period_s": 0.1}])
def test_a_view_that_is_old_has_no_arrays(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, float]
) -> None:
    monkeypatch.setattr(sim.loads, "MIN_INSTANCES", 1)
    router = Noting(plus_one=True)
    run(router, 5, 3, **options)
    assert router.had_arrays == {False}


@given(loads=st.lists(st.integers(0, 3), min_size=1, max_size=8), data=st.data())
def test_the_first_minimum_of_an_array_is_that_of_the_list(
    loads: list[int], data: st.DataObject
) -> None:
    start = data.draw(st.integers(0, len(loads)))
    assert first_minimum_of_array(np.array(loads), start) == first_minimum(loads, start)
