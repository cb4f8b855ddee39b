"""Routers that predict times, and Preble's loads: hand-computed decisions."""

from typing import Any

import numpy as np
import pytest

from policies.routing.mooncake_ttft import MooncakeTtft
from policies.routing.polyserve import PolyServe
from policies.routing.preble import Preble
from policies.routing.preble_prefill import prefill_s
from policies.routing.predicted_times import PredictedTimes
from policies.routing.smetric import SMetric
from sim.arrivals import requests_of
from sim.interfaces import Router
from sim.loads import Loads
from sim.workload import Workload
from tests.unit.policies.prefix_clusters import prompt_of, sharing, view_of

TIMES: dict[str, Any] = {
    "base_s": 0.01,
    "token_s": 1e-4,
    "pair_s": 1e-8,
    "context_s": 1e-6,
    "token_budget": 1000,
}


def route(router: Router, view: Loads, prompt: int = 1000) -> int:
    return router.route(prompt_of(prompt), view, 0.0)


def test_predicted_times_count_steps_tokens_and_pairs() -> None:
    view = view_of([400], running=[3], queued=[700], queued_hits=[200], kv_tokens=[5000])
    (found,) = PredictedTimes(**TIMES).of_instances(1000, [400], view)
    # 500 queued and 600 missed: two steps of 10 + 5 ms; 110 ms of tokens; 600 * 700.5 pairs.
    assert found.prefill_s == pytest.approx(0.06 + 0.004203)
    assert found.ttft_s == pytest.approx(2 * 0.015 + 0.05 + 0.064203)
    assert found.tpot_s == pytest.approx(0.015 + 0.001 + 0.0004)


def test_mooncake_trades_the_hit_for_the_queue() -> None:
    view = view_of([400, 0], queued=[350, 0])
    # 95 and 100 ms of tokens in one step each; 450 in the queue take a second step.
    assert route(MooncakeTtft(**TIMES), view) == 0
    view.queued_prefill_tokens[0] = 450
    assert route(MooncakeTtft(**TIMES), view) == 1
    router = MooncakeTtft(**TIMES)
    assert [route(router, view_of([0, 0, 0])) for _ in range(4)] == [0, 1, 2, 0]


def test_polyserve_fills_the_fullest_that_meets_both_targets() -> None:
    view = view_of([0, 0, 0], kv_tokens=[10_000, 100_000, 300_000])
    # TPOT 21, 111, 311 ms; TTFT 125, 215, 415 ms.
    assert route(PolyServe(**TIMES), view) == 1
    assert route(PolyServe(tpot_s=0.4, **TIMES), view) == 2
    assert route(PolyServe(tpot_s=0.4, ttft_s=0.3, **TIMES), view) == 1
    assert route(PolyServe(ttft_s=0.2, **TIMES), view) == 0


def test_polyserve_draws_where_nobody_meets_them() -> None:
    router = PolyServe(ttft_s=0.01, **TIMES)
    counts = np.bincount([route(router, view_of([0, 0, 0])) for _ in range(300)], minlength=3)
    assert counts.min() > 70


def in_session(*prompts: int) -> Workload:
    n = len(prompts)
    workload = Workload.without_sharing(np.zeros(n), np.array(prompts), np.full(n, 1))
    object.__setattr__(workload, "session_id", np.zeros(n, dtype=np.int64))
    return workload


def test_smetric_stays_while_the_hit_is_what_the_session_left() -> None:
    view = view_of([0, 400, 0], running=[0, 4, 0])
    requests = list(requests_of(in_session(800, 1000, 1000)))
    router = SMetric(**TIMES)
    # No history: any hit is enough. Then 400 is not above half of 800.
    assert router.route(requests[0], view, 0.0) == 1
    assert router.route(requests[1], view, 0.0) == 2
    # 520 is above half of 1000.
    assert router.route(requests[2], view_of([0, 520, 0], running=[0, 9, 0]), 0.0) == 1


def test_smetric_leaves_when_it_would_wait_too_long() -> None:
    # Allowed: 1 s + 62.5 ms. 9,000 tokens ahead take 0.9 s and ten steps of 10 ms: 1.06 s.
    view = view_of([400, 0], queued=[8950, 0])
    assert route(SMetric(**TIMES), view) == 0
    view.queued_prefill_tokens[0] = 9200
    # 64 ms * 4 against 105 ms: the rest is balanced by its own prefill time and the batch size.
    view.num_requests[0] = 3
    assert route(SMetric(**TIMES), view) == 1
    view.num_requests[0] = 0
    assert route(SMetric(**TIMES), view) == 0


@pytest.mark.parametrize(
    ("tokens", "context", "milliseconds"),
    [
        (100, 0, 22 + 0.32),
        (200, 0, -118 + 250 - 102.4 + 0.32),
        (400, 0, 47.57 + 0.32),
        (400, 2000, 47.57 + 2400 * 1.86e-4 + 0.159),
        (5000, 0, 546.21 + 0.93 + 0.159 - 7.37 + 19.3 + 54),
    ],
)
def test_prebles_prefill_times(tokens: int, context: int, milliseconds: float) -> None:
    assert prefill_s(tokens, context) == pytest.approx(milliseconds / 900)


def test_preble_exploits_long_matches_and_explores_short_ones() -> None:
    nodes = [(-1, 600)]
    first, more, short = sharing(nodes, [(600, (0,)), (1000, (0,)), (1300, (0,))])
    router, idle = Preble(), view_of(num_instances=3)
    assert router.route(first, idle, 0.0) == 0
    # 600 of 1000 tokens match: exploit. 600 of 1300 do not: the least loaded, 1 before 2.
    assert router.route(more, idle, 1.0) == 0
    assert router.route(short, idle, 2.0) == 1
    # Loads: 0: (600 tokens / 2 holders + 400), 1: (600 / 2 + 700), 2: none.
    assert router.route(prompt_of(500, 90), idle, 3.0) == 2


def test_prebles_load_is_prefill_work_of_the_window_and_running_requests() -> None:
    router = Preble(window_s=10.0)
    assert route(router, view_of(num_instances=2)) == 0
    # 112.93 ms / 0.9 on 0; a running request counts 45 * 0.15 = 6.75 s.
    assert router.route(prompt_of(10, 1), view_of(running=[0, 1]), 1.0) == 0
    assert router.route(prompt_of(10, 2), view_of(running=[0, 0]), 2.0) == 1
    # 22.32 ms / 0.9 on 1. At 11 s the prompts sent at 0 s and 1 s have left the window.
    assert router.route(prompt_of(10, 3), view_of(running=[0, 0]), 11.0) == 0


def test_prebles_share_of_a_node_is_split_among_its_holders() -> None:
    (a, b, c) = sharing([(-1, 400)], [(400, (0,)), (801, (0,)), (420, (0,))])
    router, idle = Preble(), view_of(num_instances=2)
    assert router.route(a, idle, 0.0) == 0
    # 47.89 ms / 0.9 on 0: the short match is explored, so 1 holds the node and 401 tokens more.
    assert router.route(b, idle, 0.0) == 1
    # Two misses for two holders: one share each, and 1 has the rest of b beside it.
    assert router._loads_s[0] == pytest.approx(prefill_s(400, 0))
    assert router._loads_s[1] == pytest.approx(prefill_s(400, 0) + prefill_s(401, 400))
    assert router.route(c, idle, 0.0) == 0


def test_preble_redirects_from_overloaded_holders_once_enough_was_sent() -> None:
    nodes = [(-1, 600)]
    requests = sharing(nodes, [(600, (0,))] * 110)
    loaded, busy = view_of(running=[3, 1]), view_of(running=[1, 9])
    router, fresh = Preble(), Preble()
    assert {router.route(request, loaded, 0.0) for request in requests[:100]} == {1}
    assert {fresh.route(request, loaded, 0.0) for request in requests[:99]} == {1}
    # 50 per instance were sent, and 9 requests weigh more than 1.5 times as much as one.
    assert router.route(requests[105], busy, 0.0) == 0
    assert fresh.route(requests[105], busy, 0.0) == 1
