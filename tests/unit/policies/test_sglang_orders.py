"""The queue orders of SGLang, worked out by hand."""

import pickle
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from policies.batching.dfs_weight import DfsWeight
from policies.batching.lof import LOF
from policies.batching.lpm import LPM
from policies.batching.random_order import RandomOrder
from policies.batching.shortest_prefill import ShortestPrefill
from sim.arrivals import requests_of
from sim.errors import ConfigError
from sim.interfaces import BatchPolicy
from sim.operations import OperationCounts
from sim.request import Request
from tests.engine_runs import run_engine
from tests.twin.stories import Ask, workload_of

# A system prompt of 100 tokens with two documents of 50, and another one of 40 tokens.
NODES = [(-1, 100), (0, 50), (0, 50), (-1, 40)]
SYSTEM, LEFT, RIGHT, OTHER = (0,), (0, 1), (0, 2), (3,)


class Queue:
    """An idle instance whose cache holds what the test says."""

    instance_id = 0
    num_free_blocks = num_usable_blocks = 10_000

    def __init__(self, asks: Sequence[Ask], cached: Mapping[int, int] | None = None) -> None:
        requests = requests_of(workload_of(asks, NODES))
        self.waiting = {request.request_id: request for request in requests}
        self.running: dict[int, Request] = {}
        self._cached = cached or {}

    def cached_tokens(self, request: Request) -> int:
        return self._cached.get(request.request_id, 0)


def order(policy: BatchPolicy, queue: Queue) -> list[int]:
    return [request.request_id for request in policy.candidates(queue, 0.0)]


def asks(*paths: tuple[int, ...], prompt: int = 200) -> list[Ask]:
    return [Ask(float(i), prompt, 1, path) for i, path in enumerate(paths)]


# -- longest prefix match ------------------------------------------------------------------------


def test_lpm_puts_the_longest_match_first_and_keeps_the_queue_among_equals() -> None:
    queue = Queue(asks((), (), (), (), ()), {1: 33, 2: 100, 3: 33, 4: 100})
    assert order(LPM(), queue) == [2, 4, 1, 3, 0]


def test_lpm_puts_off_whoever_shares_an_uncached_prefix_with_one_ahead() -> None:
    # 1 and 3 share 150 and 100 tokens with 0, of which nothing is cached; 2 has nothing to share
    # with 0 and goes into the queue's tree, where 4 finds its 40 tokens.
    queue = Queue(asks(LEFT, LEFT, OTHER, RIGHT, OTHER))
    assert order(LPM(), queue) == [0, 2, 1, 3, 4]


def test_lpm_checks_matches_of_up_to_32_tokens_and_puts_off_from_32_shared_ones_on() -> None:
    both = asks(OTHER, OTHER)
    assert order(LPM(), Queue(both, {1: 32})) == [0, 1]  # put off, though its match is longer
    assert order(LPM(), Queue(both, {1: 33})) == [1, 0]
    assert order(LPM(defer_tokens=40), Queue(both, {1: 32})) == [0, 1]
    assert order(LPM(defer_tokens=41), Queue(both, {1: 32})) == [1, 0]
    assert order(LPM(check_tokens=31), Queue(both, {1: 32})) == [1, 0]


def test_lpm_with_a_check_of_minus_one_puts_nobody_off() -> None:
    assert order(LPM(check_tokens=-1), Queue(asks(LEFT, LEFT, ()), {2: 1})) == [2, 0, 1]


def test_a_request_that_is_put_off_fills_no_tree() -> None:
    # 1 is put off for its 100 tokens in common with 0, so 2 finds those too, and not the 150 that
    # it has in common with 1.
    policy = LPM()
    assert order(policy, Queue(asks(SYSTEM, RIGHT, RIGHT))) == [0, 1, 2]
    assert policy.operations.tokens_compared == 100 + 100


def test_lpm_is_first_come_first_served_beyond_128_waiting() -> None:
    cached = {i: i for i in range(129)}
    assert order(LPM(), Queue(asks(*[()] * 128), cached)) == list(range(127, -1, -1))
    policy = LPM()
    assert order(policy, Queue(asks(*[()] * 129), cached)) == list(range(129))
    assert policy.operations == OperationCounts(), "nothing is matched then"
    assert order(LPM(max_waiting=129), Queue(asks(*[()] * 129), cached))[0] == 128


def test_lpm_counts_the_tokens_and_nodes_of_every_match() -> None:
    policy = LPM()
    # 0: 150 of the cache in 2 nodes. 1: 20 in 1 node, then 0 of the queue, joins it. 2: 0 of the
    # cache, 100 of the queue in 1 node, put off.
    order(policy, Queue(asks(LEFT, RIGHT, SYSTEM), {0: 150, 1: 20}))
    visits = (1 + 2) + (1 + 1) + (1 + 0) + (2 + 0) + (1 + 0) + (1 + 1)
    assert policy.operations == OperationCounts(
        tokens_compared=150 + 20 + 100, node_visits=visits, candidates_scanned=3
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_waiting": -1}, "batching.max_waiting=-1: must be at least 0"),
        ({"check_tokens": -2}, "batching.check_tokens=-2: must be at least -1"),
        ({"defer_tokens": 0}, "batching.defer_tokens=0: must be at least 1"),
    ],
)
def test_lpm_refuses_impossible_constants(options: dict[str, int], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        LPM(**options)


# -- depth-first by weight -----------------------------------------------------------------------


def test_dfs_weight_goes_down_the_heavier_branch_first() -> None:
    # LEFT has one request, RIGHT two; OTHER one. The system prompt weighs 4, with its own request.
    queue = Queue(
        asks(SYSTEM, OTHER, LEFT, RIGHT, RIGHT, ()), {0: 100, 1: 40, 2: 150, 3: 150, 4: 150}
    )
    assert order(DfsWeight(), queue) == [3, 4, 2, 0, 1, 5]


def test_dfs_weight_ends_a_match_where_the_cache_ends() -> None:
    # 1 and 2 find only the first 120 tokens of LEFT: the same node, above that of 0.
    queue = Queue(asks(LEFT, LEFT, LEFT, SYSTEM), {0: 150, 1: 120, 2: 120, 3: 100})
    assert order(DfsWeight(), queue) == [0, 1, 2, 3]
    queue = Queue(asks(SYSTEM, LEFT, LEFT, LEFT), {0: 100, 1: 120, 2: 120, 3: 150})
    assert order(DfsWeight(), queue) == [3, 1, 2, 0]


def test_dfs_weight_takes_equal_branches_in_the_order_of_the_queue() -> None:
    cached = {0: 40, 1: 150, 2: 150, 3: 40}
    assert order(DfsWeight(), Queue(asks(OTHER, RIGHT, LEFT, OTHER), cached)) == [0, 3, 1, 2]
    assert order(
        DfsWeight(), Queue(asks(LEFT, OTHER, OTHER, RIGHT), {0: 150, 1: 40, 2: 40, 3: 150})
    ) == [0, 3, 1, 2]


def test_dfs_weight_gives_a_preempted_request_a_leaf_of_its_own() -> None:
    # 1 finds the system prompt and 30 tokens of its own behind it: a leaf below SYSTEM.
    queue = Queue(asks(SYSTEM, SYSTEM), {0: 100, 1: 130})
    assert order(DfsWeight(), queue) == [1, 0]


def test_dfs_weight_sorts_queues_of_any_length_and_walks_its_tree_twice() -> None:
    policy = DfsWeight()
    assert order(policy, Queue(asks(*[()] * 199, SYSTEM), {199: 100}))[0] == 199
    # Matches with the cache visit the root, and the system prompt once; those with the queue find
    # nothing and put the other 199 in. The tree of matches has two nodes.
    assert policy.operations.node_visits == 200 + 1 + 199 * (1 + 2) + 2 * 2
    assert policy.operations.candidates_scanned == 200


# -- the others ----------------------------------------------------------------------------------


def test_lof_puts_the_longest_output_first() -> None:
    policy = LOF()
    queue = Queue([Ask(0, 10, 5), Ask(0, 10, 9), Ask(1, 10, 9), Ask(1, 10, 6)])
    assert order(policy, queue) == [1, 2, 3, 0]
    assert policy.operations == OperationCounts(candidates_scanned=4)


def test_shortest_prefill_counts_what_is_cached_as_done() -> None:
    queue = Queue([Ask(0, 50, 1), Ask(0, 200, 1, LEFT), Ask(0, 50, 1), Ask(0, 60, 1)], {1: 150})
    assert order(ShortestPrefill(), queue) == [0, 1, 2, 3]
    queue = Queue([Ask(0, 51, 1), Ask(0, 200, 1, LEFT), Ask(0, 49, 1)], {1: 150})
    assert order(ShortestPrefill(), queue) == [2, 1, 0]


def test_shortest_prefill_counts_generated_tokens_of_a_preempted_request() -> None:
    queue = Queue([Ask(0, 50, 30), Ask(0, 60, 1)])
    queue.waiting[0].generated_tokens = 20
    assert order(ShortestPrefill(), queue) == [1, 0]


def test_shortest_prefill_puts_off_whoever_shares_an_uncached_prefix_with_one_ahead() -> None:
    assert order(ShortestPrefill(), Queue([Ask(0, 160, 1, LEFT), Ask(0, 110, 1, SYSTEM)])) == [0, 1]
    both = ShortestPrefill(check_tokens=-1)
    assert order(both, Queue([Ask(0, 160, 1, LEFT), Ask(0, 110, 1, SYSTEM)])) == [1, 0]


def test_random_draws_every_order_equally_often_and_anew_each_time() -> None:
    policy, queue = RandomOrder(seed=1), Queue(asks((), (), ()))
    drawn = [tuple(order(policy, queue)) for _ in range(6000)]
    counts = np.unique(np.array(drawn), axis=0, return_counts=True)[1]
    assert len(counts) == 6
    np.testing.assert_allclose(counts, 1000, rtol=0.12)


def test_random_draws_from_the_seed_and_the_instance() -> None:
    def draws(seed: int, instance_id: int) -> list[int]:
        queue = Queue(asks(*[()] * 30))
        queue.instance_id = instance_id
        return order(RandomOrder(seed), queue)

    assert draws(1, 0) == draws(1, 0)
    assert len({tuple(draws(seed, i)) for seed in (1, 2) for i in (0, 1)}) == 4
    with pytest.raises(ConfigError, match="seed=-1"):
        RandomOrder(-1)


@pytest.mark.parametrize("policy", [LPM, DfsWeight, LOF, RandomOrder, ShortestPrefill])
def test_a_used_policy_pickles_and_goes_on_as_before(policy: type[BatchPolicy]) -> None:
    queue = Queue(asks(LEFT, RIGHT, (), OTHER, LEFT), {2: 10})
    used = policy()
    order(used, queue)
    twin = pickle.loads(pickle.dumps(used))
    assert order(twin, queue) == order(used, queue)
    assert twin.operations == used.operations


# -- in an engine --------------------------------------------------------------------------------


def test_lpm_lets_a_cached_prompt_overtake() -> None:
    # Blocks of 4 tokens and one seat. 0 leaves its 40 tokens in the cache at 1 s; 2 has them too.
    story = [Ask(0, 44, 1, OTHER), Ask(0.5, 44, 1), Ask(0.6, 44, 1, OTHER)]
    result = run_engine(workload_of(story, NODES), seats=1, batching=lambda _index: LPM())
    assert result.requests.admitted_s.tolist() == [0.0, 2.0, 1.0]
    assert result.requests.cached_tokens.tolist() == [0, 0, 40]


def test_lpm_prefills_a_new_prefix_once_and_then_serves_those_put_off() -> None:
    # 2 shares all with 1, so 3 goes before it, though they came together; a step later 2 hits.
    story = [Ask(0, 4, 1), Ask(0.5, 44, 3, OTHER), Ask(0.5, 44, 1, OTHER), Ask(0.5, 20, 1)]
    result = run_engine(workload_of(story, NODES), budget=64, batching=lambda _index: LPM())
    assert result.requests.admitted_s.tolist() == [0.0, 1.0, 2.0, 1.0]
    assert result.requests.cached_tokens.tolist() == [0, 0, 40, 0]
