"""The placebo of a router: an order of ties that moves on while the run goes on."""

import pytest

from policies.routing.least_requests import LeastRequests
from policies.routing.random_instance import Random
from policies.routing.round_robin import RoundRobin
from sim.errors import ConfigError
from sim.interfaces import ClusterView, Router
from sim.loads import Loads
from sim.request import Request
from sim.rng import stream
from sim.tie_shift import shifting_ties
from tests.engine_runs import run_engine
from tests.twin.stories import Ask, workload_of


class First(Router):
    """Always the first instance."""

    def route(self, request: Request, cluster: ClusterView, now_s: float) -> int:
        return 0


def choices(router: Router, tie_shift: int, num_requests: int) -> list[int]:
    route = shifting_ties(router.route, router, tie_shift, 3)
    loads = Loads(3)
    return [route(Request(None, k, 0.0, 10, 1), loads, 0.0) for k in range(num_requests)]


def test_the_scan_moves_on_after_as_many_requests_as_instances() -> None:
    assert choices(LeastRequests(), 1, 9) == [0, 1, 2, 1, 2, 0, 2, 0, 1]
    assert choices(LeastRequests(), 2, 9) == [0, 1, 2, 2, 0, 1, 1, 2, 0]
    assert choices(RoundRobin(), 1, 6) == [0, 1, 2, 1, 2, 0]


def test_draws_are_skipped_where_nothing_is_scanned() -> None:
    draws = [int(3 * draw) for draw in stream(7, "routing.random").random(8)]
    assert choices(Random(7), 2, 5) == [*draws[:3], *draws[5:7]]


def test_in_a_run_only_ties_fall_elsewhere() -> None:
    asks = [Ask(float(t), 8, 3) for t in range(0, 60, 10)]
    plain = run_engine(workload_of(asks), num_instances=3)
    shifted = run_engine(workload_of(asks), num_instances=3, tie_shift=1)
    assert plain.requests.instance.tolist() == [0, 1, 2, 0, 1, 2]
    assert shifted.requests.instance.tolist() == [0, 1, 2, 1, 2, 0]
    assert shifted.requests.finish_s.tolist() == plain.requests.finish_s.tolist()


@pytest.mark.parametrize("shift", [-1, 2])
def test_a_shift_must_be_less_than_a_whole_turn(shift: int) -> None:
    with pytest.raises(ConfigError, match=rf"routing.tie_shift={shift}: must be 0 to .* = 1"):
        run_engine(workload_of([Ask(0, 4, 1)]), num_instances=2, tie_shift=shift)


def test_a_router_without_ties_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"routing.tie_shift=1 has no effect: router First"):
        run_engine(workload_of([Ask(0, 4, 1)]), router=First(), num_instances=2, tie_shift=1)
