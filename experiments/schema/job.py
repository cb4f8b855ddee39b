"""The configuration of one job, typed and checked.

Defaults live in `experiments/conf/**` alone: a key that the composed configuration lacks is an
error here, and so is one that nothing reads.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
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
from experiments.schema.cluster import ClusterConfig, RoleConfig, read_cluster
from experiments.schema.front_end import FrontEndConfig, refuse_unread_constants, why_unhashed
from experiments.schema.kv_tiers import KvTiersConfig, refuse_unread_tiers
from experiments.schema.lengths import expand_lengths
from experiments.schema.plugin import TARGET, Plugin, read_plugin
from experiments.schema.scheduler import SchedulerConfig, refuse_unread_scheduler
from experiments.schema.section import as_mapping, build_section, refuse_unknown
from sim.errors import ConfigError
from traces.options import MAX_TIME_S
from traces.transforms.options import COPY_OFFSETS, Transforms

T = TypeVar("T")
Source = TypeVar("Source", "ModelConfig", "HardwareConfig")

FIDELITIES = ("roofline", "calibrated", "calibrated_l2", "table")
"""Cost models, from the coarsest on."""

MAX_BLOCK_TOKENS = 65_536
MAX_ENGINE_SIZE = 10**9
MAX_GPU_BLOCKS = 10**12
MAX_REPLICATIONS = 10_000
MAX_SEED = 2**63 - 1
SHORTEST_PERIOD_S = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceOptions:
    """What every kind of trace goes through (`traces.transforms.Transforms`)."""

    window_s: float | tuple[float, float] | None = checked(optional(window))
    sample: float = checked(number(above=0, high=1))
    limit: int | None = checked(optional(whole(1)))
    scale_prompt: float = checked(number(above=0))
    scale_output: float = checked(number(above=0))
    max_output_tokens: int | None = checked(optional(whole(1)))
    max_prompt_tokens: int | None = checked(optional(whole(1)))
    strip_prefixes: bool = checked(flag)
    copies: int = checked(whole(1))
    copy_offsets: str | None = checked(optional(one_of(*COPY_OFFSETS)))
    poissonise: bool = checked(flag)
    rate_scale: float = checked(number(above=0))
    shift_s: float = checked(number(low=-MAX_TIME_S, high=MAX_TIME_S))
    anonymise: bool = checked(flag)
    replay_concurrency: int | None = checked(optional(whole(1)))
    replay_think_time_s: float | None = checked(optional(number()))


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """A model by catalogue name or by path; `max_context_tokens` in place of its own."""

    name: str | None = checked(optional(text))
    path: str | None = checked(optional(text))
    max_context_tokens: int | None = checked(optional(whole(2, MAX_ENGINE_SIZE)))


@dataclass(frozen=True, slots=True, kw_only=True)
class HardwareConfig:
    """A GPU by profile name or by path, and how finely its steps are priced.

    With `allow_transfer` a GPU without kernels takes those of another one. `table` is the file of
    measured points of that fidelity.
    """

    profile: str | None = checked(optional(text))
    path: str | None = checked(optional(text))
    fidelity: str = checked(one_of(*FIDELITIES))
    allow_transfer: bool = checked(flag)
    table: str | None = checked(optional(text))


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelConfig:
    """An attention kernel; what is null is up to the engine and the kernel."""

    name: str | None = checked(optional(text))
    family: str | None = checked(optional(text))
    member_order: str | None = checked(optional(text))
    mixed_batch: str | None = checked(optional(text))


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
    """How old a router's view is; `sim.cluster` refuses both at once. And its order of ties."""

    view_delay_s: float = checked(number())
    publish_period_s: float = checked(period(SHORTEST_PERIOD_S))
    assume_dispatches: bool = checked(flag)
    tie_shift: int = checked(whole(0))


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
    decisions: bool = checked(flag)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobConfig:
    """One job: what to simulate and what to write.

    `cluster` are the instances that arrivals are sent to; `roles` what makes them and others
    prefill or decode, None where all do both. `load` is the offered load as a share of the flood
    throughput; None: that of the trace. With `flood` all requests come at once.
    """

    trace: Plugin
    trace_options: TraceOptions
    model: ModelConfig
    hardware: HardwareConfig
    kernel: KernelConfig
    cluster: ClusterConfig
    roles: RoleConfig | None
    engine: Plugin
    engine_options: EngineOptions
    executor: Plugin
    batching: Plugin
    routing: Plugin
    routing_options: RoutingOptions
    eviction: Plugin
    admission: Plugin
    frontend: FrontEndConfig
    scheduler: SchedulerConfig
    kv_tiers: KvTiersConfig
    slo: SloConfig
    output: OutputConfig
    seed: int
    check: bool
    replications: int = 1
    load: float | None = None
    flood: bool = False
    warmup_s: float = 0.0
    warmup_requests: int = 0

    @property
    def plugins(self) -> tuple[Plugin, ...]:
        """All classes that the configuration names."""
        return (
            self.trace,
            self.engine,
            self.executor,
            self.batching,
            self.routing,
            self.eviction,
            self.admission,
            *(() if self.roles is None else self.roles.plugins),
        )


_TOP_KEYS = (
    "trace",
    "model",
    "hardware",
    "kernel",
    "cluster",
    "engine",
    "executor",
    "batching",
    "routing",
    "eviction",
    "admission",
    "frontend",
    "scheduler",
    "kv_tiers",
    "slo",
    "output",
    "seed",
    "check",
    "replications",
)


def read_job(config: Mapping[str, Any]) -> JobConfig:
    """Check a composed and resolved configuration.

    Raises:
        ConfigError: names the key, the value and what is allowed.
    """
    if "parts" in config:
        raise ConfigError(
            "parts: the parts of trace=mix are in the section trace: write "
            "+trace@trace.parts.NAME.trace=KIND to add one"
        )
    if "experiment" in config:
        raise ConfigError(
            "experiment: a study has jobs of its own and cannot be one: run it with "
            "flocksim experiment=NAME, without -m, or with flocksim-study NAME"
        )
    refuse_unknown("", config, _TOP_KEYS)
    for key in _TOP_KEYS:
        if key not in config:
            raise ConfigError(f"{key} is missing")
    given = as_mapping("trace", config["trace"])
    load: float | None = optional(number(above=0))("trace.load", given.get("load"))
    is_flood = flag("trace.flood", given.get("flood", False))
    warmup_s = number(high=MAX_TIME_S)("trace.warmup_s", given.get("warmup_s", 0.0))
    warmup_requests = whole(0)("trace.warmup_requests", given.get("warmup_requests", 0))
    of_trace = {key: value for key, value in given.items() if key not in ON_A_CLUSTER}
    trace, trace_options = read_trace({"trace": of_trace})
    _refuse_two_rates(load, is_flood, trace_options)
    engine, engine_options = _with_options(
        config, "engine", "plan_step", EngineOptions, ("max_num_seqs", "max_num_batched_tokens")
    )
    _refuse_unread_utilization(engine_options)
    _refuse_other_pages(engine, engine_options)
    routing, routing_options = _with_options(config, "routing", "route", RoutingOptions)
    _refuse_unseen_staleness(routing, routing_options)
    frontend = _section(config, "frontend", FrontEndConfig)
    refuse_unread_constants(frontend, why_unhashed(engine, engine_options.prefix_caching))
    scheduler = _section(config, "scheduler", SchedulerConfig)
    refuse_unread_scheduler(scheduler)
    kv_tiers = _section(config, "kv_tiers", KvTiersConfig)
    refuse_unread_tiers(kv_tiers)
    cluster, roles = read_cluster(config)
    return JobConfig(
        trace=trace,
        trace_options=trace_options,
        model=_one_source(_section(config, "model", ModelConfig), "model", "name"),
        hardware=_one_source(_section(config, "hardware", HardwareConfig), "hardware", "profile"),
        kernel=_section(config, "kernel", KernelConfig),
        cluster=cluster,
        roles=roles,
        engine=engine,
        engine_options=engine_options,
        executor=_plugin(config, "executor", "fit"),
        batching=_plugin(config, "batching", "candidates"),
        routing=routing,
        routing_options=routing_options,
        eviction=_plugin(config, "eviction", "key"),
        admission=_plugin(config, "admission", "admit"),
        frontend=frontend,
        scheduler=scheduler,
        kv_tiers=kv_tiers,
        slo=_section(config, "slo", SloConfig),
        output=_section(config, "output", OutputConfig),
        seed=whole(0, MAX_SEED)("seed", config["seed"]),
        check=flag("check", config["check"]),
        replications=whole(1, MAX_REPLICATIONS)("replications", config["replications"]),
        load=load,
        flood=is_flood,
        warmup_s=warmup_s,
        warmup_requests=warmup_requests,
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


ON_A_CLUSTER = ("load", "flood", "warmup_s", "warmup_requests")
"""Keys of the section `trace` that are read with the cluster, not with the trace."""

OLDEST_OPTIONS = ("window_s", "limit", "rate_scale")
"""Options of every trace that must be given, as all other keys must; the transforms need not be."""


def read_trace(config: Mapping[str, Any]) -> tuple[Plugin, TraceOptions]:
    """The kind of trace and what it goes through, from a configuration with a section `trace`.

    Raises:
        ConfigError: names the key, the value and what is allowed.
    """
    given = dict(as_mapping("trace", config["trace"]))
    for name in ON_A_CLUSTER:
        if given.pop(name, None):
            raise ConfigError(f"trace.{name}: concerns a run on a cluster, and here is none")
    unless_given = {k: v for k, v in asdict(Transforms()).items() if k not in OLDEST_OPTIONS}
    plugin, options = _with_options(
        {"trace": {**unless_given, **given}}, "trace", "load", TraceOptions
    )
    Transforms(**asdict(options))
    spelled_out = expand_lengths(plugin.load_class(), plugin.options)
    return Plugin(key="trace", target=plugin.target, options=spelled_out), options


def _refuse_two_rates(load: float | None, is_flood: bool, options: TraceOptions) -> None:
    """What decides when requests come leaves nothing for other options to decide."""
    asked = [] if load is None else [f"trace.load={load:g}"]
    asked += ["trace.flood=true"] if is_flood else []
    if not asked:
        return
    asked += [
        f"trace.{name}={value}"
        for name in ("rate_scale", "replay_concurrency")
        if (value := getattr(options, name)) != getattr(Transforms(), name)
    ]
    if len(asked) > 1:
        raise ConfigError(f"{asked[0]}: cannot be given together with {asked[1]}; leave one out")


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


def _refuse_other_pages(engine: Plugin, options: EngineOptions) -> None:
    """Some engines are modelled for one size of KV blocks only."""
    only = getattr(engine.load_class(), "only_block_tokens", None)
    if only is not None and options.block_tokens != only:
        raise ConfigError(
            f"engine.block_tokens={options.block_tokens}: engine "
            f"{engine.target.rpartition('.')[2]} is modelled with {only} only"
        )


def _refuse_unseen_staleness(routing: Plugin, options: RoutingOptions) -> None:
    """How old the view is decides nothing if the router does not look at it."""
    if getattr(routing.load_class(), "looks_at_cluster", True):
        return
    for name in ("view_delay_s", "publish_period_s", "assume_dispatches"):
        value = getattr(options, name)
        if value:
            raise ConfigError(
                f"routing.{name}={str(value).lower()} has no effect: router "
                f"{routing.target.rpartition('.')[2]} does not look at the cluster; leave it out "
                "or choose another router"
            )
