"""Requests made from the columns of a workload, chunk by chunk."""

import numpy as np
import pytest

from sim.arrivals import requests_of
from sim.prefix_tree import NO_NODE, PrefixTree
from sim.workload import Workload

NUM_NODES = 50


def big(num_requests: int) -> Workload:
    """Paths of 0 to 3 nodes of a chain per request."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(0, 4, num_requests)
    tokens = rng.integers(1, 9, NUM_NODES)
    parents = [NO_NODE if node % 3 == 0 else node - 1 for node in range(NUM_NODES)]
    tree = PrefixTree.from_parents(np.array(parents), tokens)
    roots = 3 * rng.integers(0, NUM_NODES // 3, num_requests)
    paths = [list(range(root, root + n)) for root, n in zip(roots, lengths, strict=True)]
    shared = np.array([sum(int(tokens[node]) for node in path) for path in paths])
    workload = Workload(
        arrival_s=np.cumsum(rng.random(num_requests)),
        prompt_tokens=shared + rng.integers(1, 20, num_requests),
        output_tokens=rng.integers(1, 20, num_requests),
        path_offsets=np.append(0, np.cumsum(lengths)),
        path_nodes=np.array([node for path in paths for node in path], dtype=np.int64),
        tree=tree,
    )
    workload.validate()
    return workload


@pytest.mark.parametrize("num_requests", [1, 4095, 4096, 4097, 8192, 8200])
def test_every_row_becomes_a_request_across_chunk_borders(num_requests: int) -> None:
    workload = big(num_requests)
    requests = list(requests_of(workload))
    assert [r.request_id for r in requests] == list(range(num_requests))
    assert [r.arrival_s for r in requests] == workload.arrival_s.tolist()
    assert [r.prompt_tokens for r in requests] == workload.prompt_tokens.tolist()
    assert [r.output_tokens for r in requests] == workload.output_tokens.tolist()
    assert [r.path for r in requests] == [workload.path(row) for row in range(num_requests)]
    private = workload.prompt_tokens - workload.shared_tokens()
    assert [r.private_tokens for r in requests] == private.tolist()
    assert all(r.output_node == NO_NODE for r in requests)


def test_requests_are_made_as_they_come_due() -> None:
    stream = requests_of(big(5000))
    assert next(stream).request_id == 0
    assert next(stream).request_id == 1


def test_times_and_lengths_are_python_numbers() -> None:
    request = next(requests_of(big(3)))
    values = (request.arrival_s, request.prompt_tokens, request.output_tokens)
    assert [type(value) for value in values] == [float, int, int]
    assert all(type(node) is int for node in request.path)


def test_outputs_are_cut_at_max_model_len_but_never_below_one_token() -> None:
    workload = Workload.without_sharing(
        np.zeros(4), np.array([5, 9, 10, 30]), np.array([3, 3, 3, 3])
    )
    cut = [request.output_tokens for request in requests_of(workload, max_model_len=10)]
    assert cut == [3, 1, 1, 1]
    assert [request.output_tokens for request in requests_of(workload)] == [3, 3, 3, 3]


def test_output_nodes_are_handed_on() -> None:
    workload = Workload(
        arrival_s=np.zeros(2),
        prompt_tokens=np.array([4, 3]),
        output_tokens=np.array([2, 1]),
        path_offsets=np.array([0, 1, 1]),
        path_nodes=np.array([0]),
        tree=PrefixTree.from_parents(np.array([NO_NODE, 0]), np.array([4, 2])),
        output_node=np.array([1, NO_NODE]),
    )
    first, second = requests_of(workload)
    assert (first.output_node, first.kv_path, first.private_tokens) == (1, (0, 1), 0)
    assert (second.output_node, second.kv_path, second.private_tokens) == (NO_NODE, (), 3)


def test_no_rows_give_no_requests() -> None:
    nothing = np.empty(0, dtype=np.int64)
    workload = Workload.without_sharing(np.empty(0), nothing, nothing)
    assert list(requests_of(workload)) == []
