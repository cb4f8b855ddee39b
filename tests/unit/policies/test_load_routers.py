"""Routers that pick the least loaded instance: hand-computed decisions and ties."""

import pytest

from policies.routing.jsq import JSQ
from policies.routing.least_requests import LeastRequests
from policies.routing.least_tokens import LeastTokens
from policies.routing.vllm_dp import VllmDp
from sim.interfaces import Router
from sim.loads import DelayedView, Loads, PublishedView
from tests.unit.policies.clusters import choices, instances_of, live_view, play, request


def route(router: Router, view: Loads) -> int:
    return router.route(request(), view, 0.0)


def with_kv_tokens(view: Loads, kv_tokens: list[int]) -> Loads:
    view.kv_tokens_at = lambda instance, _time_s: kv_tokens[instance]
    return view


def test_least_requests_counts_running_and_waiting_alike() -> None:
    assert route(LeastRequests(), live_view(waiting=[0, 3, 1], running=[5, 1, 4])) == 1


def test_jsq_weighs_a_waiting_request_five_times_a_running_one() -> None:
    # 4 * waiting + (running + waiting) = 5, 6, 7.
    assert route(JSQ(), live_view(waiting=[1, 0, 1], running=[0, 6, 2])) == 0
    # 10 against 9, where the numbers of requests are 2 against 9.
    view = live_view(waiting=[2, 0], running=[0, 9])
    assert route(JSQ(), view) == 1
    assert route(LeastRequests(), view) == 0


def test_jsq_prefers_running_to_waiting_where_vllm_dp_sees_a_tie() -> None:
    # jsq 5 against 4; vllm_dp 4 against 4, which goes to the scan start.
    view = live_view(waiting=[1, 0], running=[0, 4])
    assert route(JSQ(), view) == 1
    assert route(VllmDp(), view) == 0


def test_least_tokens_adds_kv_in_use_and_queued_prefill() -> None:
    view = live_view([0, 0, 0], [1, 1, 1], queued=[0, 500, 90])
    assert route(LeastTokens(), with_kv_tokens(view, [600, 50, 500])) == 1
    assert route(LeastTokens(), with_kv_tokens(view, [540, 50, 500])) == 0
    assert route(LeastTokens(), with_kv_tokens(view, [600, 101, 509])) == 2


@pytest.mark.parametrize("policy", [LeastRequests, JSQ, LeastTokens])
def test_ties_go_to_the_first_instance_after_the_last_choice(policy: type[Router]) -> None:
    idle = live_view([0] * 3, [0] * 3)
    assert choices(policy(), idle, 7) == [0, 1, 2, 0, 1, 2, 0]


@pytest.mark.parametrize("policy", [LeastRequests, JSQ, LeastTokens])
def test_rotation_skips_loaded_instances(policy: type[Router]) -> None:
    view = live_view([1, 0, 1, 0], [0] * 4, queued=[9, 0, 9, 0])
    assert choices(policy(), view, 4) == [1, 3, 1, 3]


@pytest.mark.parametrize("policy", [LeastRequests, JSQ, LeastTokens])
def test_one_instance_takes_everything(policy: type[Router]) -> None:
    assert choices(policy(), live_view([4], [2]), 3) == [0, 0, 0]


def test_a_published_view_hides_what_happened_since() -> None:
    loads = live_view([0, 0], [0, 0])
    view = PublishedView(loads, period_s=1.0)
    router = LeastRequests()
    loads.num_requests[0] = 5
    view.refresh(0.9)
    assert choices(router, view, 2) == [0, 1]
    view.refresh(1.0)
    assert choices(router, view, 2) == [1, 1]


def test_a_delayed_view_shows_reports_once_they_have_travelled() -> None:
    loads = live_view([0, 0], [0, 0])
    view = DelayedView(loads, delay_s=0.5)
    loads.num_waiting[0] = 1
    view.after_change(0, 2.0)
    router = JSQ()
    view.refresh(2.4)
    assert choices(router, view, 2) == [0, 1]
    view.refresh(2.5)
    assert choices(router, view, 2) == [1, 1]


def test_simulated_requests_join_the_instance_that_is_free() -> None:
    # Instance 0 serves request 0 until 10 s. Instance 1 takes 1 s each and is always free again.
    result = play(LeastRequests(), [0.0, 1.0, 3.0, 5.0], outputs=[10, 1, 1, 1])
    assert instances_of(result) == [0, 1, 1, 1]


def test_with_a_late_view_simulated_requests_rotate_blindly() -> None:
    result = play(LeastRequests(), [0.0, 1.0, 3.0, 5.0], outputs=[10, 1, 1, 1], view_delay_s=100.0)
    assert instances_of(result) == [0, 1, 0, 1]


def test_least_tokens_follows_the_growing_kv_of_a_simulated_run() -> None:
    # Request 0 starts with 4 tokens and grows by one a second until 40 s. Request 1 goes to the
    # empty instance 1 with 10 tokens and grows too, from 30 s on. At 31.5 s instance 0 holds about
    # 35 tokens against 11, although both run one request.
    result = play(LeastTokens(), [0.0, 30.0, 31.5], prompts=[4, 10, 1], outputs=[40, 8, 1])
    assert instances_of(result) == [0, 1, 1]
    # Without the growth (2 s later instead of 31 s) it is 4 or 5 tokens against 10 or 11.
    result = play(LeastTokens(), [0.0, 0.5, 2.5], prompts=[4, 10, 1], outputs=[40, 8, 1])
    assert instances_of(result) == [0, 1, 0]


def test_least_tokens_sees_prompts_that_wait() -> None:
    # One seat each: the prompts of 50 wait behind request 0 and 1 as queued prefill tokens.
    result = play(LeastTokens(), [0.0, 0.0, 0.0, 0.5, 0.5], prompts=[9, 10, 50, 1, 1], outputs=5)
    assert instances_of(result) == [0, 1, 0, 1, 1]
