"""A KV cache played by hand, and the pool of single blocks that it must behave like."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from sim.extents import ANONYMOUS, Extent
from sim.interfaces import EvictionPolicy
from sim.kv_cache import KvCache
from sim.prefix_tree import BlockGeometry, PrefixTree
from sim.request import Request

BLOCK = 4
"""Tokens per block."""


def tree_of(nodes: Sequence[tuple[int, int]]) -> PrefixTree:
    """Tree of (parent, tokens)."""
    parents, tokens = zip(*nodes, strict=True) if nodes else ((), ())
    return PrefixTree.from_parents(np.array(parents, np.int64), np.array(tokens, np.int64))


class Pool:
    """A KvCache with the calls an engine makes for one request at a time."""

    def __init__(
        self,
        usable_blocks: int,
        nodes: Sequence[tuple[int, int]] = (),
        eviction: EvictionPolicy | None = None,
    ) -> None:
        geometry = BlockGeometry.of(tree_of(nodes), BLOCK)
        self.kv = KvCache(usable_blocks + 1, geometry, eviction=eviction)
        self.running: list[Request] = []
        self._next_id = 0

    def request(self, prompt: int, path: tuple[int, ...] = ()) -> Request:
        """A request that asks for `prompt` tokens."""
        request = Request(None, self._next_id, 0.0, prompt, 1, path)
        request.shared_blocks = self.kv.shared_blocks_of(request.kv_path)
        self._next_id += 1
        return request

    def blocks_needed(self, request: Request) -> int:
        """Free blocks that admission takes."""
        hits, num_hit = self.kv.lookup(request, (request.prompt_tokens - 1) // BLOCK)
        queued = sum(hit.end - hit.first for hit in hits if hit.extent.is_queued)
        return -(-request.prompt_tokens // BLOCK) - num_hit + queued

    def admit(self, request: Request, num_tokens: int | None = None) -> int:
        """Prefill a request up to `num_tokens` or whole; returns the blocks it hit."""
        hits, num_hit = self.kv.lookup(request, (request.prompt_tokens - 1) // BLOCK)
        self.kv.hold(request, hits)
        request.num_blocks = num_hit
        self.running.append(request)
        tokens = request.prompt_tokens if num_tokens is None else num_tokens
        self.go_on(request, max(tokens, num_hit * BLOCK + 1))
        return num_hit

    def go_on(self, request: Request, num_tokens: int) -> None:
        """Prefill a running request up to its first `num_tokens`."""
        end_block = -(-num_tokens // BLOCK)
        self.kv.take(end_block - request.num_blocks)
        self.kv.name_blocks(request, end_block, num_tokens // BLOCK)
        request.num_blocks = end_block
        request.computed_tokens = num_tokens

    def release(self, request: Request, can_resume: bool = False) -> None:
        """Finish or preempt."""
        self.running.remove(request)
        request.num_preemptions += can_resume
        self.kv.release(request, request.computed_tokens // BLOCK, can_resume)

    def serve(self, prompt: int, path: tuple[int, ...] = ()) -> int:
        """Prefill and finish a new request; returns the blocks it hit."""
        request = self.request(prompt, path)
        num_hit = self.admit(request)
        self.release(request)
        return num_hit

    def could_hit(self, prompt: int, path: tuple[int, ...]) -> int:
        """Blocks that a new request would hit."""
        request = self.request(prompt, path)
        return self.kv.lookup(request, (prompt - 1) // BLOCK)[1]

    def check(self) -> None:
        """Block conservation."""
        held: dict[int, Extent] = {id(e): e for r in self.running for e in r.extents}
        private = sum(r.num_blocks - sum(e.num_blocks for e in r.extents) for r in self.running)
        named = sum(extent.num_blocks for extent in held.values())
        self.kv.check_integrity(private + named, list(held.values()))


Key = tuple[int, int]
"""(owner, position along the prompt); owners as in the KV cache."""


@dataclass(eq=False)
class Block:
    """One block: what it holds, who holds it, when it was hashed."""

    content: Key | None = None
    hashed: int = 0
    holders: int = 0
    key: float = 0.0


@dataclass
class BlockModel:
    """The same pool block by block; `key_of` gives the eviction key of an owner."""

    usable_blocks: int
    key_of: Callable[[int], float]
    free: list[Block] = field(init=False)
    blocks: list[Block] = field(init=False)
    held: dict[int, list[Block]] = field(default_factory=dict)
    clock: int = 0

    def __post_init__(self) -> None:
        self.blocks = [Block() for _ in range(self.usable_blocks)]
        self.free = list(self.blocks)

    def hits(self, contents: Sequence[Key], most: int) -> list[Block]:
        """Leading blocks found, per position the copy hashed first."""
        found: list[Block] = []
        for content in contents[:most]:
            copies = [b for b in self.blocks if b.content == content]
            if not copies:
                break
            found.append(min(copies, key=lambda b: b.hashed))
        return found

    def admit(self, request_id: int, contents: Sequence[Key], most: int) -> int:
        """Hold the hits."""
        blocks = self.hits(contents, most)
        num_hit = len(blocks)
        for block in blocks:
            if not block.holders:
                self.free.remove(block)
            block.holders += 1
        self.held[request_id] = blocks
        return num_hit

    def go_on(self, request_id: int, contents: Sequence[Key], num_tokens: int) -> None:
        """Take blocks for the first `num_tokens` and hash what is full."""
        blocks = self.held[request_id]
        while len(blocks) * BLOCK < num_tokens:
            block = self.free.pop(0)
            block.content = None
            block.holders = 1
            blocks.append(block)
        for block, content in zip(blocks[: num_tokens // BLOCK], contents, strict=False):
            if block.content is None:
                self.clock += 1
                block.content, block.hashed = content, self.clock

    def release(self, request_id: int, can_resume: bool) -> None:
        """Free the blocks, last one first; private ones of a finished request are forgotten."""
        for block in reversed(self.held.pop(request_id)):
            block.holders -= 1
            if block.holders:
                continue
            if block.content is not None and block.content[0] < 0 and not can_resume:
                block.content = None
            owner = ANONYMOUS if block.content is None else block.content[0]
            block.key = self.key_of(owner)
            place = sum(other.key <= block.key for other in self.free)
            self.free.insert(place, block)


class MostRecentlyUsed(EvictionPolicy):
    """The blocks released last go first."""

    is_release_order = False

    def __init__(self) -> None:
        self.asked: list[tuple[int, int, int, int]] = []

    def key(self, owner: int, first_block: int, num_blocks: int, release_index: int) -> float:
        self.asked.append((owner, first_block, num_blocks, release_index))
        return -1.0 - release_index
