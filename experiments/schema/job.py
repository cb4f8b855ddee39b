"""The configuration of one job, typed and checked.

Defaults live in `experiments/conf/**` alone: a key that the composed configuration lacks is an
error here, and so is one that nothing reads.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from experiments.schema.checks import (
    checked,
    flag,
    number,
    one_of,
    optional,
    period,
    text,
    whole,
    window,
)
from experiments.schema.lengths import expand_lengths
from experiments.schema.plugin import TARGET, Plugin, read_plugin
from experiments.schema.section import as_mapping, build_section, refuse_unknown
from sim.errors import ConfigError

T = TypeVar("T")
Source = TypeVar("Source", "ModelConfig", "HardwareConfig")

FIDELITIES = ("roofline",)
"""Cost models that exist."""

MAX_INSTANCES = MAX_BLOCK_TOKENS = 65_536
MAX_ENGINE_SIZE = 10**9
MAX_GPU_BLOCKS = 10**12
MAX_SEED = 2**63 - 1
SHORTEST_PERIOD_S = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceOptions:
    """What every kind of trace goes through: window, limit, rate, in this order."""

    window_s: float | tuple[float, float] | None = checked(optional(window))
    limit: int | None = checked(optional(whole(1)))
    rate_scale: float = checked(number(above=0))


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """A model by catalogue name or by path."""

    name: str | None = checked(optional(text))
    path: str | None = checked(optional(text))


@dataclass(frozen=True, slots=True, kw_only=True)
class HardwareConfig:
    """A GPU by profile name or by path, and how finely its steps are priced."""

    profile: str | None = checked(optional(text))
    path: str | None = checked(optional(text))
    fidelity: str = checked(one_of(*FIDELITIES))


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterConfig:
    """Replicas."""

    num_instances: int = checked(whole(1, MAX_INSTANCES))
    tensor_parallel: int = checked(whole(1))


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOptions:
    """What every engine has; null sizes take the engine's default for the GPU."""

    max_num_seqs: int | None = checked(optional(whole(1, MAX_ENGINE_SIZE)))
    max_num_batched_tokens: int | None = checked(optional(whole(1, MAX_ENGINE_SIZE)))
    prefix_caching: bool = checked(flag)
    block_tokens: int = checked(whole(1, MAX_BLOCK_TOKENS))
    num_gpu_blocks: int | None = checked(optional(whole(2, MAX_GPU_BLOCKS)))
    gpu_memory_utilization: float | None = checked(optional(number(above=0, high=1)))
    max_model_len: int | None = checked(optional(whole(2, MAX_ENGINE_SIZE)))
    macro_steps: bool = checked(flag)


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutingOptions:
    """How old a router's view is; `sim.cluster` refuses both at once."""

    view_delay_s: float = checked(number())
    publish_period_s: float = checked(period(SHORTEST_PERIOD_S))


@dataclass(frozen=True, slots=True, kw_only=True)
class SloConfig:
    """What a good request must not exceed."""

    ttft_s: float = checked(number(above=0))
    tpot_s: float = checked(number(above=0))


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputConfig:
    """Optional files."""

    steps: bool = checked(flag)
    timeline: bool = checked(flag)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobConfig:
    """One job: what to simulate and what to write."""

    trace: Plugin
    trace_options: TraceOptions
    model: ModelConfig
    hardware: HardwareConfig
    cluster: ClusterConfig
    engine: Plugin
    engine_options: EngineOptions
    batching: Plugin
    routing: Plugin
    routing_options: RoutingOptions
    eviction: Plugin
    admission: Plugin
    slo: SloConfig
    output: OutputConfig
    seed: int
    check: bool

    @property
    def plugins(self) -> tuple[Plugin, ...]:
        """All classes that the configuration names."""
        return (
            self.trace,
            self.engine,
            self.batching,
            self.routing,
            self.eviction,
            self.admission,
        )


_TOP_KEYS = (
    "trace",
    "model",
    "hardware",
    "cluster",
    "engine",
    "batching",
    "routing",
    "eviction",
    "admission",
    "slo",
    "output",
    "seed",
    "check",
)


def read_job(config: Mapping[str, Any]) -> JobConfig:
    """Check a composed and resolved configuration.

    Raises:
        ConfigError: names the key, the value and what is allowed.
    """
    refuse_unknown("", config, _TOP_KEYS)
    for key in _TOP_KEYS:
        if key not in config:
            raise ConfigError(f"{key} is missing")
    trace, trace_options = _trace(config)
    engine, engine_options = _with_options(
        config, "engine", "plan_step", EngineOptions, ("max_num_seqs", "max_num_batched_tokens")
    )
    _refuse_unread_utilization(engine_options)
    routing, routing_options = _with_options(config, "routing", "route", RoutingOptions)
    _refuse_unseen_staleness(routing, routing_options)
    return JobConfig(
        trace=trace,
        trace_options=trace_options,
        model=_one_source(_section(config, "model", ModelConfig), "model", "name"),
        hardware=_one_source(_section(config, "hardware", HardwareConfig), "hardware", "profile"),
        cluster=_section(config, "cluster", ClusterConfig),
        engine=engine,
        engine_options=engine_options,
        batching=_plugin(config, "batching", "candidates"),
        routing=routing,
        routing_options=routing_options,
        eviction=_plugin(config, "eviction", "key"),
        admission=_plugin(config, "admission", "admit"),
        slo=_section(config, "slo", SloConfig),
        output=_section(config, "output", OutputConfig),
        seed=whole(0, MAX_SEED)("seed", config["seed"]),
        check=flag("check", config["check"]),
    )


def _section(config: Mapping[str, Any], key: str, section: type[T]) -> T:
    return build_section(section, key, as_mapping(key, config[key]))


def _plugin(config: Mapping[str, Any], key: str, method: str) -> Plugin:
    return read_plugin(key, as_mapping(key, config[key]), method=method)


def _with_options(
    config: Mapping[str, Any],
    key: str,
    method: str,
    section: type[T],
    supplied: tuple[str, ...] = (),
) -> tuple[Plugin, T]:
    """A plugin whose section also holds options that are not for its constructor."""
    values = as_mapping(key, config[key])
    common = tuple(item.name for item in fields(section))  # type: ignore[arg-type]
    plugin = read_plugin(key, values, method=method, common=common, supplied=supplied)
    options = build_section(section, key, values, more=[*plugin.options, TARGET])
    return plugin, options


def _trace(config: Mapping[str, Any]) -> tuple[Plugin, TraceOptions]:
    plugin, options = _with_options(config, "trace", "load", TraceOptions)
    spelled_out = expand_lengths(plugin.load_class(), plugin.options)
    return Plugin(key="trace", target=plugin.target, options=spelled_out), options


def _one_source(section: Source, key: str, name: str) -> Source:
    """Exactly one of name and path."""
    if (getattr(section, name) is None) == (section.path is None):
        raise ConfigError(f"{key}: exactly one of {key}.{name} and {key}.path must be given")
    return section


def _refuse_unread_utilization(options: EngineOptions) -> None:
    """With the number of blocks given, the share of memory decides nothing."""
    if options.num_gpu_blocks is not None and options.gpu_memory_utilization is not None:
        raise ConfigError(
            "engine.gpu_memory_utilization has no effect when engine.num_gpu_blocks is given: "
            "leave one of them out"
        )


def _refuse_unseen_staleness(routing: Plugin, options: RoutingOptions) -> None:
    """How old the view is decides nothing if the router does not look at it."""
    if getattr(routing.load_class(), "looks_at_cluster", True):
        return
    for item in fields(options):
        value = getattr(options, item.name)
        if value:
            raise ConfigError(
                f"routing.{item.name}={value:g} has no effect: router "
                f"{routing.target.rpartition('.')[2]} does not look at the cluster; leave it out "
                "or choose another router"
            )
