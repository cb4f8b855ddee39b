"""Where a router believes prefixes to be cached: what it reads of the caches, or what it sent.

Routers without events from the engines keep an index of their own: every prompt that they send to
an instance counts as cached there, until a bound on its size or its age drops it.
"""

from collections import OrderedDict
from collections.abc import Sequence
from heapq import heapify, heappop, heapreplace
from typing import NamedTuple, Protocol

from sim.interfaces import ClusterView
from sim.request import Request


class PrefixSource(Protocol):
    """Tells a router what is cached where."""

    def matched_tokens(self, request: Request, cluster: ClusterView, now_s: float) -> Sequence[int]:
        """Leading tokens of a request that each instance is believed to hold."""

    def record(self, request: Request, instance_id: int, now_s: float) -> None:
        """The request is sent to the instance."""


class ReadPrefixes(PrefixSource):
    """What the cluster's view says of the caches."""

    def matched_tokens(self, request: Request, cluster: ClusterView, now_s: float) -> Sequence[int]:
        """Leading tokens in the caches, as of the view."""
        return cluster.matched_tokens(request)

    def record(self, request: Request, instance_id: int, now_s: float) -> None:
        """Nothing: the caches tell."""


class _Run(NamedTuple):
    """Blocks of one owner: a prefix-tree node, or the private rest of a request (negative)."""

    owner: int
    num_blocks: int


PRUNED_RATIO = 0.8
"""What pruning leaves of a bound on all instances. Source: Dynamo, `router-prune-target-ratio`."""


class AssumedPrefixes(PrefixSource):
    """What was sent: a least recently used list of blocks per instance.

    The blocks of a prompt are used root first, so that of one prompt the first ones go first; a
    match ends at the first block that is gone. Blocks are those of whole prompts: what an instance
    generates, and what it evicts itself, is not known.

    Args:
        block_tokens: tokens per block of the index.
        max_blocks: blocks per instance, None is no bound.
        max_prompt_blocks: leading blocks of a prompt that are looked at, None for all.
        ttl_s: age at which blocks that were not used again are dropped, seconds, None is never.
        max_total_blocks: blocks of all instances together, None is no bound. Beyond it those used
            least recently anywhere are dropped, until `PRUNED_RATIO` of the bound is left.
    """

    def __init__(
        self,
        block_tokens: int,
        max_blocks: int | None = None,
        max_prompt_blocks: int | None = None,
        ttl_s: float | None = None,
        max_total_blocks: int | None = None,
    ) -> None:
        self.block_tokens = block_tokens
        self._max_blocks = max_blocks
        self._max_prompt_blocks = max_prompt_blocks
        self._ttl_s = ttl_s
        self._max_total_blocks = max_total_blocks
        self._held: dict[int, OrderedDict[int, tuple[int, float]]] = {}
        self._num_blocks: dict[int, int] = {}
        self._nodes: dict[int, tuple[_Run, ...]] = {}

    def num_prompt_blocks(self, request: Request) -> int:
        """Blocks of a prompt that are looked at."""
        num_blocks = request.prompt_tokens // self.block_tokens
        most = self._max_prompt_blocks
        return num_blocks if most is None else min(num_blocks, most)

    def matched_tokens(self, request: Request, cluster: ClusterView, now_s: float) -> Sequence[int]:
        """Leading tokens, in whole blocks, of a request that each instance was sent."""
        runs = self._runs(request)[:-1]
        return [self._matched(runs, i, now_s) for i in range(cluster.num_instances)]

    def _matched(self, runs: Sequence[_Run], instance_id: int, now_s: float) -> int:
        held = self._held.get(instance_id)
        num_blocks = 0
        if held is None:
            return num_blocks
        for owner, wanted in runs:
            if not wanted:
                continue
            found, used_s = held.get(owner, (0, now_s))
            is_old = self._ttl_s is not None and now_s - used_s > self._ttl_s
            if found < wanted or is_old:
                break
            num_blocks += wanted
        return num_blocks * self.block_tokens

    def record(self, request: Request, instance_id: int, now_s: float) -> None:
        """Use all blocks of the prompt, root first, and drop what is beyond the bounds."""
        held = self._held.setdefault(instance_id, OrderedDict())
        total = self._num_blocks.get(instance_id, 0)
        for owner, num_blocks in self._runs(request):
            if num_blocks:
                total += num_blocks - held.pop(owner, (0, 0.0))[0]
                held[owner] = (num_blocks, now_s)
        if self._ttl_s is not None:
            while held and now_s - next(iter(held.values()))[1] > self._ttl_s:
                total -= held.popitem(last=False)[1][0]
        while self._max_blocks is not None and total > self._max_blocks:
            total -= _drop_oldest(held, total - self._max_blocks)
        self._num_blocks[instance_id] = total
        limit = self._max_total_blocks
        if limit is not None and (whole := sum(self._num_blocks.values())) > limit:
            self._prune(whole - int(limit * PRUNED_RATIO))

    def _prune(self, excess: int) -> None:
        """Drop so many of the blocks that were used least recently on any instance."""
        oldest = [(next(iter(held.values()))[1], i) for i, held in self._held.items() if held]
        heapify(oldest)
        while excess > 0:
            i = oldest[0][1]
            held = self._held[i]
            gone = _drop_oldest(held, excess)
            excess -= gone
            self._num_blocks[i] -= gone
            if held:
                heapreplace(oldest, (next(iter(held.values()))[1], i))
            else:
                heappop(oldest)

    def _runs(self, request: Request) -> tuple[_Run, ...]:
        """Blocks of a prompt along its path; the private rest, maybe empty, comes last."""
        path, most = request.path, self.num_prompt_blocks(request)
        runs: tuple[_Run, ...] = ()
        if path:
            runs = self._nodes.get(path[-1], ())
            if not runs:
                runs = self._nodes[path[-1]] = self._runs_of_path(request)
        covered = sum(run.num_blocks for run in runs)
        return (*runs, _Run(-1 - request.request_id, max(0, most - covered)))

    def _runs_of_path(self, request: Request) -> tuple[_Run, ...]:
        limit = self._max_prompt_blocks
        first, runs = 0, []
        for node, end_tokens in zip(request.path, request.path_end_tokens, strict=True):
            end = end_tokens // self.block_tokens
            if limit is not None:
                end = min(end, limit)
            runs.append(_Run(node, end - first))
            first = end
        return tuple(runs)


def _drop_oldest(held: OrderedDict[int, tuple[int, float]], most: int) -> int:
    """Drop up to `most` blocks of the run used least recently; returns how many."""
    owner, (num_blocks, used_s) = next(iter(held.items()))
    gone = min(num_blocks, most)
    if gone == num_blocks:
        del held[owner]
    else:
        held[owner] = (num_blocks - gone, used_s)
    return gone
