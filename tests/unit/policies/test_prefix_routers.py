"""Routers that weigh prefix hits against load: hand-computed decisions."""

from typing import Any

import numpy as np
import pytest

from policies.routing.aibrix import AIBrix
from policies.routing.dynamo import Dynamo
from policies.routing.linear import Linear
from policies.routing.llm_d import LlmD
from policies.routing.lpwl import LPWL
from policies.routing.most_hit import MostHit
from policies.routing.session_affinity import SessionAffinity
from policies.routing.sglang_router import SglangRouter
from sim.arrivals import requests_of
from sim.interfaces import Router
from sim.loads import Loads
from sim.workload import Workload
from tests.unit.policies.prefix_clusters import prompt_of, sharing, view_of


def route(router: Router, view: Loads, prompt: int = 100) -> int:
    return router.route(prompt_of(prompt), view, 0.0)


def test_most_hit_looks_at_load_among_equal_hits_only() -> None:
    view = view_of([64, 80, 80], running=[0, 9, 5])
    assert [route(MostHit(), view) for _ in range(2)] == [2, 2]
    router = MostHit()
    assert [route(router, view_of([64, 80, 80])) for _ in range(3)] == [1, 2, 1]


def test_bounded_most_hit_leaves_full_queues_out() -> None:
    router = MostHit(max_queued_tokens=2048)
    assert route(router, view_of([64, 80, 0], queued=[0, 2048, 0])) == 0
    assert route(router, view_of([64, 80, 0], queued=[0, 2050, 0], queued_hits=[0, 3, 0])) == 1
    # All full: 3000 - 64, 2900 - 0, 3000 - 80.
    assert route(router, view_of([64, 0, 80], queued=[3000, 2900, 3000])) == 1


def test_lpwl_takes_the_least_prefill_work_and_then_the_fewest_requests() -> None:
    # 50 + 36, 86, 20 + 100.
    view = view_of([64, 14, 0], running=[4, 3, 0], queued=[50, 0, 20])
    assert route(LPWL(), view) == 1
    # 150 - 70 = 80 queued less hits: 80 + 36 = 116, against 100 and 120.
    view = view_of([64, 0, 0], queued=[150, 0, 20], queued_hits=[70, 0, 0])
    assert route(LPWL(), view) == 1


def test_linear_weighs_hit_batch_and_tokens() -> None:
    view = view_of([80, 0], running=[4, 1], kv_tokens=[1000, 600])
    # 0.8 + 0 + 0 = 0.8 against 0 + 0.75 + 0.4 = 1.15 with equal weights.
    assert route(Linear(), view) == 1
    # 1.6 against 1.15.
    assert route(Linear(hit_weight=0.66), view) == 0
    # An idle cluster: both have all their room.
    assert route(Linear(), view_of([0, 16])) == 1


def test_linear_breaks_ties_at_random_by_its_seed() -> None:
    view = view_of([0, 0, 0])
    draws = [[route(router, view) for _ in range(300)] for router in (Linear(), Linear(seed=1))]
    assert draws[0] != draws[1]
    assert min(np.bincount(draws[0], minlength=3)) > 70


def test_dynamo_adds_blocks_to_prefill_and_blocks_to_hold() -> None:
    # Blocks of 10 tokens. Prefill: (0 + 100 - 80) / 10 = 2, 10. Decode: (900 + 100) / 10 = 100,
    # (850 + 100) / 10 = 95.
    view = view_of([80, 0], kv_tokens=[900, 850])
    assert route(Dynamo(block_tokens=10), view) == 0  # 102 against 105
    assert route(Dynamo(block_tokens=10, overlap_score_weight=0.5), view) == 1  # 101 against 100
    # Tokens that wait are prefilled and held: 400 more, of which 300 are cached.
    view = view_of([0, 0], kv_tokens=[0, 600], queued=[400, 0], queued_hits=[300, 0])
    assert route(Dynamo(block_tokens=10), view) == 0  # 20 + 50 against 10 + 70


def test_dynamo_credits_scale_the_prefill_and_the_hit() -> None:
    view = view_of([80, 0], kv_tokens=[900, 850])
    assert route(Dynamo("credits", block_tokens=10), view) == 0  # 2 + 100 against 10 + 95
    assert route(Dynamo("credits", block_tokens=10, device_credit=0.3), view) == 1  # 107.6, 105
    assert route(Dynamo("credits", block_tokens=10, prefill_load_scale=0.5), view) == 1
    # Twice the credit cannot make less than nothing: 0 + 100 against 10 + 89.
    view = view_of([80, 0], kv_tokens=[900, 790])
    assert route(Dynamo("credits", block_tokens=10, device_credit=2), view) == 1


def test_dynamo_as_lmetric_multiplies() -> None:
    # 2 * (100 + 1) = 202; 10 * (10 + 1) = 110.
    view = view_of([80, 0], kv_tokens=[900, 0])
    assert route(Dynamo("lmetric", block_tokens=10), view) == 1
    # 2 * 51 = 102 against 110.
    view = view_of([80, 0], kv_tokens=[400, 0])
    assert route(Dynamo("lmetric", block_tokens=10), view) == 0


def test_the_first_dynamo_weighs_ratios() -> None:
    # 2 * 0.8 - 0.9 - 1 = -0.3; 0 - 0.1 - 0.5 = -0.6.
    view = view_of([80, 0], waiting=[4, 2], kv_usage=[0.9, 0.1])
    assert route(Dynamo("ratio"), view) == 0
    # 0.8 - 0.9 - 1 = -1.1.
    view = view_of([40, 0], waiting=[4, 2], kv_usage=[0.9, 0.1])
    assert route(Dynamo("ratio"), view) == 1


def test_a_temperature_draws_by_relative_cost() -> None:
    # Costs 110, 220, 330 blocks of a token: relative 0, 0.5, 1; at 1: weights 1, 0.607, 0.368.
    view = view_of([0, 0, 0], kv_tokens=[0, 100, 200])
    router = Dynamo(block_tokens=1, temperature=1.0)
    shares = np.bincount([route(router, view) for _ in range(4000)], minlength=3) / 4000
    np.testing.assert_allclose(shares, [0.506, 0.307, 0.186], atol=0.03)


def test_llm_d_adds_queue_kv_and_prefix() -> None:
    # queue 0, 1, 0.5; kv 0.2, 0.5, 0.5; prefix 0.8, 0, 0.4.
    view = view_of([80, 0, 40], waiting=[4, 2, 3], kv_usage=[0.8, 0.5, 0.5])
    # 2q + 2k + 3p: 0.4 + 2.4 = 2.8; 2 + 1 = 3; 1 + 1 + 1.2 = 3.2.
    assert route(LlmD(prefix_index="exact"), view) == 2
    assert route(LlmD(prefix_index="exact", prefix_weight=10), view) == 0
    assert route(LlmD(prefix_index="exact", queue_weight=9), view) == 1


@pytest.mark.parametrize(
    ("weight", "view", "choice"),
    [
        # 0.5 against 0.5 * (1 - 64 / 128).
        ("load_aware_weight", view_of(waiting=[64, 0]), 1),
        ("token_load_weight", view_of(kv_tokens=[50, 60], queued=[15, 0]), 1),
        ("active_request_weight", view_of(waiting=[0, 2], running=[3, 0]), 1),
        ("running_weight", view_of(waiting=[0, 9], running=[3, 2]), 1),
    ],
)
def test_other_scorers_of_llm_d(weight: str, view: Loads, choice: int) -> None:
    weights: dict[str, Any] = {"queue_weight": 0, "kv_weight": 0, "prefix_weight": 0, weight: 1}
    router = LlmD(**weights)
    assert [route(router, view) for _ in range(5)] == [choice] * 5


def test_llm_d_matches_what_it_sent_within_the_first_256_blocks() -> None:
    nodes = [(-1, 8192)]
    first, second = sharing(nodes, [(8192, (0,)), (8192, (0,))])
    router = LlmD(queue_weight=0, kv_weight=0)
    view = view_of(num_instances=4)
    home = router.route(first, view, 0.0)
    assert [router.route(second, view, 1.0) for _ in range(6)] == [home] * 6


def test_aibrix_balances_matches_and_falls_back() -> None:
    # 9 - 0 > 8: least requests.
    router = AIBrix(prefix_index="exact")
    assert route(router, view_of([0, 0, 96], running=[4, 0, 9])) == 1
    # Mean 5, sample standard deviation 3: at most 8 requests.
    assert route(router, view_of([0, 0, 96], running=[5, 2, 8])) == 2
    # Mean 3, sample standard deviation 4.36: 8 is too many, the next match has 1.
    assert route(router, view_of([0, 32, 96], running=[0, 1, 8])) == 1
    # Nobody else matches: least requests.
    assert route(router, view_of([0, 0, 96], running=[0, 1, 8])) == 0
    # Equal matches: fewest requests.
    assert route(router, view_of([96, 96, 96], running=[2, 1, 2])) == 1


def test_sglang_router_balances_when_both_thresholds_are_passed() -> None:
    (hot,) = sharing([(-1, 100)], [(100, (0,))])
    router = SglangRouter()
    assert router.route(hot, view_of(running=[0, 0, 0]), 0.0) == 0
    # 64 - 0 is not above 64; 65 is, and 65 > 1.5 * 0.
    assert router.route(hot, view_of(running=[64, 0, 0]), 0.0) == 0
    assert router.route(hot, view_of(running=[65, 0, 3]), 0.0) == 1
    # 330 is not above 1.5 * 220.
    assert router.route(hot, view_of(running=[330, 320, 220]), 0.0) == 1
    assert router.route(hot, view_of(running=[331, 320, 220]), 0.0) == 2


def test_sglang_router_spreads_short_matches_to_the_smallest_tree() -> None:
    nodes = [(-1, 30)]
    a, b, c = sharing(nodes, [(400, (0,)), (100, (0,)), (99, (0,))])
    router = SglangRouter()
    idle = view_of(num_instances=2)
    assert router.route(a, idle, 0.0) == 0
    # 30 of 100 is not above 0.3; 30 of 99 is.
    assert router.route(b, idle, 0.0) == 1
    assert router.route(prompt_of(500, 90), idle, 0.0) == 1
    assert router.route(prompt_of(10, 91), idle, 0.0) == 0
    assert router.route(c, view_of(running=[1, 0]), 0.0) == 1


def test_sglang_router_trims_its_trees_at_intervals() -> None:
    a, b = sharing([(-1, 100)], [(100, (0,)), (100, (0,))])
    router = SglangRouter(max_tree_size=300, eviction_interval_s=10.0)
    idle = view_of(num_instances=2)
    assert router.route(a, idle, 0.0) == 0
    assert router.route(b, idle, 9.9) == 0
    # At 10 s 100 tokens (400 characters) are too many: nothing matches, both trees are empty.
    assert router.route(b, idle, 10.0) == 1


def test_a_session_stays_and_strangers_are_spread() -> None:
    workload = Workload.without_sharing(np.zeros(5), np.full(5, 10), np.full(5, 1))
    sessions = np.array([7, 8, 7, -1, 8])
    object.__setattr__(workload, "session_id", sessions)
    router = SessionAffinity()
    views = [[0, 0, 0], [9, 0, 5], [9, 0, 0], [9, 9, 0], [0, 9, 0]]
    requests = list(requests_of(workload))
    chosen = [
        router.route(r, view_of(running=v), 0.0) for r, v in zip(requests, views, strict=True)
    ]
    assert chosen == [0, 1, 0, 2, 1]
