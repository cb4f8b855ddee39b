"""Which of the free physical blocks the next one taken is.

The order decides how scattered the blocks of a request lie, and so how few copies gather them.
"""

from abc import abstractmethod
from collections import deque
from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from typing import Protocol

from sim.errors import ConfigError


class FreeBlocks(Protocol):
    """The free blocks of a pool, at first all of them.

    Args:
        num_blocks: blocks of the pool, numbered from 0.
    """

    @abstractmethod
    def __init__(self, num_blocks: int) -> None: ...

    @abstractmethod
    def __len__(self) -> int:
        """Free blocks."""

    @abstractmethod
    def take(self) -> int:
        """Take the next block; there is one."""

    @abstractmethod
    def give(self, block: int) -> None:
        """Give a block back, which is not free."""


class LowestFirst(FreeBlocks):
    """The block with the lowest number, which keeps blocks in use together."""

    def __init__(self, num_blocks: int) -> None:
        self._fresh = 0  # blocks from here on have never been taken
        self._num_blocks = num_blocks
        self._freed: list[int] = []
        heapify(self._freed)

    def __len__(self) -> int:
        return self._num_blocks - self._fresh + len(self._freed)

    def take(self) -> int:
        """Take the lowest block; freed ones are all below those never taken."""
        if self._freed:
            return heappop(self._freed)
        self._fresh += 1
        return self._fresh - 1

    def give(self, block: int) -> None:
        """Give a block back."""
        heappush(self._freed, block)


class NewestFirst(FreeBlocks):
    """The block freed last (a stack)."""

    def __init__(self, num_blocks: int) -> None:
        self._stack = list(range(num_blocks - 1, -1, -1))

    def __len__(self) -> int:
        return len(self._stack)

    def take(self) -> int:
        """Take the block on top."""
        return self._stack.pop()

    def give(self, block: int) -> None:
        """Put a block on top."""
        self._stack.append(block)


class OldestFirst(FreeBlocks):
    """The block that has been free longest (a queue, as vLLM's)."""

    def __init__(self, num_blocks: int) -> None:
        self._queue = deque(range(num_blocks))

    def __len__(self) -> int:
        return len(self._queue)

    def take(self) -> int:
        """Take the block in front."""
        return self._queue.popleft()

    def give(self, block: int) -> None:
        """Put a block at the end."""
        self._queue.append(block)


ALLOCATORS: dict[str, type[FreeBlocks]] = {
    "lowest_first": LowestFirst,
    "newest_first": NewestFirst,
    "oldest_first": OldestFirst,
}
"""Orders by name."""


def free_blocks(allocator: str, num_blocks: int) -> FreeBlocks:
    """All blocks of a pool, free.

    Raises:
        ConfigError: there is no such order.
    """
    check_allocator(allocator)
    return ALLOCATORS[allocator](num_blocks)


def check_allocator(allocator: object) -> None:
    """Check the name of an order.

    Raises:
        ConfigError: there is none of that name.
    """
    if allocator not in ALLOCATORS:
        raise ConfigError(f"executor.allocator={allocator}: must be one of {', '.join(ALLOCATORS)}")


def all_taken(blocks: FreeBlocks, count: int) -> list[int]:
    """Take `count` blocks, of which there are as many."""
    return [blocks.take() for _ in range(count)]


def give_all(blocks: FreeBlocks, freed: Iterable[int]) -> None:
    """Give blocks back in that order."""
    for block in freed:
        blocks.give(block)
