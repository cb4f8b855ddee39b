"""A cluster: instances behind a router, requests admitted at the door."""

from collections.abc import Iterator, Sequence

import numpy as np

from sim.block_pager import BlockPager
from sim.checked_instance import CheckedInstance
from sim.cluster_spec import ClusterSpec
from sim.decision_log import DecisionLog
from sim.decode_batch import DecodeBatch
from sim.errors import InvalidDecisionError
from sim.executed_cost import ExecutedCost
from sim.front_end_hashing import PromptHasher
from sim.front_end_output import CheckedCountedInstance, CountedInstance
from sim.instance import Instance
from sim.interfaces import (
    AdmissionPolicy,
    ClusterView,
    EvictionPolicy,
)
from sim.kv_cache import KvCache
from sim.loads import DelayedView, Loads, PublishedView
from sim.looped_instance import CheckedLoopedInstance, LoopedInstance
from sim.paged_kv_cache import PagedKvCache
from sim.policy_flags import check_flags
from sim.prefix_tree import BlockGeometry, PrefixTree
from sim.prefix_views import PrefixViews, Route, refuse_to_match
from sim.recorder import OVER_CAPACITY, OVER_MODEL_LEN, REFUSED, RequestLog
from sim.request import Request
from sim.running_tree import RunningPrefixTree
from sim.scheduler_cost_steps import ScheduledCost
from sim.step_clock import ARRIVAL, StepClock
from sim.tie_shift import shifting_ties
from sim.tiers.tiers import TieredPrefixViews, Tiers


class Cluster:
    """Instances, their router and the stream of arrivals.

    Args:
        spec: what to simulate.
        clock: simulated time.
        requests: requests in order of arrival; None if they come through `receive`.
        tree: prefix tree of the workload.
        log: columns over requests.

    Attributes:
        instances: the replicas.
        tiers: what lies behind their prefix caches, None for nothing.
        hashers: what stands before them and hashes prompts, empty where nothing does.
        decisions: what the router decided, None unless it is recorded.
    """

    def __init__(
        self,
        spec: ClusterSpec,
        clock: StepClock,
        requests: Iterator[Request] | None,
        tree: PrefixTree,
        log: RequestLog,
    ) -> None:
        spec.validate()
        self._is_looped = requests is None
        self.spec = spec
        self.clock = clock
        self.log = log
        num_instances = self._count_instances()
        self.loads = Loads(num_instances)
        self.stale_view: PublishedView | DelayedView | None = None
        if spec.publish_period_s:
            self.stale_view = PublishedView(self.loads, spec.publish_period_s)
        elif spec.view_delay_s:
            self.stale_view = DelayedView(self.loads, spec.view_delay_s)
        geometry = BlockGeometry.of(tree, spec.block_tokens)
        self.tiers: Tiers | None = None
        if spec.tiers is not None:
            self.tiers = Tiers(spec.tiers, spec.rules, num_instances, geometry)
        self._prefixes = self._prefix_views(geometry)
        self.executed: list[ExecutedCost] = []
        self.instances = [self._make_instance(i, geometry, tree) for i in range(num_instances)]
        self.hashers = self._make_hashers()
        doors: Sequence[Instance | PromptHasher] = self.hashers or self.instances
        self._doors = doors[: spec.num_instances]
        self.loads.kv_tokens_at = lambda i, time_s: self.instances[i].kv_tokens_at(time_s)
        self._view = self._view_of_router()
        if getattr(spec.router, "uses_kv_usage", False):
            self.loads.kv_usage_at = lambda i, time_s: self.instances[i].kv_usage_at(time_s)
        self._route: Route = spec.router.route
        if self._prefixes is not None:
            self._prefixes.watch(self.instances[: spec.num_instances])
            self._route = self._prefixes.route
        if spec.assume_dispatches and self.stale_view is not None:
            self._route = self._assuming(self._route, self.stale_view)
        if spec.tie_shift:
            self._route = shifting_ties(
                self._route, spec.router, spec.tie_shift, spec.num_instances
            )
        self.decisions: DecisionLog | None = None
        if spec.record_decisions:
            self.decisions = DecisionLog(spec.router, self._part_of(self.loads))
            self._route = self.decisions.noting(self._route, self.instances[: spec.num_instances])
        self._receiver = self._on_arrival
        # The last token's KV is never written.
        self._max_tokens = (spec.num_gpu_blocks - 1) * spec.block_tokens + 1
        if isinstance(spec.cost, ExecutedCost) and spec.cost.max_request_tokens is not None:
            self._max_tokens = min(self._max_tokens, spec.cost.max_request_tokens)
        self._has_gates = (
            spec.max_model_len is not None
            or spec.admission is not None
            or not spec.prefix_caching
            or self.stale_view is not None
        )
        self._requests = iter(()) if requests is None else requests
        self._next = next(self._requests, None)
        if self._next is not None:
            clock.call_at(self._next.arrival_s, ARRIVAL, self._on_arrival)

    def _count_instances(self) -> int:
        """All instances; those that arrivals are sent to come first."""
        return self.spec.num_instances

    def _view_of_router(self) -> ClusterView:
        """What the router sees: the counters, live or reported."""
        return self._part_of(self.loads if self.stale_view is None else self.stale_view)

    def _part_of(self, view: ClusterView) -> ClusterView:
        """Of a view of all instances the part that arrivals are sent to."""
        return view

    def _spec_of(self, index: int) -> ClusterSpec:
        """What an instance is made of."""
        return self.spec

    def _make_instance(self, index: int, geometry: BlockGeometry, tree: PrefixTree) -> Instance:
        spec = self._spec_of(index)
        cost, policy = spec.cost, spec.batching(index)
        check_flags(policy)
        macro_steps = spec.macro_steps
        scheduled = executed = pager = None
        if isinstance(cost, ExecutedCost):
            cost = executed = cost.for_instance()
            pager = executed.open_pager(spec.num_gpu_blocks - 1)
            macro_steps = macro_steps and not executed.plans_every_step
        if spec.scheduler is not None:
            cost = scheduled = ScheduledCost(cost, spec.scheduler, policy, spec.rules.lag > 0)
        running: dict[int, Request] = {}
        has_tree = cost.uses_prefix_tree and tree.num_nodes > 0
        running_tree = RunningPrefixTree(tree, running) if has_tree else None
        eviction = spec.eviction() if spec.eviction is not None else None
        instance = self._instance_class(index)(
            instance_id=index,
            clock=self.clock,
            rules=spec.rules if self.tiers is None else self.tiers.rules,
            policy=policy,
            cost=cost,
            kv=self._make_cache(index, geometry, eviction, pager),
            batch=DecodeBatch(spec.block_tokens, running_tree),
            running=running,
            loads=self.loads,
            log=self.log,
            macro_steps=macro_steps,
            stale_view=self.stale_view,
            pays_for_plans=scheduled is not None,
        )
        if scheduled is not None:
            scheduled.watch(instance)
        if self.tiers is not None:
            self.tiers.watch(instance)
        if executed is not None:
            executed.watch(instance)
            self.executed.append(executed)
        return instance

    def _assuming(self, route: Route, stale_view: PublishedView | DelayedView) -> Route:
        """The router's decision, added to its view at once."""

        def route_and_assume(request: Request, view: ClusterView, now_s: float) -> int:
            choice = route(request, view, now_s)
            if choice in range(self.spec.num_instances):  # else it is refused
                found = 0 if self._prefixes is None else self._prefixes.expected_hit(request)
                stale_view.assume(int(choice), request.prompt_tokens, found, now_s)
            return choice

        return route_and_assume

    def _prefix_views(self, geometry: BlockGeometry) -> PrefixViews | None:
        spec = self.spec
        if not getattr(spec.router, "uses_prefix_match", False):
            self.loads.match = refuse_to_match(spec.router)
            return None
        views = PrefixViews if self.tiers is None else TieredPrefixViews
        return views(spec.router, spec.rules, self.loads, self.stale_view, self.clock, geometry)

    def _make_cache(
        self,
        index: int,
        geometry: BlockGeometry,
        eviction: EvictionPolicy | None,
        pager: BlockPager | None,
    ) -> KvCache:
        spec, prefixes = self.spec, self._prefixes
        if prefixes is not None:
            return prefixes.make_cache(
                index, spec.num_gpu_blocks, geometry, spec.prefix_caching, eviction, pager
            )
        if self.tiers is not None:
            return self.tiers.make_cache(
                spec.num_gpu_blocks, geometry, spec.prefix_caching, eviction
            )
        if pager is not None:
            return PagedKvCache(pager, spec.num_gpu_blocks, geometry, spec.prefix_caching, eviction)
        return KvCache(spec.num_gpu_blocks, geometry, spec.prefix_caching, eviction)

    def _make_hashers(self) -> list[PromptHasher]:
        spec, front_end = self.spec, self.spec.front_end
        if front_end is None or not front_end.hash_block_s:
            return []
        return [
            PromptHasher(
                instance,
                self.clock,
                self.loads,
                self.stale_view,
                front_end.hash_block_s,
                spec.block_tokens,
            )
            for instance in self.instances
        ]

    def _instance_class(self, index: int) -> type[Instance]:
        is_counted = self._is_looped and self.spec.front_end is not None
        if self.tiers is not None:
            return self.tiers.instance_class(is_counted, self.spec.check)
        if is_counted:
            return CheckedCountedInstance if self.spec.check else CountedInstance
        if self._is_looped:
            return CheckedLoopedInstance if self.spec.check else LoopedInstance
        return CheckedInstance if self.spec.check else Instance

    def receive(self, request: Request) -> None:
        """Reject or route a request that arrives now."""
        self.loads.now_s = now_s = request.arrival_s
        if request.prompt_tokens + request.output_tokens > self._max_tokens:
            self._turn_away(request)
        elif not self._has_gates or self._is_let_in(request):
            self._dispatch(request, now_s)

    def _on_arrival(self, _key: int) -> None:
        """Route every request that arrives at this instant."""
        request = self._next
        assert request is not None
        self.loads.now_s = now_s = request.arrival_s
        while True:
            tokens = request.prompt_tokens + request.output_tokens
            if tokens <= self._max_tokens and (not self._has_gates or self._is_let_in(request)):
                self._dispatch(request, now_s)
            elif tokens > self._max_tokens:
                self._turn_away(request)
            request = next(self._requests, None)
            if request is None or request.arrival_s != now_s:
                break
        self._next = request
        if request is not None:
            self.clock.call_at(request.arrival_s, ARRIVAL, self._receiver)

    def _dispatch(self, request: Request, now_s: float) -> None:
        choice = self._route(request, self._view, now_s)
        try:
            door = self._doors[choice] if choice >= 0 else None
        except (TypeError, IndexError):
            door = None
        if door is None:
            raise InvalidDecisionError(
                type(self.spec.router).__name__,
                f"chose instance {choice!r}, allowed are 0 to {self.spec.num_instances - 1}",
            )
        door.submit(request, now_s)

    def _turn_away(self, request: Request) -> None:
        """Reject a request that no instance could ever serve."""
        limit = self.spec.max_model_len
        is_over_len = limit is not None and request.prompt_tokens >= limit
        self.log.reject(request.request_id, OVER_MODEL_LEN if is_over_len else OVER_CAPACITY)

    def _is_let_in(self, request: Request) -> bool:
        """Apply what most clusters do not have: length limit, admission, no cache, stale view."""
        spec, now_s = self.spec, request.arrival_s
        if spec.max_model_len is not None and request.prompt_tokens >= spec.max_model_len:
            self.log.reject(request.request_id, OVER_MODEL_LEN)
            return False
        if spec.admission is not None and not self._is_admitted(spec.admission, request, now_s):
            self.log.reject(request.request_id, REFUSED)
            return False
        if not spec.prefix_caching:
            request.kv_path = ()
        if self.stale_view is not None:
            self.stale_view.refresh(now_s)
        return True

    def _is_admitted(self, policy: AdmissionPolicy, request: Request, now_s: float) -> bool:
        answer = policy.admit(request, now_s)
        if not isinstance(answer, bool | np.bool_):
            raise InvalidDecisionError(
                type(policy).__name__, f"answered {answer!r}, allowed are True and False"
            )
        return bool(answer)
