"""The tree: by hand, and against the published sets recomputed from nothing."""

from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.batching.feather import hash_tree
from policies.batching.feather.hash_tree import ChunkedHashTree
from sim.errors import ConfigError
from sim.operations import OperationCounts
from sim.request import Request
from tests.twin.stories import Ask, workload_of
from tests.unit.policies.feather.tokens import KeyedTree, random_requests


def tree_of(chunk_tokens: int) -> ChunkedHashTree:
    return ChunkedHashTree(chunk_tokens, OperationCounts())


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 2**32), chunk_tokens=st.integers(1, 12))
def test_the_tree_equals_the_sets_per_key_after_any_changes(seed: int, chunk_tokens: int) -> None:
    check_against_sets(seed, chunk_tokens)


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_so_it_does_when_its_heap_is_cleared_at_every_change(seed: int) -> None:
    with patch.multiple(hash_tree, _FEW=0, _SLACK=0):
        check_against_sets(seed, 4)


def check_against_sets(seed: int, chunk_tokens: int) -> None:
    workload, requests = random_requests(seed)
    rng = np.random.default_rng([seed, 1])
    tree, naive = tree_of(chunk_tokens), KeyedTree(workload, chunk_tokens)
    outside = list(requests)
    for _ in range(50):
        change = rng.integers(3)
        if change == 0 and outside:
            request = outside.pop(int(rng.integers(len(outside))))
            tree.insert(request)
            naive.waiting[request.request_id] = request
        elif change == 1 and naive.waiting:
            best = tree.find_best()
            assert best is not None
            # Mostly the best one, as policies do, but any order must work.
            choice = list(naive.waiting)[int(rng.integers(len(naive.waiting)))]
            request = best.request if rng.random() < 0.6 else naive.waiting[choice]
            tree.add(request)
            naive.active[request.request_id] = naive.waiting.pop(request.request_id)
        elif change == 2 and naive.active:
            request = list(naive.active.values())[int(rng.integers(len(naive.active)))]
            tree.finish(request)
            del naive.active[request.request_id]
            # It may come back with more tokens, as a preempted one does.
            request.generated_tokens += int(rng.integers(0, 3)) * (request.output_node < 0)
            outside.append(request)
        best = tree.find_best()
        found = None
        if best is not None:
            found = (best.request.request_id, *best[1:])
        assert found == naive.best()
        assert tree.find_best() is best
        assert tree.shared_keys == len(naive.chain())
        assert tree.working_set_keys == len(naive.working_set)
        assert (tree.num_active, tree.num_waiting) == (len(naive.active), len(naive.waiting))
        for request in naive.waiting.values():
            assert tree.missing(request.request_id) == naive.missing(request)


def test_it_forgets_what_nobody_holds() -> None:
    _, requests = random_requests(5)
    tree = tree_of(3)
    for request in requests:
        tree.insert(request)
        tree.add(request)
    for request in requests:
        tree.finish(request)
    assert not tree._nodes
    assert tree.working_set_keys == tree.shared_keys == 0
    assert tree.find_best() is None


def test_the_heap_stays_in_proportion_to_the_queue() -> None:
    workload = workload_of([Ask(0, 90, 1, (0,))] * 40, [(-1, 80)])
    requests = [Request(workload, k, 0.0, 90, 1, (0,), 10) for k in range(40)]
    tree = tree_of(10)
    for request in requests[1:]:
        tree.insert(request)
    for _ in range(100):
        tree.insert(requests[0])
        tree.add(requests[0])
        tree.finish(requests[0])
    assert len(tree._heap) <= 8 * 40 + 40
    best = tree.find_best()
    assert best is not None
    assert (best.request.request_id, best.missing) == (1, 9)


def test_missing_counts_of_the_published_example() -> None:
    # Active: A = 0 1 2 and B = 0 1 3, so S = {0, 1} and W = {0 .. 3}. r_W = 0 4 5 lacks one chunk
    # of S and two of W; r_S = 0 1 6 none and one.
    nodes = [(-1, 1), (0, 1), (1, 1), (1, 1), (0, 1), (4, 1), (1, 1)]
    paths = [(0, 1, 2), (0, 1, 3), (0, 4, 5), (0, 1, 6)]
    workload = workload_of([Ask(0, len(p), 1, p) for p in paths], nodes)
    a, b, r_w, r_s = (Request(workload, k, 0.0, len(p), 1, p) for k, p in enumerate(paths))
    tree = tree_of(1)
    for request in (a, b):
        tree.insert(request)
        tree.add(request)
    tree.insert(r_w)
    assert tree.find_best() == (r_w, 2, 2, 1, 1)
    tree.insert(r_s)
    assert tree.find_best() == (r_s, 1, 2, 2, 1)
    tree.add(r_s)
    assert tree.find_best() == (r_w, 2, 2, 1, 1)
    # With only A left its whole prompt is the chain.
    tree.finish(b)
    tree.finish(r_s)
    assert tree.find_best() == (r_w, 2, 3, 1, 1)
    tree.finish(a)
    assert tree.find_best() == (r_w, 3, 0, 3, 1)


def test_of_equals_the_earliest_arrival_is_best() -> None:
    tree = tree_of(50)
    for request_id, arrival_s in ((4, 2.0), (3, 1.0), (2, 1.0), (1, 3.0)):
        tree.insert(Request(None, request_id, arrival_s, 20, 1, (), 20))
    order = []
    while (best := tree.find_best()) is not None:
        order.append(best.request.request_id)
        tree.add(best.request)
    assert order == [2, 3, 4, 1]


@pytest.mark.parametrize("chunk_tokens", [0, -3, 1 << 21])
def test_chunk_sizes_out_of_range_are_refused(chunk_tokens: int) -> None:
    with pytest.raises(ConfigError, match=f"batching.chunk_tokens={chunk_tokens}: must be 1 to"):
        tree_of(chunk_tokens)


def test_operations_are_counted_per_key() -> None:
    # 90 tokens are 9 chunks, 8 of them shared.
    workload = workload_of([Ask(0, 90, 1, (0,))] * 2, [(-1, 80)])
    first, second = (Request(workload, k, 0.0, 90, 1, (0,), 10) for k in range(2))
    counts = OperationCounts()
    tree = ChunkedHashTree(10, counts)
    tree.insert(first)
    tree.insert(second)
    assert (counts.keys_hashed, counts.tokens_hashed) == (18, 180)
    assert (counts.node_visits, counts.heap_operations) == (18, 2)
    # Reference counts of 9 keys; 8 of them are the second one's, each with a new heap entry.
    tree.add(first)
    assert (counts.node_visits, counts.heap_operations) == (18 + 9 + 8, 2 + 8)
    assert counts.tokens_compared == 0


def test_operations_of_single_token_chunks_are_those_of_a_radix_tree() -> None:
    workload = workload_of([Ask(0, 90, 1, (0,))] * 2, [(-1, 80)])
    first, second = (Request(workload, k, 0.0, 90, 1, (0,), 10) for k in range(2))
    counts = OperationCounts()
    tree = ChunkedHashTree(1, counts)
    tree.insert(first)
    tree.insert(second)
    assert (counts.tokens_compared, counts.node_visits, counts.keys_hashed) == (180, 4, 0)
    tree.add(first)
    assert (counts.node_visits, counts.heap_operations) == (4 + 2 + 1, 2 + 1)
