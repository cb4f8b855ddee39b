"""What every policy of these groups promises: Protocol, pickling, determinism, balance."""

import pickle
from collections.abc import Callable

import numpy as np
import pytest

from policies.admission.always import Always
from policies.admission.token_bucket import TokenBucket
from policies.batching.fcfs import FCFS
from policies.eviction.lru import LRU
from policies.routing.jsq import JSQ
from policies.routing.least_requests import LeastRequests
from policies.routing.least_tokens import LeastTokens
from policies.routing.power_of_two import PowerOfTwo
from policies.routing.random_instance import Random
from policies.routing.round_robin import RoundRobin
from policies.routing.vllm_dp import VllmDp
from sim.errors import InvalidDecisionError
from sim.interfaces import AdmissionPolicy, BatchPolicy, ClusterView, EvictionPolicy, Router
from sim.loads import PublishedView
from sim.records import SimulationResult
from sim.request import Request
from sim.rng import stream
from tests.unit.policies.clusters import choices, live_view, play, request

ROUTERS: list[Callable[[], Router]] = [
    Random,
    RoundRobin,
    LeastRequests,
    LeastTokens,
    VllmDp,
    JSQ,
    PowerOfTwo,
]
LOAD_AWARE: list[Callable[[], Router]] = [LeastRequests, LeastTokens, VllmDp, JSQ, PowerOfTwo]


class Says(Router):
    """Answers what it was told to."""

    def __init__(self, answer: object) -> None:
        self.answer = answer

    def route(self, request: Request, cluster: ClusterView, now_s: float) -> int:
        return self.answer  # type: ignore[return-value]


def loaded(router: Router, num_requests: int = 3000) -> SimulationResult:
    """Four instances of 4 seats at about 80 % load."""
    rng = stream(3, "tests.policies")
    return play(
        router,
        np.cumsum(rng.exponential(1 / 3.2, num_requests)).tolist(),
        prompts=rng.integers(1, 50, num_requests).tolist(),
        outputs=rng.geometric(1 / 4, num_requests).tolist(),
        num_instances=4,
        max_num_seqs=4,
        publish_period_s=0.1 if isinstance(router, VllmDp) else 0.0,
    )


def mean_wait_s(result: SimulationResult) -> float:
    return float(np.mean(result.requests.admitted_s - result.workload.arrival_s))


@pytest.mark.parametrize(
    ("policy", "protocol"),
    [
        *((router, Router) for router in ROUTERS),
        (FCFS, BatchPolicy),
        (LRU, EvictionPolicy),
        (Always, AdmissionPolicy),
        (TokenBucket, AdmissionPolicy),
    ],
)
def test_a_policy_derives_from_its_protocol_and_needs_no_arguments(
    policy: Callable[[], object], protocol: type
) -> None:
    assert protocol in type(policy()).__mro__


@pytest.mark.parametrize("policy", ROUTERS)
def test_a_used_router_pickles_with_its_state(policy: Callable[[], Router]) -> None:
    view = PublishedView(live_view([1, 0, 0, 2, 0], [0, 3, 0, 0, 0]), 0.1)
    view.refresh(0.1)
    router = policy()
    choices(router, view, 7)
    twin = pickle.loads(pickle.dumps(router))
    assert choices(twin, view, 20) == choices(router, view, 20)


@pytest.mark.parametrize("policy", [FCFS, LRU, Always])
def test_a_stateless_policy_pickles(policy: Callable[[], object]) -> None:
    assert type(pickle.loads(pickle.dumps(policy()))) is policy


def test_a_used_token_bucket_pickles_with_its_level() -> None:
    bucket = TokenBucket(rate_tokens_per_s=1.0, burst_tokens=10.0)
    assert bucket.admit(request(prompt_tokens=7), 1.0)
    twin = pickle.loads(pickle.dumps(bucket))
    assert not twin.admit(request(prompt_tokens=4), 1.0)
    assert twin.admit(request(prompt_tokens=4), 2.0)


@pytest.mark.parametrize("policy", ROUTERS)
def test_the_same_run_gives_the_same_records(policy: Callable[[], Router]) -> None:
    first, second = loaded(policy(), 500).requests, loaded(policy(), 500).requests
    assert first.instance.tobytes() == second.instance.tobytes()
    assert first.finish_s.tobytes() == second.finish_s.tobytes()


@pytest.mark.parametrize("policy", ROUTERS)
def test_every_instance_gets_its_share(policy: Callable[[], Router]) -> None:
    served = np.bincount(loaded(policy()).requests.instance, minlength=4)
    assert served.sum() == 3000
    np.testing.assert_allclose(served / 3000, 0.25, atol=0.04)


@pytest.mark.parametrize("policy", LOAD_AWARE)
def test_looking_at_the_load_beats_luck(policy: Callable[[], Router]) -> None:
    assert mean_wait_s(loaded(policy())) < 0.8 * mean_wait_s(loaded(Random()))


@pytest.mark.parametrize("answer", [2, -1, 1000, None, "0", 0.0])
def test_an_impossible_decision_names_the_policy(answer: object) -> None:
    with pytest.raises(InvalidDecisionError) as caught:
        play(Says(answer), [0.0])
    assert str(caught.value) == f"policy Says: chose instance {answer!r}, allowed are 0 to 1"


def test_the_last_instance_is_a_possible_decision() -> None:
    assert play(Says(1), [0.0]).requests.instance.tolist() == [1]
