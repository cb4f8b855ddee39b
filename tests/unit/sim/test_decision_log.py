"""Decisions of a router beside what the other instances would have given."""

from collections.abc import Sequence

import numpy as np

from policies.routing.lmetric import LMetric
from policies.routing.lpwl import LPWL
from policies.routing.most_hit import MostHit
from policies.routing.polyserve import PolyServe
from policies.routing.round_robin import RoundRobin
from policies.routing.session_affinity import SessionAffinity
from policies.routing.vllm_dp import VllmDp
from sim.arrivals import requests_of
from sim.decision_log import STATES, DecisionRecords, ScoredRouter
from sim.interfaces import Router
from tests.engine_runs import run_engine
from tests.twin.stories import Ask, workload_of
from tests.unit.policies.prefix_clusters import prompt_of, view_of

NODES = [(-1, 16)]

ASKS = [Ask(0, 20, 3, (0,)), Ask(1, 20, 3, (0,)), Ask(1.5, 30, 1), Ask(20, 20, 3, (0,))]
"""Steps of a second. The first two and the last one begin alike."""


def decisions(router: Router, asks: list[Ask] = ASKS, num_instances: int = 2) -> DecisionRecords:
    workload = workload_of(asks, NODES)
    result = run_engine(
        workload, router=router, num_instances=num_instances, record_decisions=True, block_tokens=4
    )
    assert result.decisions is not None
    return result.decisions


def test_hits_and_loads_of_every_instance_are_noted_for_a_router_that_looks_at_none() -> None:
    found = decisions(RoundRobin())
    assert found.request_id.tolist() == [0, 1, 2, 3]
    assert found.time_s.tolist() == [0, 1, 1.5, 20]
    assert found.instance.tolist() == [0, 1, 0, 1]
    # The first prompt is in the cache of instance 0 from its plan on.
    assert found.hit_tokens.tolist() == [0, 0, 0, 16]
    assert found.other_hit_tokens.tolist() == [0, 16, 0, 16]
    assert found.num_requests.tolist() == [0, 0, 1, 0]
    assert found.other_num_requests.tolist() == [0, 1, 1, 0]
    assert found.queued_tokens.tolist() == [0, 0, 0, 0]
    # Instance 0 had the longer hit, but a request more.
    assert found.num_better.tolist() == [0, 0, 0, 0]
    assert np.isnan(found.score).all()
    assert found.other_instance.tolist() == [-1] * 4
    assert found.smaller_is_better is None
    assert not found.has_detector


def test_the_best_other_score_is_the_first_of_the_others() -> None:
    found = decisions(LPWL(), num_instances=3)
    # Missing tokens less the prompt: the hit counts, then the turn.
    assert found.instance.tolist() == [0, 0, 1, 0]
    assert found.scores.tolist() == [[0, 0, 0], [-16, 0, 0], [0, 0, 0], [-16, 0, 0]]
    assert found.score.tolist() == [0, -16, 0, -16]
    assert found.other_score.tolist() == [0, 0, 0, 0]
    assert found.other_instance.tolist() == [1, 1, 0, 1]
    assert found.num_better.tolist() == [0, 0, 0, 0]


def test_an_instance_that_is_better_in_one_and_worse_in_neither_is_counted() -> None:
    class Zero(Router):
        def route(self, request: object, cluster: object, now_s: float) -> int:
            return 0

    found = decisions(Zero(), [Ask(0, 20, 9), Ask(1, 20, 9), Ask(2, 8, 1)], num_instances=3)
    assert found.num_better.tolist() == [0, 2, 2]
    assert found.other_num_requests.tolist() == [0, 0, 0]


def test_a_lone_instance_has_no_other() -> None:
    found = decisions(LPWL(), num_instances=1)
    assert found.other_hit_tokens.tolist() == [-1] * 4
    assert found.other_instance.tolist() == [-1] * 4
    assert np.isnan(found.other_score).all()
    assert found.num_better.tolist() == [0] * 4


def test_what_is_sent_nowhere_is_not_noted() -> None:
    found = decisions(RoundRobin(), [Ask(0, 10**6, 1), Ask(1, 8, 1)])
    assert found.request_id.tolist() == [1]


def test_the_detectors_state_is_noted_with_the_class() -> None:
    asks = [Ask(float(t), 20, 60, (0,)) for t in range(12)]
    asks[4] = Ask(4.0, 20, 60)
    router = LMetric(hotspot="sliding", class_tokens=16)
    found = decisions(router, asks, num_instances=4)
    assert found.has_detector
    assert found.hotspot_class.tolist() == [0, 0, 0, 0, -1, *[0] * 7]
    states = [STATES[state] if state >= 0 else None for state in found.hotspot_state]
    assert states[:5] == ["clear"] * 4 + [None]
    assert router.detector is not None
    assert router.detector.num_filtered == states.count("filter") > 0
    is_filtered = found.hotspot_state == STATES.index("filter")
    assert np.isinf(found.scores[is_filtered]).any(axis=1).all()
    assert np.isfinite(found.score).all()


def test_routers_show_what_they_went_by() -> None:
    view = view_of([0, 8, 8], running=[1, 2, 3], queued=[0, 0, 5000])
    request = prompt_of(100)
    bounded = MostHit(max_queued_tokens=2048)
    assert bounded.route(request, view, 0.0) == 1
    assert bounded.last_scores == [0, 8, float("-inf")]
    full = view_of([0, 8, 8], queued=[4000, 3000, 5000])
    assert bounded.route(request, full, 0.0) == 1
    assert bounded.last_scores == [-4000, -2992, -4992]

    fixed = VllmDp()
    assert fixed.last_scores == []
    assert fixed.route(request, view, 0.0) == 0
    assert fixed.last_scores == [1, 2, 3]

    tight = PolyServe(ttft_s=1e-6)
    tight.route(request, view, 0.0)
    assert tight.last_scores is None

    workload = workload_of([Ask(0, 8, 1), Ask(1, 8, 1)])
    object.__setattr__(workload, "session_id", np.array([7, 7]))
    first, second = requests_of(workload)
    sticky = SessionAffinity()
    sticky.route(first, view, 0.0)
    assert sticky.last_scores == [1, 2, 3]
    sticky.route(second, view, 0.0)
    left: Sequence[float] | None = sticky.last_scores
    assert left is None


def test_a_router_without_scores_says_so() -> None:
    assert isinstance(SessionAffinity(), ScoredRouter)
    assert not isinstance(RoundRobin(), ScoredRouter)
