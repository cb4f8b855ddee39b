"""A cluster whose instances prefill, decode or do both.

Ids run over the instances that prefill only, those that do both (`num_mixed`), and those that
decode only. Arrivals are routed to the first two kinds, handed-over requests to the last two.
"""

from collections.abc import Iterator
from dataclasses import replace

from sim.block_pager import BlockPager
from sim.cluster import Cluster
from sim.cluster_spec import ClusterSpec
from sim.disaggregation.decode_instance import CheckedDecodeInstance, DecodeInstance
from sim.disaggregation.decode_rules import decode_rules_of
from sim.disaggregation.handover import Handover
from sim.disaggregation.pool_view import PoolView
from sim.disaggregation.prefill_instance import CheckedPrefillInstance, PrefillInstance
from sim.disaggregation.records import HandoverLog
from sim.instance import Instance
from sim.interfaces import ClusterView, EvictionPolicy
from sim.kv_cache import KvCache
from sim.prefix_tree import BlockGeometry, PrefixTree
from sim.recorder import OVER_CAPACITY, RequestLog
from sim.request import Request
from sim.step_clock import StepClock


class DisaggregatedCluster(Cluster):
    """Prefill and decode instances, and the hand-over between them.

    Args:
        spec: what to simulate, with `disaggregation`.
        clock: simulated time.
        requests: requests in order of arrival; None if they come through `receive`.
        tree: prefix tree of the workload.
        log: columns over requests.
        handover_log: columns over requests for what lies between prefill and decode.

    Attributes:
        num_prefill: instances that prefill only; they come first.
        handover: what moves KV.
        handover_log: columns over requests for what lies between prefill and decode.
    """

    def __init__(
        self,
        spec: ClusterSpec,
        clock: StepClock,
        requests: Iterator[Request] | None,
        tree: PrefixTree,
        log: RequestLog,
        handover_log: HandoverLog,
    ) -> None:
        parts = spec.disaggregation
        assert parts is not None
        self._parts = parts
        self.handover_log = handover_log
        spec.validate()
        self.num_prefill = spec.num_instances - parts.num_mixed
        self._decode_spec = replace(
            spec,
            num_gpu_blocks=parts.decode.num_gpu_blocks,
            rules=decode_rules_of(parts.decode.rules),
            cost=parts.decode.cost,
            batching=parts.decode.batching,
        )
        # A mixed instance prefills as the prefill instances do, and takes KV.
        self._mixed_spec = replace(spec, rules=decode_rules_of(spec.rules))
        super().__init__(spec, clock, requests, tree, log)
        self._max_prompt_tokens = (spec.num_gpu_blocks - 1) * spec.block_tokens
        if not parts.num_mixed:
            self._max_tokens = (parts.decode.num_gpu_blocks - 1) * spec.block_tokens + 1
            self._has_gates |= self._max_prompt_tokens + 1 < self._max_tokens
        elif parts.decode.num_instances:
            self._max_tokens = min(
                self._max_tokens, (parts.decode.num_gpu_blocks - 1) * spec.block_tokens + 1
            )
        num_decode = parts.num_mixed + parts.decode.num_instances
        if getattr(parts.decode.router, "uses_kv_usage", False):
            self.loads.kv_usage_at = lambda i, time_s: self.instances[i].kv_usage_at(time_s)
        view = PoolView(self.loads, self.num_prefill, num_decode)
        self.handover = Handover(parts, clock, self.loads, view, self.instances, handover_log)
        self.handover.counts = spec.check

    def _count_instances(self) -> int:
        return self.spec.num_all_instances

    def _part_of(self, view: ClusterView) -> ClusterView:
        return PoolView(view, 0, self.spec.num_instances)

    def _spec_of(self, index: int) -> ClusterSpec:
        if index >= self.spec.num_instances:
            return self._decode_spec
        return self.spec if index < self.num_prefill else self._mixed_spec

    def _instance_class(self, index: int) -> type[Instance]:
        if index < self.num_prefill:
            return CheckedPrefillInstance if self.spec.check else PrefillInstance
        return CheckedDecodeInstance if self.spec.check else DecodeInstance

    def _is_let_in(self, request: Request) -> bool:
        if request.prompt_tokens > self._max_prompt_tokens:
            self.log.reject(request.request_id, OVER_CAPACITY)
            return False
        return super()._is_let_in(request)

    def _make_cache(
        self,
        index: int,
        geometry: BlockGeometry,
        eviction: EvictionPolicy | None,
        pager: BlockPager | None,
    ) -> KvCache:
        if index < self.spec.num_instances:
            return super()._make_cache(index, geometry, eviction, pager)
        spec = self._decode_spec
        return KvCache(spec.num_gpu_blocks, geometry, spec.prefix_caching, eviction)
