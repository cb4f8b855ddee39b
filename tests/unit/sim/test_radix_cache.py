"""The radix cache of SGLang: sharing, locks, eviction by leaf and last access."""

import pytest

from sim.errors import InvariantError
from tests.unit.sim.radix_stories import Story

ROOTS = [(-1, 10), (-1, 20)]
CHAIN = [(-1, 10), (0, 5), (0, 7)]


def test_what_a_request_has_computed_can_be_hit_token_by_token() -> None:
    story = Story(100, CHAIN)
    story.serve(story.ask(18, path=(0, 1)))
    assert story.cached(story.ask(30, path=(0, 1))) == 15
    assert story.cached(story.ask(30, path=(0, 2))) == 10
    assert story.cached(story.ask(30)) == 0


def test_a_hit_leaves_the_last_token_of_the_prompt() -> None:
    story = Story(100, ROOTS)
    story.serve(story.ask(10, path=(0,)))
    assert story.serve(story.ask(10, path=(0,))) == 9


def test_private_tokens_are_found_by_nobody_else() -> None:
    story = Story(100)
    story.serve(story.ask(10))
    assert story.cached(story.ask(10)) == 0


def test_requests_of_one_batch_do_not_find_each_other_but_keep_one_copy() -> None:
    story = Story(100, ROOTS)
    first, second = story.ask(12, path=(0,)), story.ask(13, path=(0,))
    assert (story.prefill(first), story.prefill(second)) == (0, 0)
    assert story.kv.num_free_tokens == 75
    story.kv.cache_unfinished(first)
    assert story.kv.num_free_tokens == 75
    story.kv.cache_unfinished(second)
    assert story.kv.num_free_tokens == 85
    story.check()


def test_outputs_are_cached_at_the_end_only() -> None:
    story = Story(100, [(-1, 10), (0, 6)])
    writer = story.ask(10, 6, (0,))
    writer.kv_path = (0, 1)
    reader = story.ask(30, path=(0, 1))
    story.start(writer)
    story.decode(writer, 5)
    assert story.cached(reader) == 10
    story.end(writer)
    assert story.cached(reader) == 15


def test_the_leaf_met_longest_ago_is_evicted_first() -> None:
    story = Story(35, ROOTS)
    story.serve(story.ask(10, path=(0,)))
    story.serve(story.ask(20, path=(1,)))
    assert story.kv.num_free_tokens == 5
    story.serve(story.ask(6))
    assert story.cached(story.ask(30, path=(0,))) == 0
    assert story.cached(story.ask(30, path=(1,))) == 20


def test_a_match_is_an_access_and_a_lookup_is_none() -> None:
    story = Story(35, ROOTS)
    story.serve(story.ask(10, path=(0,)))
    story.serve(story.ask(20, path=(1,)))
    story.kv.match(story.ask(30, path=(0,)), 29)
    story.cached(story.ask(30, path=(1,)))
    story.serve(story.ask(6))
    assert story.cached(story.ask(30, path=(0,))) == 10
    assert story.cached(story.ask(30, path=(1,))) == 0


def test_leaves_go_before_the_tokens_above_them() -> None:
    story = Story(22, CHAIN)
    story.serve(story.ask(15, path=(0, 1)))
    story.serve(story.ask(17, path=(0, 2)))
    assert story.kv.num_free_tokens == 0
    story.kv.make_free(1)  # the node met first, (1), has 5 tokens
    assert story.kv.num_free_tokens == 5
    assert story.cached(story.ask(30, path=(0, 1))) == 10
    story.kv.make_free(6)  # then (2) with 7
    assert story.kv.num_free_tokens == 12
    assert story.cached(story.ask(30, path=(0, 2))) == 10
    story.kv.make_free(13)
    assert story.kv.num_free_tokens == 22


def test_as_many_tokens_are_evicted_as_are_needed_and_not_the_difference() -> None:
    story = Story(40)
    for _ in range(4):
        story.serve(story.ask(9))
    story.kv.make_free(4)
    assert story.kv.num_free_tokens == 4
    story.kv.make_free(10)  # two leaves of 9, although 6 tokens lack
    assert story.kv.num_free_tokens == 22


def test_what_a_running_request_holds_is_not_evicted() -> None:
    story = Story(40, ROOTS)
    holder = story.ask(12, path=(0,))
    story.start(holder)
    story.serve(story.ask(20, path=(1,)))
    story.kv.make_free(40)
    assert story.kv.num_free_tokens == 28
    assert story.cached(story.ask(30, path=(0,))) == 10
    story.end(holder)
    story.kv.make_free(40)
    assert story.kv.num_free_tokens == 40


def test_a_node_split_under_a_lock_stays_locked() -> None:
    story = Story(40, CHAIN)
    holder = story.ask(17, path=(0, 1))
    story.start(holder)
    story.kv.match(story.ask(30, path=(0, 2)), 29)
    story.check()
    story.kv.make_free(40)
    assert story.cached(story.ask(30, path=(0, 1))) == 15
    story.end(holder)


def test_a_retracted_request_loses_what_it_decoded_and_finds_its_prompt() -> None:
    story = Story(40, ROOTS)
    request = story.ask(12, 9, (0,))
    story.start(request)
    story.decode(request, 4)
    story.end(request, is_retracted=True)
    assert story.kv.num_free_tokens == 28
    assert story.start(request) == 12


def test_decode_steps_evict_one_by_one() -> None:
    story = Story(30)
    for _ in range(2):
        story.serve(story.ask(9))
    request = story.ask(2, 99)
    story.start(request)
    story.kv.step_tokens = 4  # of 10 free tokens 8 serve two steps, the third evicts 4 or more
    story.kv.take(12)
    assert (story.kv.num_free_tokens, story.kv.queue.num_blocks) == (7, 16)


def test_without_the_cache_nothing_stays() -> None:
    story = Story(40, ROOTS, prefix_caching=False)
    request = story.ask(12, 9, (0,))
    story.start(request)
    assert story.cached(story.ask(30, path=(0,))) == 0
    story.end(request)
    assert story.kv.num_free_tokens == 40


def test_taking_more_than_there_is_breaks_an_invariant() -> None:
    story = Story(10)
    with pytest.raises(InvariantError, match="2: took 11 KV tokens of 10 free"):
        story.kv.allocate(11)
    with pytest.raises(InvariantError, match="2: a decode step lacks KV tokens"):
        story.kv.take(11)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        ("free", "counter says"),
        ("count", "2: KV tokens"),
        ("lock", "is held by 1"),
        ("queue", "can never be evicted"),
    ],
)
def test_a_spoilt_cache_is_noticed(spoil: str, message: str) -> None:
    story = Story(40, ROOTS)
    story.serve(story.ask(20, path=(1,)))
    holder = story.ask(12, path=(0,))
    story.start(holder)
    kv = story.kv
    node = kv._held_nodes[holder.request_id]
    if spoil == "free":
        kv.num_free_tokens -= 1
    elif spoil == "count":
        kv.num_free_tokens -= 1
        kv.queue.num_blocks -= 1
    elif spoil == "lock":
        node.num_locks += 1
    else:
        kv._tree.root.children[1].is_queued = False
    with pytest.raises(InvariantError, match=message):
        story.check()
