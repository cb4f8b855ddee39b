"""The section `cluster`: replicas that do everything, or instances with roles.

Which of the two it is follows from its keys: `num_prefill` makes it disaggregated.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from experiments.schema.checks import checked, number, one_of, optional, whole
from experiments.schema.plugin import Plugin, read_plugin
from experiments.schema.section import as_mapping, build_section
from sim.errors import ConfigError

MAX_INSTANCES = 65_536
MAX_ENGINE_SIZE = 10**9
MAX_GPU_BLOCKS = 10**12
MAX_BYTES = 10**18
MIN_BYTES_PER_S = 1.0
MAX_BYTES_PER_S = 1e15
MAX_LATENCY_S = 1e6

LINKS = ("nvlink", "pcie", "nic")
TRANSFERS = ("after_prefill", "layerwise")
OF_ARRIVALS = ("view_delay_s", "publish_period_s", "assume_dispatches", "tie_shift")
"""Keys of `routing` that a decode router does not have: it always sees the present."""

DEFAULT_DECODE_ROUTER = "policies.routing.least_requests.LeastRequests"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterConfig:
    """Replicas that requests are sent to when they arrive."""

    num_instances: int = checked(whole(1, MAX_INSTANCES))
    tensor_parallel: int = checked(whole(1))


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleOptions:
    """Instances with roles, the link between them, and sizes of the decode side.

    What is null is as on the prefill side, or as the link has it.
    """

    num_prefill: int = checked(whole(1, MAX_INSTANCES))
    num_decode: int = checked(whole(1, MAX_INSTANCES))
    num_mixed: int = checked(whole(0, MAX_INSTANCES))
    tensor_parallel: int = checked(whole(1))
    link: str = checked(one_of(*LINKS))
    link_bytes_per_s: float | None = checked(
        optional(number(low=MIN_BYTES_PER_S, high=MAX_BYTES_PER_S))
    )
    link_latency_s: float | None = checked(optional(number(high=MAX_LATENCY_S)))
    transfer: str | None = checked(optional(one_of(*TRANSFERS)))
    decode_max_num_seqs: int | None = checked(optional(whole(1, MAX_ENGINE_SIZE)))
    decode_max_num_batched_tokens: int | None = checked(optional(whole(1, MAX_ENGINE_SIZE)))
    decode_num_gpu_blocks: int | None = checked(optional(whole(2, MAX_GPU_BLOCKS)))
    host_pool_bytes: int | None = checked(optional(whole(1, MAX_BYTES)))
    prefill_buffer_bytes: int | None = checked(optional(whole(1, MAX_BYTES)))


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleConfig:
    """A disaggregated cluster.

    Attributes:
        options: sizes and the link.
        decode_routing: picks the decode instance of a request.
        decode_batching: batch policy of the instances that decode only.
        feeder: decides which KV moves where and when; None for the plain hand-over.
    """

    options: RoleOptions
    decode_routing: Plugin
    decode_batching: Plugin
    feeder: Plugin | None

    @property
    def plugins(self) -> tuple[Plugin, ...]:
        """All classes that the section names."""
        more = () if self.feeder is None else (self.feeder,)
        return (self.decode_routing, self.decode_batching, *more)


def read_cluster(config: Mapping[str, Any]) -> tuple[ClusterConfig, RoleConfig | None]:
    """Check the section `cluster` of a configuration.

    Raises:
        ConfigError: names the key, the value and what is allowed.
    """
    values = as_mapping("cluster", config["cluster"])
    if "num_prefill" not in values:
        return build_section(ClusterConfig, "cluster", values), None
    parts = ("decode_routing", "decode_batching", "feeder")
    options = build_section(RoleOptions, "cluster", values, more=parts)
    for name in parts:
        if name not in values:
            raise ConfigError(f"cluster.{name} is missing")
    _refuse_staleness(as_mapping("cluster.decode_routing", values["decode_routing"]))
    roles = RoleConfig(
        options=options,
        decode_routing=_plugin(values, "decode_routing", "route"),
        decode_batching=_plugin(values, "decode_batching", "candidates"),
        feeder=None if values["feeder"] is None else _plugin(values, "feeder", "on_prefilled"),
    )
    _refuse_unread(roles)
    entry = ClusterConfig(
        num_instances=options.num_prefill + options.num_mixed,
        tensor_parallel=options.tensor_parallel,
    )
    return entry, roles


def _plugin(values: Mapping[str, Any], name: str, method: str) -> Plugin:
    key = f"cluster.{name}"
    return read_plugin(key, as_mapping(key, values[name]), method=method)


def _refuse_staleness(decode_routing: Mapping[str, Any]) -> None:
    """Some routers' own files set what only the router for arrivals has."""
    for key in OF_ARRIVALS:
        if key in decode_routing:
            where = f"cluster.decode_routing.{key}"
            raise ConfigError(
                f"{where}={decode_routing[key]}: only the router for arrivals has it; leave it out "
                f"(with ~{where} if it comes with the router)"
            )


def _refuse_unread(roles: RoleConfig) -> None:
    """Options that only some feeders read, and the one that only the plain hand-over reads."""
    options, found = roles.options, roles.feeder
    if found is None or not getattr(found.load_class(), "uses_stores", True):
        name = "null" if found is None else found.target.rpartition(".")[2]
        for key in ("host_pool_bytes", "prefill_buffer_bytes"):
            if getattr(options, key) is not None:
                raise ConfigError(
                    f"cluster.{key} has no effect with cluster.feeder={name}: leave it out"
                )
    if found is None:
        if options.transfer is None:
            allowed = " or ".join(TRANSFERS)
            raise ConfigError(f"cluster.transfer=null: must be {allowed} with cluster.feeder=null")
        return
    if options.transfer is not None:
        raise ConfigError(
            f"cluster.transfer={options.transfer} has no effect with a cluster.feeder of its own: "
            "set it to null"
        )
    feeder = found.load_class()
    if not getattr(feeder, "chooses_by_router", True):
        _refuse_other_choosers(feeder.__name__, roles)


def _refuse_other_choosers(feeder: str, roles: RoleConfig) -> None:
    """A feeder that picks the decode instances itself reads no decode router."""
    router = roles.decode_routing
    if router.target != DEFAULT_DECODE_ROUTER:
        raise ConfigError(
            f"cluster.decode_routing={router.target.rpartition('.')[2]} has no effect: {feeder} "
            "chooses the decode instance itself; leave it out"
        )
    if roles.options.num_mixed:
        raise ConfigError(
            f"cluster.num_mixed={roles.options.num_mixed}: {feeder} works with instances that "
            "decode only; set it to 0"
        )
