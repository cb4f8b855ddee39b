"""Connects the tiers with the instances of a cluster.

Nothing of this exists, and nothing is paid, where a cluster has no tiers.
"""

from typing import TYPE_CHECKING

from sim.engine_rules import EngineRules
from sim.interfaces import EvictionPolicy
from sim.kv_cache import KvCache
from sim.prefix_tree import BlockGeometry
from sim.prefix_views import PrefixViews
from sim.tiers.caches import KvTier, TieredIndexedKvCache, TieredKvCache
from sim.tiers.domain import TierDomain
from sim.tiers.instance import (
    CheckedCountedTieredInstance,
    CheckedTieredInstance,
    CountedTieredInstance,
    TieredInstance,
)
from sim.tiers.rules import TieredVllmV1
from sim.tiers.spec import TierSpec
from sim.transfer_network import Port
from sim.vllm_v1 import VllmV1

if TYPE_CHECKING:
    from sim.block_pager import BlockPager
    from sim.instance import Instance


class TieredPrefixViews(PrefixViews):
    """The prefix caches of a cluster with tiers as its router sees them: those of the GPUs."""

    def make_cache(
        self,
        instance_id: int,
        num_gpu_blocks: int,
        geometry: BlockGeometry,
        prefix_caching: bool,
        eviction: EvictionPolicy | None,
        pager: "BlockPager | None" = None,
    ) -> KvCache:
        """KV cache of an instance, which says what can be hit in it."""
        assert pager is None and self._feed is not None, "refused by TierSpec.validate"
        own = num_gpu_blocks, geometry, prefix_caching, eviction
        return TieredIndexedKvCache(*own, self._feed, instance_id)


class Tiers:
    """The tiers of a cluster.

    Args:
        spec: what they are made of.
        rules: engine rules without tiers.
        num_instances: replicas.
        geometry: the prefix tree in blocks.

    Attributes:
        spec: what they are made of.
        rules: engine rules of the instances.
        domains: those whose contents do not depend on each other, in order of their instances.
        instances: the replicas.
        from_remote: by host, the link from the store.
    """

    def __init__(
        self, spec: TierSpec, rules: EngineRules, num_instances: int, geometry: BlockGeometry
    ) -> None:
        assert isinstance(rules, VllmV1), "refused by TierSpec.validate"
        self.spec = spec
        self.rules = TieredVllmV1(rules)
        self.instances: list[TieredInstance] = []
        self.domains: list[TierDomain] = []
        host_of = {i: i // spec.instances_per_host for i in range(num_instances)}
        numbers = sorted(set(host_of.values()))
        hosts = {number: self._make_tier(spec.host_blocks, geometry) for number in numbers}
        self.from_remote: dict[int, Port] = {}
        if spec.remote_link is not None:
            rate = spec.remote_link.bytes_per_s
            self.from_remote = {number: Port(rate) for number in numbers}
            remote = self._make_tier(spec.remote_blocks, geometry)
            self.domains.append(TierDomain(spec, hosts, host_of, remote))
        else:
            for number, host in hosts.items():
                members = {i: n for i, n in host_of.items() if n == number}
                self.domains.append(TierDomain(spec, {number: host}, members, None))
        self._host_of = host_of

    def _make_tier(self, num_blocks: int, geometry: BlockGeometry) -> KvTier:
        eviction = None if self.spec.eviction is None else self.spec.eviction()
        return KvTier(num_blocks, geometry, eviction)

    def make_cache(
        self,
        num_gpu_blocks: int,
        geometry: BlockGeometry,
        prefix_caching: bool,
        eviction: EvictionPolicy | None,
    ) -> KvCache:
        """KV cache of an instance."""
        return TieredKvCache(num_gpu_blocks, geometry, prefix_caching, eviction)

    def instance_class(self, is_counted: bool, is_checked: bool) -> type["Instance"]:
        """Class of the instances."""
        if is_counted:
            return CheckedCountedTieredInstance if is_checked else CountedTieredInstance
        return CheckedTieredInstance if is_checked else TieredInstance

    def watch(self, instance: "Instance") -> None:
        """Give an instance its tiers."""
        assert isinstance(instance, TieredInstance)
        number = self._host_of[instance.instance_id]
        domain = next(d for d in self.domains if number in d.hosts)
        from_host = Port(self.spec.host_link.bytes_per_s)
        instance.join(self.spec, domain, from_host, self.from_remote.get(number))
        self.instances.append(instance)
