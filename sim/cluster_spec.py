"""What a simulated cluster is made of, and which parts do not go together."""

from collections.abc import Callable
from dataclasses import dataclass

from sim.disaggregation.spec import Disaggregation
from sim.engine_rules import BringsParts, EngineRules
from sim.errors import ConfigError
from sim.front_end import FrontEnd
from sim.interfaces import AdmissionPolicy, BatchPolicy, CostModel, EvictionPolicy, Router
from sim.scheduler_cost import SchedulerCost
from sim.shadowed_attributes import refuse_shadowed
from sim.tie_shift import refuse_shift
from sim.tiers.spec import TierSpec

MAX_INSTANCES = 65_536
MAX_BLOCK_TOKENS = 65_536
"""Bounds that no real cluster comes near; beyond them memory runs out without a word."""

_WHOLE_NUMBERS = ("num_instances", "num_gpu_blocks", "block_tokens", "max_model_len", "tie_shift")
_SWITCHES = (
    *("prefix_caching", "macro_steps", "assume_dispatches"),
    *("record_costs", "record_decisions", "check"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSpec:
    """What to simulate, beside the workload.

    Attributes:
        num_instances: replicas.
        num_gpu_blocks: KV blocks of each, the null block included.
        rules: engine rules.
        cost: cost model, shared by all instances.
        batching: makes the batch policy of an instance, given its id.
        router: picks instances.
        admission: accepts requests, None accepts all.
        eviction: makes the eviction policy of an instance, None is LRU.
        block_tokens: tokens per KV block.
        prefix_caching: whether finished requests' blocks can be hit.
        macro_steps: False plans every step on its own.
        max_model_len: longest prompt plus output, tokens; None does not enforce one.
        view_delay_s: age of the router's view, seconds.
        publish_period_s: period at which the router's view is published, 0 for live, seconds.
        assume_dispatches: whether the router adds what it has sent itself to a view that is old.
        tie_shift: places by which the router's order of ties moves on, see `sim.tie_shift`.
        front_end: what stands between users and engines, None for nothing.
        scheduler: what the CPU time of the batch policy costs, None for nothing.
        disaggregation: what takes over after the prefill, None for nothing: then `num_instances`
            prefill and decode.
        tiers: what lies behind the prefix caches of the GPUs, None for nothing.
        record_costs: hand back the cost terms of every run of steps.
        record_decisions: hand back every decision of the router, see `sim.decision_log`.
        check: verify the invariants while the simulation runs.
    """

    num_instances: int
    num_gpu_blocks: int
    rules: EngineRules
    cost: CostModel
    batching: Callable[[int], BatchPolicy]
    router: Router
    admission: AdmissionPolicy | None = None
    eviction: Callable[[], EvictionPolicy] | None = None
    block_tokens: int = 16
    prefix_caching: bool = True
    macro_steps: bool = True
    max_model_len: int | None = None
    view_delay_s: float = 0.0
    publish_period_s: float = 0.0
    assume_dispatches: bool = False
    tie_shift: int = 0
    front_end: FrontEnd | None = None
    scheduler: SchedulerCost | None = None
    disaggregation: Disaggregation | None = None
    tiers: TierSpec | None = None
    record_costs: bool = False
    record_decisions: bool = False
    check: bool = False

    @property
    def num_all_instances(self) -> int:
        """Instances of every role."""
        parts = self.disaggregation
        return self.num_instances + (0 if parts is None else parts.decode.num_instances)

    @property
    def least_gpu_blocks(self) -> int:
        """KV blocks of an instance with the fewest, the null block included."""
        parts = self.disaggregation
        if parts is None:
            return self.num_gpu_blocks
        return min(self.num_gpu_blocks, parts.decode.num_gpu_blocks)

    def validate(self) -> None:
        """Check the values against each other.

        Raises:
            ConfigError: names the value and what is allowed.
        """
        self._check_types()
        for part in (self.rules, self.cost):
            refuse_shadowed(part)
        if not 1 <= self.num_instances <= MAX_INSTANCES:
            raise ConfigError(
                f"cluster.num_instances={self.num_instances}: must be 1 to {MAX_INSTANCES:,}"
            )
        if self.num_gpu_blocks < 2:
            raise ConfigError(
                f"engine.num_gpu_blocks={self.num_gpu_blocks}: must be at least 2 "
                "(one block is the null block)"
            )
        if not 1 <= self.block_tokens <= MAX_BLOCK_TOKENS:
            raise ConfigError(
                f"engine.block_tokens={self.block_tokens}: must be 1 to {MAX_BLOCK_TOKENS:,}"
            )
        if self.max_model_len is not None and self.max_model_len < 1:
            raise ConfigError(f"engine.max_model_len={self.max_model_len}: must be at least 1")
        for name in ("view_delay_s", "publish_period_s"):
            value = getattr(self, name)
            if not 0 <= value < float("inf"):
                raise ConfigError(f"routing.{name}={value}: must be finite and >= 0")
        if self.view_delay_s and self.publish_period_s:
            raise ConfigError(
                "routing.view_delay_s and routing.publish_period_s cannot both be set: "
                "a view is either delayed or published"
            )
        if self.assume_dispatches and not (self.view_delay_s or self.publish_period_s):
            raise ConfigError(
                "routing.assume_dispatches=true has no effect on a live view: leave it out, or set "
                "routing.view_delay_s or routing.publish_period_s"
            )
        refuse_shift(self.tie_shift, self.num_instances, self.router)
        self._refuse_unreported_prefixes()
        if self.front_end is not None:
            self.front_end.validate()
            if self.front_end.hash_block_s and not self.prefix_caching:
                raise ConfigError(
                    f"frontend.hash_block_s={self.front_end.hash_block_s:g} has no effect when "
                    "engine.prefix_caching=false: leave it out"
                )
        if self.scheduler is not None:
            self.scheduler.validate()
        if self.disaggregation is not None:
            self.disaggregation.validate(self)
        if self.tiers is not None:
            self.tiers.validate(self)

    def _check_types(self) -> None:
        """Numbers of other libraries and truth in disguise end here, not inside the engine."""
        for name in _WHOLE_NUMBERS:
            value = getattr(self, name)
            is_left_out = value is None and name == "max_model_len"
            if type(value) is not int and not is_left_out:
                raise ConfigError(f"ClusterSpec.{name}={value!r}: must be an int")
        for name in _SWITCHES:
            value = getattr(self, name)
            if type(value) is not bool:
                raise ConfigError(f"ClusterSpec.{name}={value!r}: must be True or False")

    def _refuse_unreported_prefixes(self) -> None:
        """A router cannot hear late of a cache that reports no events."""
        name = "view_delay_s" if self.view_delay_s else "publish_period_s"
        is_stale = bool(getattr(self, name))
        is_matching = getattr(self.router, "uses_prefix_match", False)
        if is_stale and is_matching and isinstance(self.rules, BringsParts):
            raise ConfigError(
                f"routing.{name}={getattr(self, name):g}: router {type(self.router).__name__} "
                f"matches prefixes, and the KV cache of engine {type(self.rules).__name__} "
                "reports no events: leave it out"
            )
