"""Member counts of the running prefix tree."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sim.prefix_tree import PrefixTree
from sim.request import DECODING, PREFILLING, Request
from sim.running_tree import RunningPrefixTree
from tests.engine_runs import ConstantCost, run_engine
from tests.twin.stories import Ask, workload_of

PATHS = [(), (0,), (0, 1), (0, 1, 2), (0, 3)]


def small_tree() -> PrefixTree:
    return PrefixTree.from_parents(np.array([-1, 0, 1, 0]), np.array([100, 7, 9, 20]))


def test_nodes_of_one_request_are_left_out() -> None:
    tree = RunningPrefixTree(small_tree(), {})
    tree.add((0, 1))
    assert dict(tree.member_counts) == {}
    tree.add((0, 3))
    assert dict(tree.member_counts) == {0: 2}
    tree.add((0, 1, 2))
    assert dict(tree.member_counts) == {0: 3, 1: 2}
    tree.remove((0, 1))
    assert dict(tree.member_counts) == {0: 2}
    tree.remove((0, 3))
    assert dict(tree.member_counts) == {}
    assert tree.node_tokens(3) == 20


def test_the_version_grows_with_every_change() -> None:
    tree = RunningPrefixTree(small_tree(), {})
    versions = [tree.version]
    for change in (tree.add, tree.add, tree.remove, tree.remove):
        change((0,))
        versions.append(tree.version)
    assert versions == sorted(set(versions))


@given(changes=st.lists(st.integers(0, 99), max_size=40))
def test_counts_equal_those_counted_afresh(changes: list[int]) -> None:
    tree = RunningPrefixTree(small_tree(), {})
    inside: list[tuple[int, ...]] = []
    for change in changes:
        if inside and change % 2:
            tree.remove(inside.pop(change % len(inside)))
        else:
            inside.append(PATHS[change % len(PATHS)])
            tree.add(inside[-1])
        counts = {node: sum(node in path for path in inside) for node in range(4)}
        assert dict(tree.member_counts) == {n: c for n, c in counts.items() if c > 1}


def test_members_are_the_decoding_requests_in_running_order() -> None:
    requests = {i: Request(None, i, 0.0, 4, 4) for i in (5, 2, 9)}
    requests[5].phase = requests[9].phase = DECODING
    requests[2].phase = PREFILLING
    tree = RunningPrefixTree(small_tree(), requests)
    assert [request.request_id for request in tree.members_in_order()] == [5, 9]


class TreeWatcher(ConstantCost):
    """Notes the shared nodes of every decode run that it prices."""

    uses_prefix_tree = True

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[int, dict[int, int], list[int]]] = []

    def decode_step_s(self, batch):  # type: ignore[no-untyped-def]
        order = [request.request_id for request in batch.tree.members_in_order()]
        self.seen.append((batch.num_requests, dict(batch.tree.member_counts), order))
        return self.step_s


def test_a_cost_model_sees_the_tree_of_those_that_decode_in_the_step() -> None:
    cost = TreeWatcher()
    asks = [Ask(0, 9, 4, (0,)), Ask(0, 9, 3, (0,)), Ask(1, 9, 2, (0, 1))]
    nodes = [(-1, 4), (0, 4)]
    run_engine(workload_of(asks, nodes), cost=cost, macro_steps=False)
    # Step 2 is mixed; step 3 decodes all three, step 4 the first one alone.
    assert cost.seen == [(3, {0: 3}, [0, 1, 2]), (1, {}, [0])]
