"""The prefix tree and its geometry in KV blocks."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.prefix_tree import NO_NODE, BlockGeometry, PrefixTree


def tree_of(parents: list[int], tokens: list[int]) -> PrefixTree:
    return PrefixTree.from_parents(np.array(parents, np.int64), np.array(tokens, np.int64))


def test_start_depths_follow_from_parents() -> None:
    tree = tree_of([NO_NODE, 0, 1, 0, NO_NODE], [5, 3, 2, 9, 4])
    assert tree.start_tokens.tolist() == [0, 5, 8, 5, 0]
    assert tree.end_tokens.tolist() == [5, 8, 10, 14, 4]
    assert tree.num_nodes == 5


def test_a_path_runs_from_the_root_down() -> None:
    tree = tree_of([NO_NODE, 0, 1, 0], [5, 3, 2, 9])
    assert tree.path_to(2) == (0, 1, 2)
    assert tree.path_to(3) == (0, 3)
    assert tree.path_to(NO_NODE) == ()


@pytest.mark.parametrize("parents", [[NO_NODE, 2, 0], [0], [NO_NODE, 1]])
def test_a_parent_must_come_before_its_child(parents: list[int]) -> None:
    with pytest.raises(ValueError, match=r"node \d: parent \d does not precede it"):
        tree_of(parents, [1] * len(parents))


def test_the_empty_tree_has_no_nodes() -> None:
    assert PrefixTree.empty().num_nodes == 0
    assert BlockGeometry.of(PrefixTree.empty(), 16).num_blocks == []


def test_a_block_belongs_to_the_node_that_holds_its_last_token() -> None:
    tree = tree_of([NO_NODE, 0, 1, 2], [6, 1, 2, 7])  # tokens 0-5, 6, 7-8, 9-15
    geometry = BlockGeometry.of(tree, 4)
    assert geometry.first_block == [0, 1, 1, 2]
    assert geometry.num_blocks == [1, 0, 1, 2]


@given(tokens=st.lists(st.integers(1, 40), min_size=1, max_size=8), block=st.integers(1, 20))
def test_along_a_path_every_full_block_has_exactly_one_owner(tokens: list[int], block: int) -> None:
    tree = tree_of([node - 1 for node in range(len(tokens))], tokens)
    geometry = BlockGeometry.of(tree, block)
    owners: list[int] = []
    for node, first in enumerate(geometry.first_block):
        assert first == len(owners)
        owners += [node] * geometry.num_blocks[node]
    token_owner = [node for node, count in enumerate(tokens) for _ in range(count)]
    assert owners == token_owner[block - 1 :: block]
