"""Trees as histograms of (members, tokens)."""

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from hwmodels.kernels.prefix_batch import PrefixBatch
from sim.errors import ConfigError

TREE = ([-1, 0, 0, 1, 1, 2], [100, 20, 30, 1, 2, 3], [4, 2, 2, 1, 1, 1])
"""A root of four requests; node 2 ends one of its two."""


def histogram(batch: PrefixBatch) -> dict[int, int]:
    found: dict[int, int] = {}
    for members, tokens in zip(batch.members.tolist(), batch.tokens.tolist(), strict=True):
        if tokens:
            found[int(members)] = found.get(int(members), 0) + int(tokens)
    return found


def test_a_regular_tree_by_levels() -> None:
    batch = PrefixBatch.from_levels([1, 4, 8], [100, 10, 3])
    assert batch.batch_size == 8
    assert histogram(batch) == {8: 100, 2: 40, 1: 24}
    assert batch.context_tokens_sum == 8 * 113
    assert batch.unique_tokens == 164
    assert (batch.context_tokens_max, batch.sum_squares) == (113, 8 * 113**2)
    assert (batch.common_tokens, batch.num_partials) == (100, 24)


def test_leaves_that_do_not_divide_are_spread_evenly() -> None:
    batch = PrefixBatch.from_levels([3, 8], [10, 1])  # 3, 3 and 2 leaves
    assert histogram(batch) == {3: 20, 2: 10, 1: 8}
    assert batch.context_tokens_sum == 88


def test_one_level_shares_nothing_and_merges_nothing() -> None:
    batch = PrefixBatch.from_levels([256], [1024])
    assert histogram(batch) == {1: 256 * 1024}
    assert (batch.common_tokens, batch.num_partials) == (0, 0)


def test_any_tree_node_by_node() -> None:
    batch = PrefixBatch.from_tree(*TREE)
    assert batch.batch_size == 4
    assert histogram(batch) == {4: 100, 2: 50, 1: 6}
    contexts = [121, 122, 133, 130]
    assert batch.context_tokens_sum == sum(contexts)
    assert batch.context_tokens_max == 133
    assert batch.sum_squares == sum(tokens**2 for tokens in contexts)
    assert batch.num_partials == 3 + 3 + 3 + 2


def test_levels_and_nodes_describe_the_same_tree() -> None:
    one = PrefixBatch.from_levels([2, 4], [7, 3])
    other = PrefixBatch.from_tree([-1, -1, 0, 0, 1, 1], [7, 7, 3, 3, 3, 3], [2, 2, 1, 1, 1, 1])
    assert histogram(one) == histogram(other)
    names = ("batch_size", "context_tokens_max", "sum_squares", "num_partials")
    assert [getattr(one, name) for name in names] == [getattr(other, name) for name in names]


def test_a_request_alone_in_its_node_merges_nothing() -> None:
    assert PrefixBatch.from_tree([-1, -1], [5, 6], [1, 1]).num_partials == 0


def test_a_single_request_has_nothing_in_common() -> None:
    assert PrefixBatch.from_levels([1, 1], [100, 5]).common_tokens == 0


def test_the_common_prefix_can_be_cut_off() -> None:
    batch = PrefixBatch.from_levels([1, 1, 4], [64, 36, 3])
    assert batch.common_tokens == 100
    rest = batch.without_common(96)
    assert histogram(rest) == {4: 4, 1: 12}
    assert rest.context_tokens_sum == 4 * 7
    assert (rest.context_tokens_max, rest.sum_squares) == (7, 4 * 49)
    assert histogram(batch) == {4: 100, 1: 12}
    with pytest.raises(ConfigError, match="from 0 to the 100 common ones, found 101"):
        batch.without_common(101)


@dataclass(frozen=True)
class Tree:
    member_counts: dict[int, int]
    version: int = 0

    def node_tokens(self, node: int) -> int:
        return {0: 100, 1: 20, 2: 30}[node]

    def members_in_order(self) -> Sequence[object]:
        return []


@dataclass(frozen=True)
class View:
    tree: Tree | None
    num_requests: int = 4
    context_tokens: int = 506
    context_tokens_squared: int = 64114
    max_context_tokens: int = 133


def test_the_engines_batch_holds_the_same_numbers() -> None:
    batch = PrefixBatch.from_view(View(Tree({0: 4, 1: 2, 2: 2})))  # type: ignore[arg-type]
    assert histogram(batch) == {4: 100, 2: 50, 1: 6}
    assert batch.context_tokens_sum == 506
    assert (batch.context_tokens_max, batch.sum_squares) == (133, 64114)
    assert batch.num_partials == 4 + 2 + 2 + 4


def test_without_a_tree_nothing_is_shared() -> None:
    batch = PrefixBatch.from_view(View(None))  # type: ignore[arg-type]
    assert histogram(batch) == {1: 506}
    assert batch.num_partials == 0


@pytest.mark.parametrize(
    ("nodes", "tokens", "message"),
    [
        ([], [], "nodes_per_level must be a list of at least one number"),
        ([1, 2], [3], "equally long, found 2 and 1"),
        ([4, 2], [3, 3], "must not fall"),
        ([0, 2], [3, 3], "whole numbers of at least 1"),
        ([1, 2], [3, 1.5], "tokens_per_level must be whole numbers"),
    ],
)
def test_levels_that_make_no_tree(nodes: list[int], tokens: list[int], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        PrefixBatch.from_levels(nodes, tokens)


@pytest.mark.parametrize(
    ("parents", "tokens", "members", "message"),
    [
        ([-1, 1], [1, 1], [2, 1], "node 1: parent 1 does not precede it"),
        ([-1, 0, 0], [1, 1, 1], [2, 2, 1], r"node 0: its children have more members than it \(2\)"),
        ([-1], [1, 1], [1], "equally long, found 1, 2 and 1"),
        ([-1, 0], [1, 0], [1, 1], "node_tokens must be whole numbers"),
    ],
)
def test_nodes_that_make_no_forest(
    parents: list[int], tokens: list[int], members: list[int], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        PrefixBatch.from_tree(parents, tokens, members)
