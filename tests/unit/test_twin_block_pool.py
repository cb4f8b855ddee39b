"""Twin: the block pool by itself."""

import pytest

from tests.twin.block_pool import BlockPool
from tests.twin.content import BlockKey, block_keys
from tests.twin.stories import Ask, workload_of

KEY: BlockKey = ("node", 7, 0)


def test_the_null_block_is_not_usable() -> None:
    pool = BlockPool(4)
    assert (pool.num_usable, pool.num_free) == (3, 3)
    assert pool.take(3) == [1, 2, 3]


def test_blocks_are_released_tail_first_and_taken_from_the_head() -> None:
    pool = BlockPool(5)
    pool.release(pool.take(3))
    assert pool.take(4) == [4, 3, 2, 1]


def test_a_taken_block_forgets_what_it_cached() -> None:
    pool = BlockPool(2)
    [block] = pool.take(1)
    pool.set_key(block, KEY)
    pool.release([block])
    assert pool.find(KEY) == block
    pool.take(1)
    assert pool.find(KEY) is None


def test_after_the_first_copy_is_gone_the_next_one_is_found() -> None:
    pool = BlockPool(4)
    blocks = pool.take(3)
    for block in (2, 1, 3):
        pool.set_key(block, KEY)
    assert pool.find(KEY) == 2
    pool.release([2])
    pool.take(1)
    assert blocks == [1, 2, 3]
    assert pool.find(KEY) == 1


def test_a_held_block_leaves_the_free_queue_once() -> None:
    pool = BlockPool(3)
    pool.release(pool.take(2))
    pool.hold(1)
    pool.hold(1)
    pool.release([1])
    assert pool.num_free == 1
    pool.release([1])
    assert pool.num_free == 2


def test_a_hit_ends_at_the_first_missing_block() -> None:
    pool = BlockPool(4)
    keys: list[BlockKey] = [("node", 0, position) for position in range(3)]
    first, _, third = pool.take(3)
    pool.set_key(first, keys[0])
    pool.set_key(third, keys[2])
    assert pool.longest_hit(keys) == [first]


def test_conservation_is_checked_on_both_sides() -> None:
    pool = BlockPool(4)
    held = pool.take(2)
    pool.check([held])
    with pytest.raises(AssertionError):
        pool.check([held, held])
    with pytest.raises(AssertionError):
        pool.release([3])
    pool = BlockPool(4)
    held = pool.take(1)
    pool.free_queue[held[0]] = None
    with pytest.raises(AssertionError, match="free and held"):
        pool.check([held])


def test_a_block_is_named_after_the_owner_of_its_last_token() -> None:
    nodes = [(-1, 6), (0, 4), (1, 7)]
    asks = [
        Ask(0, prompt=10, output=7, path=(0, 1), output_node=2),
        Ask(0, prompt=13, output=4, path=(0, 1)),
    ]
    workload = workload_of(asks, nodes)
    shared: list[BlockKey] = [("node", 0, 0), ("node", 1, 1)]
    assert block_keys(workload, 0, 4) == [*shared, ("node", 2, 2), ("node", 2, 3)]
    assert block_keys(workload, 1, 4) == [*shared, ("private", 1, 2), ("private", 1, 3)]


def test_an_output_node_must_hold_exactly_the_output() -> None:
    with pytest.raises(ValueError, match="output_node must hold exactly output_tokens"):
        workload_of([Ask(0, 4, 3, path=(0,), output_node=1)], [(-1, 4), (0, 2)])
