"""`simulate()`: progress, determinism, pickling, garbage collection."""

import gc
import pickle

import numpy as np
import numpy.typing as npt
import pytest

from sim.errors import InvalidDecisionError
from sim.interfaces import ClusterView, Router
from sim.request import Request
from sim.simulation import simulate
from sim.workload import Workload
from tests.engine_runs import LinearCost, cluster_of, run_engine, token_steps
from tests.twin.stories import Ask, workload_of
from tests.twin.workloads import random_workload

STORY = [Ask(0, 4, 3), Ask(0, 4, 50), Ask(2.5, 4, 9)]


class Fixed(Router):
    """Sends every request to one instance, which may not exist."""

    def __init__(self, choice: int) -> None:
        self.choice = choice

    def route(self, request: Request, cluster: ClusterView, now_s: float) -> int:
        return self.choice


def equal_rows(arrival_s: npt.NDArray[np.float64], prompt_tokens: int) -> Workload:
    ones = np.ones(len(arrival_s), dtype=np.int64)
    return Workload.without_sharing(arrival_s, prompt_tokens * ones, ones)


def test_progress_is_told_every_512_requests_with_the_simulated_time() -> None:
    seen: list[tuple[float, int]] = []
    workload = equal_rows(np.arange(1600.0), 1)
    simulate(workload, cluster_of(), progress=lambda time_s, done: seen.append((time_s, done)))
    assert seen == [(512.0, 512), (1024.0, 1024), (1536.0, 1536)]


def test_rejected_requests_are_progress_too() -> None:
    workload = equal_rows(np.zeros(600), 9999)
    seen: list[int] = []
    simulate(workload, cluster_of(), progress=lambda _time_s, done: seen.append(done))
    assert seen == [512]


def test_two_runs_are_equal_byte_by_byte() -> None:
    workload, limits = random_workload(3, structured=False, step_s=0.01)
    first, second = (
        run_engine(
            workload,
            usable_blocks=limits["num_gpu_blocks"] + 60,
            block_tokens=16,
            cost=LinearCost(),
            num_instances=2,
        )
        for _ in range(2)
    )
    for name in first.requests.__slots__:
        a, b = getattr(first.requests, name), getattr(second.requests, name)
        assert (a == b) if name == "more_intervals" else (a.tobytes() == b.tobytes()), name
    for one, other in zip(first.instances, second.instances, strict=True):
        assert one.step_end_s.tobytes() == other.step_end_s.tobytes()
        assert one.runs.tobytes() == other.runs.tobytes()
        assert one.costs == other.costs


def test_a_result_can_be_pickled() -> None:
    result = run_engine(workload_of([Ask(0, 8, 3)] * 3), usable_blocks=6)
    copy = pickle.loads(pickle.dumps(result))
    assert token_steps(copy) == token_steps(result)
    assert copy.workload.arrival_s.tolist() == result.workload.arrival_s.tolist()
    assert copy.costs == result.costs
    assert copy.requests.finish_s.tolist() == result.requests.finish_s.tolist()


@pytest.mark.parametrize("router", [Fixed(0), Fixed(7)], ids=["well", "error"])
def test_garbage_collection_is_as_before_also_after_an_error(router: Router) -> None:
    gc.unfreeze()
    before = (gc.get_threshold(), 0, gc.isenabled())
    try:
        run_engine(workload_of(STORY), router=router)
    except InvalidDecisionError:
        assert isinstance(router, Fixed) and router.choice == 7
    assert (gc.get_threshold(), gc.get_freeze_count(), gc.isenabled()) == before


def test_collections_are_rare_while_a_simulation_runs() -> None:
    seen: list[tuple[int, int]] = []

    class Watcher(Fixed):
        def route(self, request: Request, cluster: ClusterView, now_s: float) -> int:
            seen.append((gc.get_threshold()[0], gc.get_freeze_count()))
            return 0

    run_engine(workload_of(STORY[:1]), router=Watcher(0))
    assert seen[0][0] > gc.get_threshold()[0]
    assert seen[0][1] > 0
