"""What a cluster with separate prefill and decode instances is made of, in plain numbers."""

from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING

from sim.disaggregation.direct import DirectFeeder
from sim.disaggregation.interfaces import DecodeFeeder
from sim.engine_rules import EngineRules
from sim.errors import ConfigError
from sim.executed_cost import ExecutedCost
from sim.interfaces import BatchPolicy, CostModel, Router
from sim.vllm_v1 import VllmV1

if TYPE_CHECKING:
    from sim.cluster_spec import ClusterSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSpec:
    """One direction of the link of one instance (all its GPUs together).

    Attributes:
        latency_s: before the first byte of a transfer arrives, seconds.
        bytes_per_s: its rate.
    """

    latency_s: float
    bytes_per_s: float

    def validate(self, name: str) -> None:
        """Check the numbers.

        Args:
            name: of the link, for messages.

        Raises:
            ConfigError: a negative latency or a rate that is not positive.
        """
        if not (self.latency_s >= 0.0 and isfinite(self.latency_s)):
            raise ConfigError(f"{name}: latency_s={self.latency_s}: must be finite and >= 0")
        if not (self.bytes_per_s > 0.0 and isfinite(self.bytes_per_s)):
            raise ConfigError(f"{name}: bytes_per_s={self.bytes_per_s}: must be finite and > 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodePool:
    """The instances that take KV from others.

    Attributes:
        num_instances: those that decode only.
        num_gpu_blocks: KV blocks of each, the null block included.
        rules: engine rules; the budget and seats of decode steps.
        cost: cost model of each.
        batching: makes the batch policy of an instance, given its id in the cluster.
        router: picks the decode instance of a request.
    """

    num_instances: int
    num_gpu_blocks: int
    rules: EngineRules
    cost: CostModel
    batching: Callable[[int], BatchPolicy]
    router: Router


@dataclass(frozen=True, slots=True, kw_only=True)
class Disaggregation:
    """What `ClusterSpec` needs more where prefill and decode are apart.

    The instances of the `ClusterSpec` itself are then the ones that arrivals can be sent to:
    those that prefill only, and after them `num_mixed` that also decode.

    Attributes:
        decode: the decode instances.
        kv_bytes_per_token: KV of one token, all layers and GPUs of an instance.
        num_layers: layers of the model; the last one's KV can leave only after the step.
        peer_link: between the GPUs of two instances.
        host_link: between the GPUs of an instance and the memory of its host; None for none.
        num_mixed: instances that prefill and decode, and take KV from others too.
        feeder: makes what decides which KV moves where, and when.
        host_pool_bytes: memory for KV on the host, shared by all instances.
        prefill_buffer_bytes: memory for KV beside the cache of each prefill instance.
    """

    decode: DecodePool
    kv_bytes_per_token: int
    num_layers: int
    peer_link: LinkSpec
    host_link: LinkSpec | None = None
    num_mixed: int = 0
    feeder: Callable[[], DecodeFeeder] = DirectFeeder
    host_pool_bytes: int = 0
    prefill_buffer_bytes: int = 0

    def validate(self, cluster: "ClusterSpec") -> None:
        """Check the values against each other and against the rest of the cluster.

        Args:
            cluster: the cluster that these are a part of.

        Raises:
            ConfigError: names the value and what is allowed.
        """
        if not 0 <= self.num_mixed < cluster.num_instances:
            raise ConfigError(
                f"cluster.num_mixed={self.num_mixed}: must be at least 0, and at least one "
                "instance must prefill only"
            )
        if self.decode.num_instances < 1 and not self.num_mixed:
            raise ConfigError(f"cluster.num_decode={self.decode.num_instances}: must be at least 1")
        if self.decode.num_gpu_blocks < 2:
            raise ConfigError(
                f"cluster.decode_num_gpu_blocks={self.decode.num_gpu_blocks}: must be at least 2"
            )
        for rules in (cluster.rules, self.decode.rules):
            refuse_other_rules(rules)
        for cost in (cluster.cost, self.decode.cost):
            _refuse_placement(cost)
        if cluster.front_end is not None:
            raise ConfigError(
                "frontend.enabled=true is not modelled with cluster=disaggregated: leave it out"
            )
        self.peer_link.validate("cluster.link")
        if self.host_link is not None:
            self.host_link.validate("cluster.host_link")
        for name in ("kv_bytes_per_token", "num_layers"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name}={getattr(self, name)}: must be at least 1")
        for name in ("host_pool_bytes", "prefill_buffer_bytes"):
            if getattr(self, name) < 0:
                raise ConfigError(f"cluster.{name}={getattr(self, name)}: must be at least 0")
        if getattr(self.decode.router, "uses_prefix_match", False):
            raise ConfigError(
                f"cluster.decode_routing: router {type(self.decode.router).__name__} matches "
                "prefixes, and a decode instance keeps none; choose another router"
            )


def refuse_other_rules(rules: EngineRules) -> None:
    """Only one engine is modelled with separate prefill and decode.

    Raises:
        ConfigError: the rules are not those of synchronous vLLM v1.
    """
    if type(rules) is not VllmV1:
        raise ConfigError(
            f"cluster=disaggregated works with engine=vllm_v1 only, not with {type(rules).__name__}"
        )
    if rules.lag:
        raise ConfigError(
            "engine.async_scheduling=true is not modelled with cluster=disaggregated: leave it out"
        )


def _refuse_placement(cost: CostModel) -> None:
    """Executors that place KV by themselves know nothing of KV that comes from elsewhere.

    Raises:
        ConfigError: the executor keeps physical blocks or slots.
    """
    if not isinstance(cost, ExecutedCost):
        return
    if cost.max_request_tokens is not None or cost.plans_every_step:
        raise ConfigError(
            "executor=static_graph and kv_rm place KV themselves and are not modelled with "
            "cluster=disaggregated: choose another executor"
        )
