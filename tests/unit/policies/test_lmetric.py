"""LMETRIC: hand-computed products, the variants of its ablation, ties."""

import pytest

from policies.routing.lmetric import LMetric
from sim.loads import Loads
from tests.unit.policies.prefix_clusters import prompt_of, view_of


def route(router: LMetric, view: Loads, prompt: int = 100) -> int:
    return router.route(prompt_of(prompt), view, 0.0)


def test_tokens_to_prefill_times_batch_size_with_the_request() -> None:
    # (0 + 100 - 0) * 3 = 300; (50 + 100 - 80) * 4 = 280; (290 + 100 - 96) * 1 = 294.
    view = view_of([0, 80, 96], running=[2, 3, 0], queued=[0, 50, 290])
    assert route(LMetric(), view) == 1
    # One token more in its queue: 284; three more: 292; four more: 296 against 294.
    view.queued_prefill_tokens[1] = 53
    assert route(LMetric(), view) == 1
    view.queued_prefill_tokens[1] = 54
    assert route(LMetric(), view) == 2


def test_what_waiting_prompts_will_hit_is_not_queued() -> None:
    # 300 tokens wait on instance 0, of which 250 were found cached: 150 * 2 against 200 * 2.
    view = view_of([0, 0], waiting=[1, 1], queued=[300, 100], queued_hits=[250, 0])
    assert route(LMetric(), view) == 0
    view.queued_hit_tokens[0] = 0
    assert route(LMetric(), view) == 1


def test_without_the_one_idle_instances_are_all_alike() -> None:
    view = view_of([0, 0, 96])
    assert [route(LMetric(), view) for _ in range(2)] == [2, 2]
    router = LMetric(plus_one=False)
    assert [route(router, view) for _ in range(4)] == [0, 1, 2, 0]


def test_the_miss_ratio_does_not_see_the_queue() -> None:
    # Tokens: (200 + 40) * 2 against 100 * 2. Ratios: 0.4 * 2 against 1.0 * 2.
    view = view_of([60, 0], running=[1, 1], queued=[200, 0])
    assert route(LMetric(), view) == 1
    assert route(LMetric(prefill="miss_ratio"), view) == 0


def test_tokens_in_the_place_of_the_batch_size() -> None:
    # Requests: 100 * 2 against 100 * 3. Tokens: 100 * 5001 against 100 * 901.
    view = view_of([0, 0], running=[1, 2], kv_tokens=[5000, 900])
    assert route(LMetric(), view) == 0
    assert route(LMetric(load="tokens"), view) == 1
    # Queued tokens count as well; they are in the first factor too: 100 * 5001, 5200 * 6001.
    view = view_of([0, 0], running=[1, 2], kv_tokens=[5000, 900], queued=[0, 5100])
    assert route(LMetric(load="tokens"), view) == 0


def test_ties_rotate() -> None:
    router, view = LMetric(), view_of([64, 0, 64], running=[0, 0, 0])
    assert [route(router, view) for _ in range(4)] == [0, 2, 0, 2]


@pytest.mark.parametrize("prompt", [1, 17])
def test_an_idle_cluster_is_filled_in_turn(prompt: int) -> None:
    router = LMetric()
    assert [route(router, view_of(num_instances=3), prompt) for _ in range(5)] == [0, 1, 2, 0, 1]
