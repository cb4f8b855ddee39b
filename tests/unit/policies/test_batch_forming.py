"""Which requests make a batch, by hand."""

from policies.batching.aligned.forming import Batch, BatchForming
from policies.batching.aligned.length_tree import ROOT, LengthTree, Node


def pool(*lengths: int, leaf_tokens: int = 1) -> LengthTree:
    """Requests in order of age, a block per 10 tokens."""
    tree = LengthTree(leaf_tokens)
    for row, num_tokens in enumerate(lengths):
        tree.insert(row, num_tokens, -(-num_tokens // 10), float(row))
    return tree


def test_the_densest_interval_with_enough_requests_gives_the_batch() -> None:
    # 1-4 holds 2 requests, 5-8 holds 3, 49-52 holds 1; 1-16 holds 5.
    tree = pool(1, 50, 5, 6, 2, 7)
    assert BatchForming(tree, k_min=3).form(100, 0.0) == Batch((2, 3, 5), Node(7, 1), True)


def test_an_interval_whose_children_hold_too_few_is_taken_densest_part_first() -> None:
    tree = pool(1, 50, 5, 6, 2, 7)
    assert BatchForming(tree, k_min=4).form(100, 0.0) == Batch((2, 3, 5, 0, 4), Node(6, 0), True)


def test_a_batch_ends_before_the_request_that_exceeds_its_blocks() -> None:
    tree = pool(1, 50, 5, 6, 2, 7)
    assert BatchForming(tree, k_min=4).form(4, 0.0).rows == (2, 3, 5, 0)


def test_the_first_request_is_taken_whatever_its_size() -> None:
    assert BatchForming(pool(500, 5), k_min=3).form(4, 0.0).rows == (0,)


def test_a_pool_without_enough_requests_gives_the_oldest() -> None:
    tree = pool(7, 900, 8)
    assert BatchForming(tree, k_min=4).form(1000, 0.0) == Batch((0, 1, 2), ROOT, False)


def test_two_equal_intervals_give_the_shorter_one() -> None:
    assert BatchForming(pool(60, 61, 3, 4), k_min=2).form(100, 0.0).rows == (2, 3)


def test_lengths_may_be_ignored() -> None:
    tree = pool(1, 50, 5, 6, 2, 7)
    blind = BatchForming(tree, k_min=3, length_aware=False)
    assert blind.form(8, 0.0) == Batch((0, 1, 2, 3), ROOT, False)


def test_a_batch_may_go_on_with_the_intervals_around_its_own() -> None:
    tree = pool(1, 50, 5, 6, 2, 7)
    wide = BatchForming(tree, k_min=3, fills="widen")
    assert wide.form(100, 0.0) == Batch((2, 3, 5, 0, 4, 1), Node(7, 1), True)
    assert wide.form(5, 0.0).rows == (2, 3, 5, 0, 4)


def test_whoever_has_waited_too_long_goes_first() -> None:
    tree = pool(900, 5, 6, 7)
    bound = BatchForming(tree, k_min=3, max_wait_s=10.0)
    assert not bound.has_overdue(10.0)
    assert bound.form(1000, 10.0).rows == (1, 2, 3)
    assert bound.has_overdue(10.5)
    assert bound.form(1000, 10.5) == Batch((0, 1, 2, 3), ROOT, False)


def test_the_oldest_of_an_interval_tops_up() -> None:
    tree = pool(900, 5, 6, 7)
    forming = BatchForming(tree, k_min=3)
    assert forming.next_top_up(Node(7, 1)) == 1
    assert forming.next_top_up(ROOT) == 0
    assert forming.next_top_up(Node(7, 2)) is None
