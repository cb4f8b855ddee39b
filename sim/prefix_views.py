"""Connects a router that matches prefixes with the KV caches of its cluster.

Nothing of this exists, and nothing is paid, where the router does not declare
`uses_prefix_match`.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from sim.block_pager import BlockPager
from sim.engine_rules import BringsParts, EngineRules
from sim.errors import InvalidDecisionError
from sim.interfaces import ClusterView, EvictionPolicy, Router
from sim.kv_cache import KvCache
from sim.loads import DelayedView, Loads, PublishedView
from sim.paged_kv_cache import PagedIndexedKvCache, PagedKvCache
from sim.prefix_index import PrefixIndex
from sim.prefix_index_cache import IndexedKvCache
from sim.prefix_index_feed import CacheLookups, PrefixFeed
from sim.prefix_index_log import ReportedFeed
from sim.prefix_tree import BlockGeometry
from sim.queued_hits import QueuedHits
from sim.request import Request
from sim.step_clock import StepClock

if TYPE_CHECKING:
    from sim.instance import Instance

Route = Callable[[Request, ClusterView, float], int]


class PrefixViews:
    """The prefix caches of a cluster as its router sees them.

    Args:
        router: the router, which declares `uses_prefix_match`.
        rules: engine rules of all instances.
        loads: counters of the cluster.
        stale_view: the router's view, None for the live counters.
        clock: simulated time.
        geometry: the prefix tree in blocks.
    """

    def __init__(
        self,
        router: Router,
        rules: EngineRules,
        loads: Loads,
        stale_view: PublishedView | DelayedView | None,
        clock: StepClock,
        geometry: BlockGeometry,
    ) -> None:
        index = PrefixIndex(loads.num_instances, geometry)
        self._feed: PrefixFeed | None = None
        self._lookups: CacheLookups | None = None
        match_sparsely = None
        if isinstance(rules, BringsParts):
            assert stale_view is None, "refused by ClusterSpec.validate"
            self._lookups = CacheLookups()
            match = self._lookups.matched_tokens
        elif stale_view is not None:
            self._feed = stale_view.prefixes = ReportedFeed(index, clock)
            match = self._feed.matched_tokens
        else:
            self._feed = PrefixFeed(index)
            match, match_sparsely = self._feed.matched_tokens, self._feed.match
        self._hits = QueuedHits(loads, router, match, match_sparsely)
        self.route: Route = self._hits.route
        self.expected_hit = self._hits.expected_hit
        loads.match = self._hits.matched_tokens
        if match_sparsely is not None:
            loads.match_sparsely = self._hits.matched_sparsely

    def make_cache(
        self,
        instance_id: int,
        num_gpu_blocks: int,
        geometry: BlockGeometry,
        prefix_caching: bool,
        eviction: EvictionPolicy | None,
        pager: BlockPager | None = None,
    ) -> KvCache:
        """KV cache of an instance, which says what can be hit in it."""
        own = num_gpu_blocks, geometry, prefix_caching, eviction
        if self._feed is None:
            return KvCache(*own) if pager is None else PagedKvCache(pager, *own)
        if pager is not None:
            return PagedIndexedKvCache(pager, *own, self._feed, instance_id)
        return IndexedKvCache(*own, self._feed, instance_id)

    def watch(self, instances: Sequence["Instance"]) -> None:
        """Follow the instances of the cluster."""
        for instance in instances:
            self._hits.watch(instance)
            if self._feed is not None:
                self._feed.watch(instance)
            if self._lookups is not None:
                self._lookups.watch(instance)


def refuse_to_match(router: Router) -> Callable[[Request], list[int]]:
    """What a router gets that matches prefixes without saying so."""

    def match(_request: Request) -> list[int]:
        raise InvalidDecisionError(
            type(router).__name__, "asked for matched_tokens without uses_prefix_match = True"
        )

    return match
