"""The quad-tree over KV lengths against a naive recomputation."""

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.batching.aligned.length_tree import MAX_TOKENS, ROOT, LengthTree, Node

LENGTHS = st.one_of(
    st.integers(1, 40), st.sampled_from([4096, 4097, 16384, 16385, MAX_TOKENS, MAX_TOKENS + 9])
)
CHANGES = st.lists(
    st.tuples(st.sampled_from(["insert", "remove", "move"]), st.integers(0, 60), LENGTHS),
    max_size=80,
)
WIDTHS = st.sampled_from([1, 4, 16, MAX_TOKENS])


@dataclass(frozen=True)
class Naive:
    """A request; intervals are found by looking at all of them."""

    row: int
    num_tokens: int
    num_blocks: int
    since_s: float


def in_node(tree: LengthTree, pool: list[Naive], node: Node) -> list[Naive]:
    """Requests whose length lies in an interval."""
    low, high = tree.bounds(node)
    return [one for one in pool if low <= min(one.num_tokens, MAX_TOKENS) <= high]


def naive_densest(tree: LengthTree, pool: list[Naive], least: int) -> Node | None:
    """The search, by counting."""
    if len(pool) < least:
        return None
    node = ROOT
    while node.depth < tree.depth:
        sizes = [len(in_node(tree, pool, child)) for child in node.children]
        if max(sizes) < least:
            break
        node = node.children[sizes.index(max(sizes))]
    return node


def naive_order(tree: LengthTree, pool: list[Naive], node: Node) -> list[int]:
    """The densest part first, by counting."""
    members = in_node(tree, pool, node)
    if node.depth == tree.depth:
        return [one.row for one in sorted(members, key=lambda one: (one.since_s, one.row))]
    parts = sorted(node.children, key=lambda child: -len(in_node(tree, pool, child)))
    return [row for child in parts for row in naive_order(tree, members, child)]


def changed(tree: LengthTree, changes: list[tuple[str, int, int]]) -> list[Naive]:
    """Do the changes that are possible; what the pool then holds."""
    pool: dict[int, Naive] = {}
    for kind, row, num_tokens in changes:
        num_blocks = -(-num_tokens // 16)
        if kind == "insert" and row not in pool:
            pool[row] = Naive(row, num_tokens, num_blocks, float(row % 7))
            tree.insert(row, num_tokens, num_blocks, float(row % 7))
        elif kind == "remove" and row in pool:
            tree.remove(row)
            del pool[row]
        elif kind == "move" and row in pool:
            tree.move(row, num_tokens, num_blocks)
            pool[row] = Naive(row, num_tokens, num_blocks, pool[row].since_s)
    return list(pool.values())


def nodes_above(tree: LengthTree, pool: list[Naive]) -> list[Node]:
    """Every node that holds a request, and the siblings of the smallest ones."""
    found = {ROOT}
    for one in pool:
        leaf = Node(tree.depth, 0)
        width = MAX_TOKENS // 4**tree.depth
        leaf = Node(tree.depth, (min(one.num_tokens, MAX_TOKENS) - 1) // width)
        while leaf.depth:
            found |= set(leaf.parent.children)
            leaf = leaf.parent
    return sorted(found)


@settings(max_examples=60, deadline=None)
@given(WIDTHS, CHANGES, st.integers(1, 12))
def test_counts_search_and_orders_are_those_of_a_recount(
    width: int, changes: list[tuple[str, int, int]], least: int
) -> None:
    tree = LengthTree(width)
    pool = changed(tree, changes)
    assert len(tree) == len(pool)
    for node in nodes_above(tree, pool):
        members = in_node(tree, pool, node)
        assert tree.num_requests(node) == len(members)
        assert tree.num_blocks(node) == sum(one.num_blocks for one in members)
        assert all(tree.covers(node, one.num_tokens) == (one in members) for one in pool), (
            tree.bounds(node)
        )
        oldest = min(((one.since_s, one.row) for one in members), default=None)
        assert tree.oldest(node) == oldest
    assert tree.densest(least) == naive_densest(tree, pool, least)
    assert list(tree.by_density(ROOT)) == naive_order(tree, pool, ROOT)
    by_age = [one.row for one in sorted(pool, key=lambda one: (one.since_s, one.row))]
    assert list(tree.by_age()) == by_age


@pytest.mark.parametrize(("width", "depth"), [(1, 8), (4, 7), (16, 6), (MAX_TOKENS, 0)])
def test_every_level_splits_in_four(width: int, depth: int) -> None:
    tree = LengthTree(width)
    assert tree.depth == depth
    assert tree.bounds(ROOT) == (1, MAX_TOKENS)
    assert tree.bounds(Node(tree.depth, 0)) == (1, width)
