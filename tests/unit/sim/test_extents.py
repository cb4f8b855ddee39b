"""Extents and the free queue."""

import pytest

from sim.extents import ANONYMOUS, Extent, FreeQueue, private_owner


def owners(queue: FreeQueue) -> list[tuple[int, int]]:
    return [(extent.owner, extent.num_blocks) for extent in queue]


def test_the_queue_starts_empty() -> None:
    queue = FreeQueue()
    assert (list(queue), queue.num_blocks) == ([], 0)


def test_extents_leave_in_the_order_they_came() -> None:
    queue = FreeQueue()
    extents = [Extent(owner, 0, owner + 1) for owner in range(3)]
    for extent in extents:
        queue.append(extent)
    assert next(iter(queue)) is extents[0]
    assert owners(queue) == [(0, 1), (1, 2), (2, 3)]
    assert queue.num_blocks == 6
    assert all(extent.is_queued for extent in extents)


@pytest.mark.parametrize("index", [0, 1, 2])
def test_an_extent_can_be_removed_from_anywhere(index: int) -> None:
    queue = FreeQueue()
    extents = [Extent(owner, 0, 2) for owner in range(3)]
    for extent in extents:
        queue.append(extent)
    queue.remove(extents[index])
    assert owners(queue) == [(owner, 2) for owner in range(3) if owner != index]
    assert queue.num_blocks == 4
    assert not extents[index].is_queued
    queue.append(extents[index])
    assert owners(queue)[-1] == (index, 2)


def test_anonymous_neighbours_merge_and_others_keep_them_apart() -> None:
    queue = FreeQueue()
    queue.append_anonymous(2)
    queue.append_anonymous(3)
    queue.append(Extent(7, 0, 1))
    queue.append_anonymous(0)
    queue.append_anonymous(4)
    assert owners(queue) == [(ANONYMOUS, 5), (7, 1), (ANONYMOUS, 4)]
    assert queue.num_blocks == 10


def test_by_key_an_extent_goes_behind_the_last_key_that_is_not_larger() -> None:
    queue = FreeQueue()
    for owner, key in enumerate([5.0, 1.0, 5.0, 3.0, 1.0, 9.0]):
        extent = Extent(owner, 0, 1)
        extent.key = key
        queue.insert_by_key(extent)
    assert [owner for owner, _ in owners(queue)] == [1, 4, 3, 0, 2, 5]
    assert queue.num_blocks == 6


def test_the_split_off_tail_stands_in_front_and_the_count_stays() -> None:
    queue = FreeQueue()
    first, second = Extent(1, 0, 2), Extent(2, 0, 5)
    queue.append(first)
    queue.append(second)
    second.end = 3
    queue.place_before(Extent(2, 3, 5), second)
    assert [(e.first, e.end) for e in queue] == [(0, 2), (3, 5), (0, 3)]
    assert queue.num_blocks == 7


def test_private_owners_are_negative_distinct_and_not_anonymous() -> None:
    ids = [private_owner(request_id) for request_id in (0, 1, 2**40)]
    assert ids == [-1, -2, -1 - 2**40]
    assert ANONYMOUS not in ids


def test_an_extent_shows_what_it_is() -> None:
    assert repr(Extent(3, 1, 4, 2)) == "Extent(3, 1:4, 2 hashed, held by 0)"
