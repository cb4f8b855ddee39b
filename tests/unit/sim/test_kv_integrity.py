"""`check_integrity` sees every kind of corruption that a defect could leave behind."""

from collections.abc import Callable

import pytest

from sim.errors import InvariantError
from sim.extents import Extent
from tests.unit.sim.pool import Pool


@pytest.fixture
def pool() -> Pool:
    """Node 0 free, node 1 held."""
    pool = Pool(10, [(-1, 8), (-1, 8)])
    pool.serve(8, (0,))
    pool.admit(pool.request(9, (1,)))
    pool.check()
    return pool


def leak_a_block(pool: Pool) -> None:
    pool.kv.queue.num_blocks -= 1


def lose_a_free_block(pool: Pool) -> None:
    next(iter(pool.kv.queue)).end -= 1
    pool.kv.queue.num_blocks -= 1


def free_a_block_twice(pool: Pool) -> None:
    pool.kv.queue.append_anonymous(1)


def forget_to_count_a_held_block(pool: Pool) -> None:
    pool.running[0].num_blocks -= 1


def drop_a_hashed_extent(pool: Pool) -> None:
    last = list(pool.kv.queue)[-1]
    pool.kv.queue.remove(last)
    pool.kv.queue.append_anonymous(last.num_blocks)


def forget_a_hash(pool: Pool) -> None:
    list(pool.kv.queue)[-1].num_hashed = 0


def hold_without_a_holder(pool: Pool) -> None:
    pool.running[0].extents[0].holders.clear()


@pytest.mark.parametrize(
    ("corrupt", "message"),
    [
        (leak_a_block, "free queue holds 7 blocks, counter says 6"),
        (lose_a_free_block, "KV blocks: 6 free"),
        (free_a_block_twice, "8 free . 3 held != 10 usable"),
        (forget_to_count_a_held_block, "7 free . 2 held != 10 usable"),
        (drop_a_hashed_extent, "hash map of 0 holds a dead Extent"),
        (forget_a_hash, "hash map of 0 holds a dead Extent"),
        (hold_without_a_holder, "is held and free at once"),
    ],
)
def test_corruption_is_found(pool: Pool, corrupt: Callable[[Pool], None], message: str) -> None:
    corrupt(pool)
    with pytest.raises(InvariantError, match=message):
        pool.check()


def test_an_extent_that_is_free_and_held_is_found(pool: Pool) -> None:
    held: Extent = pool.running[0].extents[0]
    held.is_queued = True
    with pytest.raises(InvariantError, match="is held and free at once"):
        pool.check()
