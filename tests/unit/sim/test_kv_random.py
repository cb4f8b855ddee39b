"""The KV cache under random use equals a pool of single blocks, whatever the eviction order."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.extents import ANONYMOUS, private_owner
from sim.interfaces import EvictionPolicy
from sim.request import Request
from tests.unit.sim.pool import BLOCK, BlockModel, Key, MostRecentlyUsed, Pool

NODES = [(-1, 8), (0, 16), (0, 4), (1, 8), (-1, 12), (4, 4)]
PATHS = [(), (0,), (0, 1), (0, 2), (0, 1, 3), (4,), (4, 5)]


class ByOwner(EvictionPolicy):
    """A made-up order: private blocks first, then nodes by a key of their own."""

    is_release_order = False

    def key(self, owner: int, first_block: int, num_blocks: int, release_index: int) -> float:
        return key_by_owner(owner)


class Sorted(EvictionPolicy):
    """Release order, but by keys instead of by appending."""

    is_release_order = False

    def key(self, owner: int, first_block: int, num_blocks: int, release_index: int) -> float:
        return float(release_index)


def key_by_owner(owner: int) -> float:
    return 0.0 if owner < 0 else 1.0 + owner * 7 % 3


def contents_of(pool: Pool, request: Request) -> list[Key]:
    """Owner and position of every full block."""
    full = request.prompt_tokens // BLOCK
    owners: list[int] = []
    for node in request.path:
        owners += [node] * (NODES[node][1] // BLOCK)
    owners += [private_owner(request.request_id)] * (full - len(owners))
    return [(owner, position) for position, owner in enumerate(owners[:full])]


@dataclass
class Game:
    """The cache and the model of single blocks, played side by side."""

    rng: np.random.Generator
    pool: Pool
    model: BlockModel
    grain: int
    paths: list[tuple[int, ...]]
    waiting: list[Request] = field(default_factory=list)

    def draw(self, requests: list[Request]) -> Request:
        return requests[int(self.rng.integers(len(requests)))]

    def release(self, request: Request) -> None:
        can_resume = bool(self.rng.random() < 0.4)
        self.pool.release(request, can_resume)
        self.model.release(request.request_id, can_resume)
        self.waiting += [request] if can_resume else []

    def go_on(self, request: Request, num_tokens: int) -> None:
        needed = -(-num_tokens // BLOCK) - request.num_blocks
        if needed <= self.pool.kv.num_free:
            self.pool.go_on(request, num_tokens)
            self.model.go_on(request.request_id, contents_of(self.pool, request), num_tokens)

    def admit(self) -> None:
        if self.waiting and self.rng.random() < 0.5:
            request = self.draw(self.waiting)
        else:
            path = self.paths[int(self.rng.integers(len(self.paths)))]
            shared = sum(NODES[node][1] for node in path)
            request = self.pool.request(self.prompt(shared), path)
        if self.pool.blocks_needed(request) > self.pool.kv.num_free:
            return
        if request in self.waiting:
            self.waiting.remove(request)
        contents = contents_of(self.pool, request)
        hit = self.model.admit(request.request_id, contents, (request.prompt_tokens - 1) // BLOCK)
        assert self.pool.admit(request, self.tokens(request, hit * BLOCK)) == hit
        self.model.go_on(request.request_id, contents, request.computed_tokens)

    def prompt(self, shared: int) -> int:
        """Ends within the path, with it, or after it."""
        dice = self.rng.random()
        if shared and dice < 0.3:
            return -(-int(self.rng.integers(1, shared + 1)) // self.grain) * self.grain
        return shared if shared and dice < 0.6 else shared + int(self.rng.integers(1, 12))

    def tokens(self, request: Request, done: int) -> int:
        """End of the next chunk, a multiple of `grain` or the whole prompt."""
        end = int(self.rng.integers(done + 1, request.prompt_tokens + 1))
        is_last = self.rng.random() < 0.4
        return (
            request.prompt_tokens
            if is_last
            else min(-(-end // self.grain) * self.grain, request.prompt_tokens)
        )

    def play(self) -> None:
        part_done = [r for r in self.pool.running if r.computed_tokens < r.prompt_tokens]
        dice = self.rng.random()
        if part_done and dice < 0.4:
            request = self.draw(part_done)
            self.go_on(request, self.tokens(request, request.computed_tokens))
        elif self.pool.running and dice < 0.65:
            self.release(self.draw(self.pool.running))
        else:
            self.admit()
        assert self.pool.kv.num_free == len(self.model.free)
        self.pool.check()


def play(seed: int, eviction: EvictionPolicy | None, key_of: Callable[[int], float]) -> None:
    rng = np.random.default_rng(seed)
    usable = int(rng.integers(6, 40))
    few = rng.choice(len(PATHS), int(rng.integers(1, len(PATHS) + 1)), replace=False)
    paths = [PATHS[index] for index in few]  # with few of them there are many copies
    # With keys per owner a block that is not full has no owner yet in the model: none of those.
    grain = 1 if eviction is None else BLOCK
    game = Game(rng, Pool(usable, NODES, eviction), BlockModel(usable, key_of), grain, paths)
    for _ in range(120):
        game.play()
    for path in PATHS[1:]:
        probe = game.pool.request(400, path)
        found = game.model.hits(contents_of(game.pool, probe), 99)
        assert game.pool.kv.lookup(probe, 99)[1] == len(found)


@settings(max_examples=120, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_by_default_the_least_recently_used_block_goes_first(seed: int) -> None:
    play(seed, None, lambda _owner: 0.0)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_a_policy_orders_blocks_by_its_keys_and_equal_keys_by_release(seed: int) -> None:
    play(seed, ByOwner(), key_by_owner)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_keys_in_release_order_give_lru(seed: int) -> None:
    play(seed, Sorted(), lambda _owner: 0.0)


def hold_and_release(pool: Pool, prompt: int, nodes: list[int]) -> None:
    """Serve one request per node at the same time; they finish in order."""
    requests = [pool.request(prompt, (node,)) for node in nodes]
    for request in requests:
        pool.admit(request)
    for request in requests:
        pool.release(request)


def test_most_recently_used_evicts_what_was_released_last() -> None:
    policy = MostRecentlyUsed()
    pool = Pool(6, [(-1, 8), (-1, 8)], policy)
    hold_and_release(pool, 8, [0, 1])
    assert policy.asked == [(0, 0, 2, 0), (1, 0, 2, 1)]
    pool.kv.take(1)
    assert (pool.could_hit(9, (0,)), pool.could_hit(9, (1,))) == (2, 1)
    pool.kv.take(1)
    assert (pool.could_hit(9, (0,)), pool.could_hit(9, (1,))) == (2, 0)


def test_the_second_part_of_a_split_free_extent_keeps_its_key() -> None:
    pool = Pool(8, [(-1, 16), (-1, 16)], MostRecentlyUsed())
    hold_and_release(pool, 16, [0, 1])
    reader = pool.request(5, (0,))
    pool.admit(reader)  # splits node 0 after its first block, and evicts a block of node 1
    assert [pool.could_hit(17, (node,)) for node in (0, 1)] == [4, 3]
    pool.release(reader)
    order = [(extent.owner, extent.first, extent.end) for extent in pool.kv.queue]
    assert order == [(0, 0, 1), (ANONYMOUS, 0, 1), (1, 0, 3), (0, 1, 4)]


@pytest.mark.parametrize("policy", [None, Sorted(), ByOwner(), MostRecentlyUsed()])
def test_when_all_requests_are_gone_every_block_is_free(policy: EvictionPolicy | None) -> None:
    pool = Pool(20, NODES, policy)
    requests = [pool.request(30, path) for path in PATHS[:2]]
    for request in requests:
        pool.admit(request)
    for request in requests:
        pool.release(request)
    pool.check()
    assert pool.kv.num_free == 20
