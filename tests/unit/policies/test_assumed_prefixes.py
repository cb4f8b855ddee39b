"""What a router believes to be cached from what it sent: bounds on size and age, trimmed trees."""

from policies.routing.assumed_prefixes import AssumedPrefixes
from policies.routing.sent_tree import SentTree, prompt_nodes
from tests.unit.policies.prefix_clusters import prompt_of, sharing, view_of

NODES = [(-1, 40), (0, 24), (0, 8)]
PROMPTS = [(100, (0, 1)), (70, (0, 2)), (64, (0, 1))]


def test_whole_blocks_of_what_was_sent_match() -> None:
    a, b, c = sharing(NODES, PROMPTS)
    index, view = AssumedPrefixes(block_tokens=16), view_of(num_instances=2)
    assert index.matched_tokens(a, view, 0.0) == [0, 0]
    index.record(a, 1, 0.0)
    # Node 0 ends at 40, inside block 2, which belongs to node 1 or 2.
    assert index.matched_tokens(b, view, 1.0) == [0, 32]
    assert index.matched_tokens(c, view, 1.0) == [0, 64]


def test_the_first_blocks_of_the_oldest_prompt_go_first() -> None:
    a, b, c = sharing(NODES, PROMPTS)
    index, view = AssumedPrefixes(block_tokens=16, max_blocks=8), view_of(num_instances=1)
    index.record(a, 0, 0.0)  # 2 + 2 + 2 blocks
    index.record(prompt_of(32, 50), 0, 1.0)  # 8 blocks: full
    assert index.matched_tokens(c, view, 1.0) == [64]
    index.record(prompt_of(16, 51), 0, 2.0)  # block 0 of node 0 goes, and with it every match
    assert index.matched_tokens(c, view, 2.0) == [0]
    index.record(b, 0, 3.0)  # node 0 is whole again; its new blocks push out nodes 0, 1 of a
    assert index.matched_tokens(b, view, 3.0) == [48]
    assert index.matched_tokens(c, view, 3.0) == [32]


def test_what_is_used_again_is_kept() -> None:
    a, _, c = sharing(NODES, PROMPTS)
    index, view = AssumedPrefixes(block_tokens=16, max_blocks=8), view_of(num_instances=1)
    index.record(a, 0, 0.0)
    index.record(prompt_of(32, 50), 0, 1.0)
    index.record(c, 0, 2.0)  # uses the 4 shared blocks of a
    index.record(prompt_of(64, 51), 0, 3.0)  # pushes out the private rests
    assert index.matched_tokens(c, view, 3.0) == [64]


def test_blocks_beyond_the_first_ones_of_a_prompt_are_not_looked_at() -> None:
    a, _, c = sharing(NODES, PROMPTS)
    index, view = AssumedPrefixes(block_tokens=16, max_prompt_blocks=3), view_of(num_instances=1)
    assert (index.num_prompt_blocks(a), index.num_prompt_blocks(prompt_of(20))) == (3, 1)
    index.record(a, 0, 0.0)
    assert index.matched_tokens(c, view, 0.0) == [48]


def test_beyond_a_bound_on_all_instances_the_oldest_anywhere_go() -> None:
    index, view = AssumedPrefixes(block_tokens=16, max_total_blocks=10), view_of(num_instances=2)
    a, b, c = sharing(NODES, PROMPTS)
    index.record(a, 0, 0.0)  # 6 blocks
    index.record(b, 1, 1.0)  # 4 blocks: full
    assert index.matched_tokens(c, view, 1.0) == [64, 32]
    # 14 blocks; 8 are left: of a all 6 go.
    index.record(prompt_of(64, 50), 1, 2.0)
    assert index.matched_tokens(c, view, 2.0) == [0, 32]
    # 8 of instance 1, and 4 more on 0: the oldest 4 of instance 1 go.
    index.record(c, 0, 3.0)
    assert index.matched_tokens(c, view, 3.0) == [64, 0]


def test_what_is_older_than_its_time_to_live_does_not_match() -> None:
    a, b, c = sharing(NODES, PROMPTS)
    index, view = AssumedPrefixes(block_tokens=16, ttl_s=10.0), view_of(num_instances=1)
    index.record(a, 0, 0.0)
    assert index.matched_tokens(c, view, 10.0) == [64]
    index.record(b, 0, 9.0)  # node 0 is used again
    assert index.matched_tokens(c, view, 10.5) == [32]
    assert index.matched_tokens(c, view, 19.5) == [0]


def test_the_nodes_of_a_prompt_end_with_its_private_rest() -> None:
    a, _, c = sharing(NODES, PROMPTS)
    assert prompt_nodes(a) == [(0, 0, 40), (1, 40, 24), (-1, 64, 36)]
    assert prompt_nodes(c) == [(0, 0, 40), (1, 40, 24)]


def test_a_tree_loses_its_oldest_leaves_and_keeps_their_parents() -> None:
    a, b, c = sharing(NODES, PROMPTS)
    tree = SentTree()
    tree.add(a)
    tree.add(b)
    assert tree.num_tokens == 40 + 24 + 36 + 8 + 22
    assert tree.trim(130) == []
    assert (tree.matched_tokens(c), tree.matched_tokens(b)) == (64, 48)
    assert tree.trim(129) == [-1]
    assert tree.trim(80) == [1]
    assert (tree.matched_tokens(c), tree.matched_tokens(b)) == (40, 48)
    assert tree.trim(0) == [-2, 2, 0]
    assert tree.num_tokens == 0
