"""KV blocks one by one: a free queue, reference counts, and which block holds which content.

Source: vLLM v1, vllm/v1/core/block_pool.py and kv_cache_utils.py (behaviour only).
"""

from collections import OrderedDict
from collections.abc import Sequence

from tests.twin.content import BlockKey


class BlockPool:
    """All usable KV blocks of an instance, numbered from 1 (block 0 is vLLM's null block)."""

    def __init__(self, num_gpu_blocks: int) -> None:
        self.num_usable = num_gpu_blocks - 1
        blocks = range(1, num_gpu_blocks)
        self.free_queue: OrderedDict[int, None] = OrderedDict.fromkeys(blocks)
        self.num_holders: dict[int, int] = dict.fromkeys(blocks, 0)
        self.key_of: dict[int, BlockKey] = {}
        # The inner dict is an ordered set: copies of one content in the order of hashing.
        self.copies: dict[BlockKey, dict[int, None]] = {}

    @property
    def num_free(self) -> int:
        return len(self.free_queue)

    def find(self, key: BlockKey) -> int | None:
        """The copy of `key` that was hashed first, or None. Changes nothing."""
        return next(iter(self.copies.get(key, ())), None)

    def longest_hit(self, keys: Sequence[BlockKey]) -> list[int]:
        """Blocks that hold `keys` from the first on, up to the first one missing."""
        hits: list[int] = []
        for key in keys:
            block = self.find(key)
            if block is None:
                break
            hits.append(block)
        return hits

    def is_free(self, block: int) -> bool:
        return self.num_holders[block] == 0

    def hold(self, block: int) -> None:
        """One more holder of a cached block; takes it out of the free queue if it lay there."""
        if self.is_free(block):
            del self.free_queue[block]
        self.num_holders[block] += 1

    def take(self, num_blocks: int) -> list[int]:
        """New blocks from the head of the free queue; what they cached is forgotten."""
        taken = []
        for _ in range(num_blocks):
            block, _none = self.free_queue.popitem(last=False)
            assert self.num_holders[block] == 0
            self._forget(block)
            self.num_holders[block] = 1
            taken.append(block)
        return taken

    def set_key(self, block: int, key: BlockKey) -> None:
        """Make a held block findable under `key`."""
        assert block not in self.key_of, f"block {block} is hashed twice"
        assert not self.is_free(block)
        self.key_of[block] = key
        self.copies.setdefault(key, {})[block] = None

    def release(self, blocks: Sequence[int]) -> None:
        """One holder less, tail first; a block without holders joins the tail of the free queue."""
        for block in reversed(blocks):
            self.num_holders[block] -= 1
            assert self.num_holders[block] >= 0
            if self.num_holders[block] == 0:
                self.free_queue[block] = None

    def check(self, held_by_requests: Sequence[Sequence[int]]) -> None:
        """Assert that every block is either free or held, by exactly the given requests."""
        counted = dict.fromkeys(self.num_holders, 0)
        for blocks in held_by_requests:
            for block in blocks:
                counted[block] += 1
        assert counted == self.num_holders
        held = {block for block, count in counted.items() if count > 0}
        assert held.isdisjoint(self.free_queue), "a block is both free and held"
        assert len(held) + self.num_free == self.num_usable

    def _forget(self, block: int) -> None:
        key = self.key_of.pop(block, None)
        if key is None:
            return
        del self.copies[key][block]
        if not self.copies[key]:
            del self.copies[key]
