"""What the lower tiers of the prefix cache are made of, in plain numbers."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sim.disaggregation.spec import LinkSpec
from sim.errors import ConfigError
from sim.executed_cost import ExecutedCost
from sim.interfaces import EvictionPolicy
from sim.vllm_v1 import VllmV1

if TYPE_CHECKING:
    from sim.cluster_spec import ClusterSpec

WRITE_BACK, WRITE_THROUGH = "write_back", "write_through"
"""A block goes to the host when the GPU evicts it, or when it has been computed."""
BEFORE_PREFILL, LAYERWISE = "before_prefill", "layerwise"
"""A request waits for its load, or its first step waits for it layer by layer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TierSpec:
    """Host memory behind the GPU's KV blocks, and a remote store behind that.

    Attributes:
        host_blocks: KV blocks of one host.
        block_bytes: KV of one block, all layers and GPUs of an instance.
        host_link: between the GPUs of one instance and its host.
        num_layers: layers of the model.
        instances_per_host: instances that share the memory of a host; each has links of its own.
        remote_blocks: KV blocks of the store that all hosts share; 0 for none.
        remote_link: between one host and that store; None without one.
        write: WRITE_BACK or WRITE_THROUGH.
        load: BEFORE_PREFILL or LAYERWISE.
        min_hit_tokens: a shorter hit behind that of the GPU is computed, tokens.
        write_backlog_bytes: blocks that would leave more than this waiting for their link are
            dropped.
        eviction: makes the eviction policy of a tier, None is LRU.
    """

    host_blocks: int
    block_bytes: int
    host_link: LinkSpec
    num_layers: int = 1
    instances_per_host: int = 1
    remote_blocks: int = 0
    remote_link: LinkSpec | None = None
    write: str = WRITE_BACK
    load: str = BEFORE_PREFILL
    min_hit_tokens: int = 0
    write_backlog_bytes: int = 1 << 62
    eviction: Callable[[], EvictionPolicy] | None = None

    def validate(self, cluster: "ClusterSpec") -> None:
        """Check the values against each other and against the rest of the cluster.

        Raises:
            ConfigError: names the value and what is allowed.
        """
        for name in ("host_blocks", "block_bytes", "num_layers", "instances_per_host"):
            if getattr(self, name) < 1:
                raise ConfigError(f"kv_tiers: {name}={getattr(self, name)}: must be at least 1")
        for name in ("remote_blocks", "min_hit_tokens", "write_backlog_bytes"):
            if getattr(self, name) < 0:
                raise ConfigError(f"kv_tiers: {name}={getattr(self, name)}: must be at least 0")
        for name, allowed in (
            ("write", (WRITE_BACK, WRITE_THROUGH)),
            ("load", (BEFORE_PREFILL, LAYERWISE)),
        ):
            if getattr(self, name) not in allowed:
                raise ConfigError(
                    f"kv_tiers.{name}={getattr(self, name)}: must be one of {', '.join(allowed)}"
                )
        self.host_link.validate("kv_tiers: host link")
        if self.remote_link is not None:
            self.remote_link.validate("kv_tiers: remote link")
        if (self.remote_link is None) != (self.remote_blocks == 0):
            raise ConfigError("kv_tiers: a remote store needs both blocks and a link")
        if self.load == LAYERWISE and self.remote_blocks:
            raise ConfigError(
                "kv_tiers.load=layerwise is modelled for host memory only: leave out "
                "kv_tiers.remote_bytes, or choose kv_tiers.load=before_prefill"
            )
        self._refuse_others(cluster)

    def _refuse_others(self, cluster: "ClusterSpec") -> None:
        if type(cluster.rules) is not VllmV1:
            raise ConfigError(
                "kv_tiers.host_bytes works with engine=vllm_v1 only, not with "
                f"{type(cluster.rules).__name__}: leave it out"
            )
        if cluster.disaggregation is not None:
            raise ConfigError(
                "kv_tiers.host_bytes is not modelled with cluster=disaggregated: leave it out"
            )
        if not cluster.prefix_caching:
            raise ConfigError(
                "kv_tiers.host_bytes has no effect when engine.prefix_caching=false: leave it out"
            )
        cost = cluster.cost
        if isinstance(cost, ExecutedCost) and (
            cost.max_request_tokens is not None or cost.plans_every_step
        ):
            raise ConfigError(
                "executor=static_graph and kv_rm place KV themselves and are not modelled with "
                "kv_tiers.host_bytes: choose another executor"
            )
