"""A policy that returns something impossible ends the run with an error that names it."""

from collections.abc import Iterable

import numpy as np
import pytest

from sim.errors import InvalidDecisionError
from sim.interfaces import BatchPolicy, ClusterView, InstanceView, Router
from sim.request import Request
from tests.engine_runs import run_engine
from tests.twin.stories import Ask, workload_of

STORY = [Ask(0, 4, 3), Ask(0, 4, 50), Ask(2.5, 4, 9), Ask(80, 4, 1)]


class Lost(Router):
    """Sends requests to an instance of its choice."""

    def __init__(self, choice: object) -> None:
        self.choice = choice

    def route(self, request: Request, cluster: ClusterView, now_s: float) -> int:
        return self.choice  # type: ignore[return-value]


@pytest.mark.parametrize("choice", [2, -1, None, "0", 0.0, 10**30])
def test_an_impossible_instance_is_an_error_that_names_the_router(choice: object) -> None:
    with pytest.raises(InvalidDecisionError, match=r"policy Lost: chose .*allowed are 0 to 1"):
        run_engine(workload_of(STORY), router=Lost(choice), num_instances=2)


@pytest.mark.parametrize("choice", [1, np.int64(1)])
def test_numpy_integers_are_instances_too(choice: int) -> None:
    result = run_engine(workload_of(STORY), router=Lost(choice), num_instances=2)
    assert result.requests.instance.tolist() == [1] * 4


class Stale(BatchPolicy):
    """Proposes requests that it remembers, whether they still wait or not."""

    def __init__(self) -> None:
        self.remembered: list[Request] = []

    def candidates(self, instance: InstanceView, now_s: float) -> Iterable[Request]:
        self.remembered += instance.waiting.values()
        return self.remembered


class Twice(BatchPolicy):
    """Proposes every request twice."""

    def candidates(self, instance: InstanceView, now_s: float) -> Iterable[Request]:
        return [request for request in instance.waiting.values() for _ in range(2)]


@pytest.mark.parametrize("policy", [Stale, Twice])
def test_a_candidate_that_does_not_wait_is_an_error_that_names_the_policy(
    policy: type[BatchPolicy],
) -> None:
    with pytest.raises(InvalidDecisionError, match=f"policy {policy.__name__}: Request.0, 4.3 tok"):
        run_engine(workload_of(STORY), batching=lambda _index: policy())
