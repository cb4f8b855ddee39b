"""Copies of one content, and extents that hits cut in two."""

from tests.unit.sim.pool import MostRecentlyUsed, Pool

ROOT = -1


def test_of_two_copies_the_one_hashed_first_is_hit() -> None:
    pool = Pool(9, [(ROOT, 8)])
    first, second = pool.request(8, (0,)), pool.request(8, (0,))
    pool.admit(first)
    assert pool.admit(second) == 1  # the cap leaves the second block to compute again
    pool.release(first)
    assert pool.kv.num_free == 7
    third = pool.request(9, (0,))
    # The copy of request 0 is free, that of request 1 is held: holding it costs a free block.
    assert pool.blocks_needed(third) == 2
    assert pool.admit(third) == 2
    assert pool.kv.num_free == 5
    pool.check()


def test_when_the_first_copy_is_evicted_the_next_one_is_hit() -> None:
    pool = Pool(3, [(ROOT, 8)])
    first, second = pool.request(8, (0,)), pool.request(8, (0,))
    pool.admit(first)
    pool.admit(second)
    pool.release(first)
    pool.kv.take(1)
    third = pool.request(9, (0,))
    assert pool.kv.lookup(third, 2)[1] == 2
    assert pool.blocks_needed(third) == 1


def test_a_hit_splits_a_free_extent_and_leaves_the_rest_free() -> None:
    pool = Pool(6, [(ROOT, 24)])
    pool.serve(24, (0,))
    reader = pool.request(12, (0,))
    assert pool.admit(reader) == 2  # and computes its third block anew
    assert pool.kv.num_free == 3
    pool.check()
    assert pool.could_hit(25, (0,)) == 5  # the tail went: one was taken
    pool.release(reader)
    pool.check()
    assert pool.kv.num_free == 6


def test_a_hit_splits_a_held_extent_for_all_its_holders() -> None:
    pool = Pool(12, [(ROOT, 16)])
    whole, part = pool.request(17, (0,)), pool.request(9, (0,))
    pool.admit(whole)
    assert len(whole.extents) == 1
    assert pool.admit(part) == 2
    assert [(e.first, e.end) for e in whole.extents] == [(0, 2), (2, 4)]
    assert part.extents[0] is whole.extents[0]
    assert whole.extents[0].holders == [whole, part]
    assert whole.extents[1].holders == [whole]
    pool.check()
    pool.release(whole)
    pool.check()
    assert pool.kv.num_free == 12 - 3
    assert pool.could_hit(17, (0,)) == 4


def test_an_extent_can_be_hit_in_two_places_of_one_lookup() -> None:
    pool = Pool(8, [(ROOT, 16)])
    old, new = pool.request(16, (0,)), pool.request(16, (0,))
    pool.admit(old)
    pool.admit(new)  # hits 0:3, computes a copy of the last block
    pool.release(old)
    pool.release(new)
    pool.kv.take(8 - 5)  # what was never used
    reader = pool.request(17, (0,))
    hits, num_hit = pool.kv.lookup(reader, 4)
    assert num_hit == 4
    assert [(hit.first, hit.end) for hit in hits] == [(0, 3), (3, 4)]
    pool.kv.hold(reader, hits)
    assert sum(extent.num_blocks for extent in reader.extents) == 4
    assert pool.kv.num_free == 1


def test_the_parts_of_a_split_copy_keep_its_place_among_the_copies() -> None:
    pool = Pool(30, [(ROOT, 24)])
    slow, quick = pool.request(24, (0,)), pool.request(24, (0,))
    pool.admit(slow, num_tokens=8)
    assert pool.admit(quick) == 2  # blocks 2-5 are hashed by the quick one first
    pool.go_on(slow, 24)
    assert pool.admit(pool.request(17, (0,))) == 4  # splits the quick one's blocks after 3
    pool.release(quick)
    # Blocks 4 and 5 are free in the first copy although the slow one holds a second copy.
    assert pool.blocks_needed(pool.request(25, (0,))) == 1 + 2
    pool.check()


def test_a_hit_ends_where_a_copy_that_was_hashed_earlier_begins() -> None:
    pool = Pool(16, [(ROOT, 24)], MostRecentlyUsed())
    filler, first, second = pool.request(24), pool.request(24, (0,)), pool.request(24, (0,))
    pool.admit(filler)
    pool.admit(first, num_tokens=8)
    assert pool.admit(second) == 2
    pool.release(second)
    pool.release(first)
    pool.kv.take(2)  # evicts blocks 0 and 1, released last; blocks 2-5 stay
    assert pool.could_hit(25, (0,)) == 0
    pool.release(filler)
    assert pool.admit(pool.request(24, (0,))) == 0  # in the blocks of the filler
    # Blocks 0 and 1 are held; of 2-5 the copy hashed first is free.
    assert pool.blocks_needed(pool.request(25, (0,))) == 1 + 4


def test_a_hit_in_the_middle_of_a_free_extent_leaves_its_tail_before_its_front() -> None:
    pool = Pool(12, [(ROOT, 24)])
    long, short = pool.request(24, (0,)), pool.request(8, (0,))
    pool.admit(long, num_tokens=1)
    assert pool.admit(short) == 0
    pool.go_on(long, 24)
    pool.release(long)
    assert pool.admit(pool.request(17, (0,))) == 4  # 0-1 of the short one, 2-3 of the long one
    pool.check()
    pool.kv.take(3)  # what was never used
    pool.kv.take(2)  # blocks 5 and 4 of the long one
    assert pool.could_hit(25, (0,)) == 4
    assert [(extent.first, extent.end) for extent in pool.kv.queue] == [(0, 2)]


def test_blocks_that_a_request_hashes_late_come_after_copies_hashed_before() -> None:
    pool = Pool(30, [(ROOT, 24)])
    other, slow = pool.request(24, (0,)), pool.request(24, (0,))
    pool.admit(other, num_tokens=1)
    assert pool.admit(slow, num_tokens=10) == 0  # hashes blocks 0 and 1
    pool.go_on(other, 24)
    pool.go_on(slow, 12)  # hashes block 2, after the other one did
    pool.release(other)
    assert pool.blocks_needed(pool.request(13, (0,))) == 1 + 1
    pool.check()
