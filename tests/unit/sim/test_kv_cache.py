"""The KV cache played by hand: lookup, hold, take, name, release."""

import pytest

from sim.errors import InvariantError
from tests.unit.sim.pool import Pool

ROOT = -1


def test_one_block_is_the_null_block() -> None:
    pool = Pool(5)
    assert (pool.kv.num_usable_blocks, pool.kv.num_free) == (5, 5)


def test_a_lookup_changes_nothing() -> None:
    pool = Pool(10, [(ROOT, 12)])
    pool.serve(13, (0,))
    before = [repr(extent) for extent in pool.kv.queue]
    for _ in range(3):
        assert pool.could_hit(13, (0,)) == 3
    assert [repr(extent) for extent in pool.kv.queue] == before


def test_a_lookup_stops_at_its_limit_and_at_the_first_missing_block() -> None:
    pool = Pool(10, [(ROOT, 8), (0, 8), (0, 8)])
    pool.serve(16, (0, 1))
    assert pool.could_hit(17, (0, 1)) == 4
    assert pool.could_hit(16, (0, 1)) == 3
    assert pool.could_hit(5, (0, 1)) == 1
    assert pool.could_hit(17, (0, 2)) == 2


def test_a_node_without_a_block_of_its_own_does_not_stop_a_lookup() -> None:
    pool = Pool(10, [(ROOT, 6), (0, 1), (1, 5)])  # blocks end at 4, 8 and 12; node 1 has none
    pool.serve(12, (0, 1, 2))
    assert pool.could_hit(13, (0, 1, 2)) == 3
    assert pool.kv.shared_blocks_of((0, 1)) == 1
    assert pool.kv.shared_blocks_of((0, 1, 2)) == 3
    assert pool.kv.shared_blocks_of(()) == 0


def test_held_blocks_are_not_free_and_shared_ones_are_held_once() -> None:
    pool = Pool(10, [(ROOT, 8)])
    first, second = pool.request(9, (0,)), pool.request(9, (0,))
    assert (pool.admit(first), pool.kv.num_free) == (0, 7)
    assert (pool.admit(second), pool.kv.num_free) == (2, 6)
    pool.release(first)
    assert pool.kv.num_free == 7  # its private block
    pool.release(second)
    assert pool.kv.num_free == 10
    pool.check()


def test_blocks_are_taken_from_the_tail_of_what_was_released_first() -> None:
    pool = Pool(6, [(ROOT, 12), (ROOT, 12)])
    pool.serve(12, (0,))
    pool.serve(12, (1,))
    for taken, left in [(1, 2), (2, 1), (3, 0)]:
        pool.kv.take(1)
        assert pool.could_hit(13, (0,)) == left, taken
        assert pool.could_hit(13, (1,)) == 3
    pool.kv.take(2)
    assert pool.could_hit(13, (1,)) == 1


def test_a_request_releases_its_private_blocks_before_its_path_and_the_deepest_node_first() -> None:
    pool = Pool(6, [(ROOT, 8), (0, 8)])
    pool.serve(24, (0, 1))  # blocks: 2 of node 0, 2 of node 1, 2 private
    pool.kv.take(2)
    assert pool.could_hit(17, (0, 1)) == 4
    pool.kv.take(1)
    assert pool.could_hit(17, (0, 1)) == 3
    pool.kv.take(2)
    assert pool.could_hit(17, (0, 1)) == 1


def test_a_preempted_request_finds_its_private_blocks_and_a_finished_one_leaves_none() -> None:
    pool = Pool(8, [(ROOT, 8)])
    request = pool.request(20, (0,))
    pool.admit(request)
    pool.release(request, can_resume=True)
    assert pool.kv.lookup(request, 4)[1] == 4
    assert pool.admit(request) == 4
    pool.release(request)
    assert pool.kv.lookup(request, 4)[1] == 2


def test_private_blocks_of_others_are_never_found() -> None:
    pool = Pool(8)
    request, other = pool.request(20), pool.request(20)
    pool.admit(request)
    pool.release(request, can_resume=True)
    other.num_preemptions = 1
    assert pool.kv.lookup(other, 4)[1] == 0
    assert pool.kv.lookup(request, 4)[1] == 4


def test_private_blocks_of_finished_requests_merge_in_the_queue() -> None:
    pool = Pool(9)
    for _ in range(5):
        pool.serve(11)
    assert [extent.num_blocks for extent in pool.kv.queue] == [9]


def test_more_than_is_free_cannot_be_taken() -> None:
    pool = Pool(3)
    pool.kv.take(3)
    with pytest.raises(InvariantError, match="took 1 KV blocks of 0 free"):
        pool.kv.take(1)


def test_hits_that_are_evicted_last_one_first_leave_no_gap() -> None:
    pool = Pool(16, [(ROOT, 16), (0, 16)])
    pool.serve(32, (0, 1))
    hits, _ = pool.kv.lookup(pool.request(29, (0, 1)), 7)
    # 8 never used, then node 1 from its end and node 0 from its end
    assert pool.kv.blocks_before_gap(hits, 100) == 16
    assert pool.kv.blocks_before_gap(hits, 3) > 3


def test_a_gap_comes_where_an_earlier_hit_is_evicted_before_a_later_one() -> None:
    pool = Pool(20, [(ROOT, 16), (0, 16)])
    long, short = pool.request(32, (0, 1)), pool.request(16, (0,))
    pool.admit(long, num_tokens=1)
    pool.admit(short)  # its copy of node 0 is hashed first, and released first
    pool.go_on(long, 32)
    pool.release(short)
    pool.release(long)
    hits, _ = pool.kv.lookup(pool.request(31, (0, 1)), 7)
    assert [(hit.first, hit.end) for hit in hits] == [(0, 4), (0, 3)]
    assert pool.kv.blocks_before_gap(hits, 100) == 8  # those never used
    hits, _ = pool.kv.lookup(pool.request(12, (0,)), 2)
    assert pool.kv.blocks_before_gap(hits, 100) == 20


def test_a_gap_comes_where_an_extent_is_hit_in_two_places() -> None:
    pool = Pool(13, [(ROOT, 20)])
    first, short = pool.request(20, (0,)), pool.request(8, (0,))
    pool.admit(first, num_tokens=4)  # hashes block 0
    assert pool.admit(short) == 1  # and block 1 before the first one does
    pool.go_on(first, 20)
    pool.release(short)
    pool.release(first)
    hits, _ = pool.kv.lookup(pool.request(21, (0,)), 5)
    assert [(hit.first, hit.end) for hit in hits] == [(0, 1), (1, 2), (2, 5)]
    # 7 never used, then the copy of block 1 that is hit
    assert pool.kv.blocks_before_gap(hits, 100) == 7


def test_without_prefix_caching_released_blocks_are_anonymous() -> None:
    pool = Pool(9)
    request = pool.request(11)
    pool.kv.prefix_caching = False
    pool.admit(request)
    pool.release(request, can_resume=True)
    assert [extent.num_blocks for extent in pool.kv.queue] == [9]
    assert pool.kv.lookup(request, 2)[1] == 0
