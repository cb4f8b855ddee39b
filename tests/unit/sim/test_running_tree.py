"""Member counts of the running prefix tree."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.interfaces import DecodeBatchView, PrefillChunk
from sim.prefix_tree import PrefixTree
from sim.request import DECODING, PREFILLING, Request
from sim.running_tree import RunningPrefixTree
from tests.engine_runs import ConstantCost, run_engine
from tests.twin.stories import Ask, workload_of
from tests.twin.workloads import random_workload

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


def test_the_version_grows_with_every_change_of_what_is_shared() -> None:
    tree = RunningPrefixTree(small_tree(), {})
    versions = [tree.version]
    for change in (tree.add, tree.add, tree.add, tree.remove, tree.remove, tree.remove):
        change((0,))
        versions.append(tree.version)
    assert versions == [0, 0, 1, 2, 3, 4, 4]


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
        shared = {node: count for node, count in counts.items() if count > 1}
        assert dict(tree.member_counts) == shared
        by_members: dict[int, int] = {}
        for node, count in shared.items():
            by_members[count] = by_members.get(count, 0) + tree.node_tokens(node)
        assert dict(tree.tokens_by_members) == by_members
        assert tree.shared_tokens == sum(by_members.values())
        assert tree.path_tokens == sum(n * tokens for n, tokens in by_members.items())
        assert tree.num_pairs == sum(shared.values())


def test_members_are_the_decoding_requests_in_running_order() -> None:
    requests = {i: Request(None, i, 0.0, 4, 4) for i in (5, 2, 9)}
    requests[5].phase = requests[9].phase = DECODING
    requests[2].phase = PREFILLING
    tree = RunningPrefixTree(small_tree(), requests)
    assert [request.request_id for request in tree.members_in_order()] == [5, 9]


class Running:
    """Running requests of an instance and their tree, told as the engine tells it."""

    def __init__(self) -> None:
        self.requests: dict[int, Request] = {}
        self.tree = RunningPrefixTree(small_tree(), self.requests)

    def admit(self, request_id: int, path: tuple[int, ...], output_node: int = -1) -> None:
        request = Request(None, request_id, 0.0, 4, 4, path, output_node=output_node)
        self.requests[request_id] = request
        self.tree.hold(request)

    def leave(self, request_id: int) -> None:
        self.tree.release(self.requests.pop(request_id))


def test_common_tokens_count_every_running_request_also_one_that_prefills() -> None:
    running = Running()
    running.admit(1, (0, 1))
    assert running.tree.common_tokens == 0  # a single one shares with nobody
    running.admit(2, (0, 1, 2))
    assert running.tree.common_tokens == 107
    running.tree.add((0, 1))  # who decodes makes no difference
    assert running.tree.common_tokens == 107
    running.admit(3, (0, 3))
    assert running.tree.common_tokens == 100
    running.admit(4, ())
    assert running.tree.common_tokens == 0
    running.leave(4)
    assert running.tree.common_tokens == 100
    running.leave(3)
    assert running.tree.common_tokens == 107
    running.leave(1)
    assert running.tree.common_tokens == 0


def test_common_tokens_asked_for_late_count_those_who_came_and_left_before() -> None:
    running = Running()
    for request_id, path in enumerate(((0, 1), (), (0, 1, 2), (0, 3))):
        running.admit(request_id, path)
    running.leave(1)
    running.leave(3)
    assert running.tree.common_tokens == 107
    running.leave(0)
    running.admit(9, (0, 3))
    assert running.tree.common_tokens == 100


@pytest.mark.parametrize("is_asked_early", [False, True])
def test_common_tokens_leave_out_the_output_that_requests_write(is_asked_early: bool) -> None:
    running = Running()
    if is_asked_early:
        assert running.tree.common_tokens == 0
    running.admit(3, (0, 1, 2))  # its prompt continues what the others write
    running.admit(1, (0, 1), output_node=2)
    running.admit(2, (0, 1), output_node=2)
    assert running.tree.common_tokens == 107
    running.leave(3)
    assert running.tree.common_tokens == 107


@given(changes=st.lists(st.integers(0, 99), max_size=40), asked=st.integers(0, 3))
def test_common_tokens_equal_those_counted_afresh(changes: list[int], asked: int) -> None:
    running = Running()
    for number, change in enumerate(changes):
        if running.requests and change % 3 == 0:
            running.leave(list(running.requests)[change % len(running.requests)])
        else:
            running.admit(number, PATHS[change % len(PATHS)])
        if number % 4 < asked:
            continue
        paths = [request.path for request in running.requests.values()]
        common = 0
        for level in range(min(map(len, paths), default=0)):
            nodes = {path[level] for path in paths}
            if len(nodes) > 1 or len(paths) < 2:
                break
            common += running.tree.node_tokens(nodes.pop())
        assert running.tree.common_tokens == common


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


class CommonWatcher(ConstantCost):
    """Notes what all running requests share whenever it prices a step, from a step on."""

    uses_prefix_tree = True

    def __init__(self, first_step: int = 0) -> None:
        super().__init__()
        self.first_step = first_step
        self.seen: list[int] = []

    def note(self, batch):  # type: ignore[no-untyped-def]
        is_late = len(self.seen) >= self.first_step
        self.seen.append(batch.tree.common_tokens if is_late else -1)
        return self.step_s

    def decode_step_s(self, batch):  # type: ignore[no-untyped-def]
        return self.note(batch)  # type: ignore[no-untyped-call]

    def mixed_step_s(self, batch, chunks):  # type: ignore[no-untyped-def]
        return self.note(batch)  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("first_step", [0, 3])
def test_in_the_engine_common_tokens_end_with_a_request_of_another_group(first_step: int) -> None:
    cost = CommonWatcher(first_step)
    nodes = [(-1, 4), (0, 4), (-1, 8)]
    # One of another group comes in step 4 and prefills in step 5, which gives its only token; of
    # the first two one ends with step 9 and leaves the other alone.
    asks = [Ask(0, 9, 12, (0, 1)), Ask(0, 10, 9, (0, 1)), Ask(3.5, 12, 1, (2,))]
    run_engine(workload_of(asks, nodes), cost=cost, macro_steps=False)
    assert cost.seen[first_step:] == [8, 8, 8, 8, 0, 8, 8, 8, 8, 0, 0, 0][first_step:]


def test_in_the_engine_what_the_others_share_is_common_once_a_request_is_preempted() -> None:
    cost = CommonWatcher()
    asks = [Ask(0, 8, 8, (0,)), Ask(0, 8, 8, (0,)), Ask(0, 8, 8)]
    result = run_engine(
        workload_of(asks, [(-1, 4)]), cost=cost, macro_steps=False, usable_blocks=10
    )
    assert result.requests.num_preemptions.tolist() == [0, 0, 1]
    # Preempted in step 6, and back when the other two have ended with step 8.
    assert cost.seen == [0] * 5 + [4] * 3 + [0] * (len(cost.seen) - 8)


class Recounter(ConstantCost):
    """Counts the tree afresh whenever it prices a step, from the so-manieth on."""

    uses_prefix_tree = True

    def __init__(self, first_step: int) -> None:
        super().__init__(0.01)
        self.steps_left = first_step

    def recount(self, batch: DecodeBatchView) -> float:
        self.steps_left -= 1
        tree = batch.tree
        if tree is None:  # the workload shares nothing
            return self.step_s
        assert isinstance(tree, RunningPrefixTree)
        if self.steps_left >= 0:
            return self.step_s
        paths = [request.prompt_nodes for request in tree._running.values()]
        common = 0
        for nodes in zip(*paths, strict=False):
            if len(paths) < 2 or len(set(nodes)) > 1:
                break
            common += tree.node_tokens(nodes[0])
        assert tree.common_tokens == common
        decoding = Counter(n for r in tree.members_in_order() for n in r.prompt_nodes)
        shared = {node: count for node, count in decoding.items() if count > 1}
        assert dict(tree.member_counts) == shared
        tokens = [(count, tree.node_tokens(node)) for node, count in shared.items()]
        assert tree.shared_tokens == sum(own for _, own in tokens)
        assert tree.path_tokens == sum(count * own for count, own in tokens)
        return self.step_s

    def decode_step_s(self, batch: DecodeBatchView) -> float:
        return self.recount(batch)

    def mixed_step_s(self, batch: DecodeBatchView, chunks: Sequence[PrefillChunk]) -> float:
        return self.recount(batch)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    structured=st.booleans(),
    is_async=st.booleans(),
    first_step=st.sampled_from([0, 9, 40]),
)
def test_in_the_engine_the_tree_equals_one_counted_afresh_in_every_step(
    seed: int, structured: bool, is_async: bool, first_step: int
) -> None:
    workload, limits = random_workload(seed, structured=structured, step_s=0.01)
    run_engine(
        workload,
        cost=Recounter(first_step),
        is_async=is_async,
        macro_steps=False,
        usable_blocks=limits["num_gpu_blocks"] - 1,
        seats=limits["max_num_seqs"],
        budget=limits["max_num_batched_tokens"],
        block_tokens=16,
    )
