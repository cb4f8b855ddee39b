"""From the roles of a configuration to what `sim` needs of a disaggregated cluster."""

from collections.abc import Callable
from dataclasses import replace

from experiments.schema.cluster import RoleConfig, RoleOptions
from experiments.schema.job import JobConfig
from hwmodels.device import DeviceSpec
from hwmodels.links import Link, host_link, network_link, peer_link
from hwmodels.model_shape import ModelShape
from sim.cluster_spec import ClusterSpec
from sim.disaggregation.direct import DirectFeeder
from sim.disaggregation.interfaces import DecodeFeeder
from sim.disaggregation.spec import DecodePool, Disaggregation, LinkSpec
from sim.errors import ConfigError


def decode_config(config: JobConfig, roles: RoleConfig) -> JobConfig:
    """The configuration with the sizes of the decode instances in the place of the engine's."""
    options, engine = roles.options, config.engine_options
    if options.decode_max_num_seqs is not None:
        engine = replace(engine, max_num_seqs=options.decode_max_num_seqs)
    if options.decode_max_num_batched_tokens is not None:
        engine = replace(engine, max_num_batched_tokens=options.decode_max_num_batched_tokens)
    if options.decode_num_gpu_blocks is not None:
        engine = replace(
            engine, num_gpu_blocks=options.decode_num_gpu_blocks, gpu_memory_utilization=None
        )
    return replace(config, engine_options=engine, roles=None)


def with_roles(
    spec: ClusterSpec,
    roles: RoleConfig,
    device: DeviceSpec,
    shape: ModelShape,
    decode: ClusterSpec,
) -> ClusterSpec:
    """The cluster with what takes over after the prefill.

    Args:
        spec: the instances that arrivals are sent to.
        roles: the options.
        device: the GPU of all instances.
        shape: the whole model.
        decode: sizes, rules and cost of the instances that decode only.

    Raises:
        ConfigError: a value does not fit the others.
    """
    options = roles.options
    roles.decode_batching.build()  # a constructor that refuses must do so before the trace is read
    pool = DecodePool(
        num_instances=options.num_decode,
        num_gpu_blocks=decode.num_gpu_blocks,
        rules=decode.rules,
        cost=decode.cost,
        batching=lambda _instance: roles.decode_batching.build(),
        router=roles.decode_routing.build(),
    )
    feeder = feeder_maker(roles)
    block_bytes = shape.kv_bytes_per_token * spec.block_tokens
    parts = Disaggregation(
        decode=pool,
        kv_bytes_per_token=shape.kv_bytes_per_token,
        num_layers=shape.num_layers,
        peer_link=_spec(given_link(options, device), options.tensor_parallel),
        host_link=_spec(host_link(device), options.tensor_parallel),
        num_mixed=options.num_mixed,
        feeder=feeder,
        host_pool_bytes=options.host_pool_bytes or 0,
        prefill_buffer_bytes=_buffer_bytes(
            options, feeder, spec.num_gpu_blocks * block_bytes, decode.num_gpu_blocks * block_bytes
        ),
    )
    num_buffer_blocks = -(-parts.prefill_buffer_bytes // block_bytes)
    if num_buffer_blocks > spec.num_gpu_blocks - 2:
        raise ConfigError(
            f"cluster.prefill_buffer_bytes={parts.prefill_buffer_bytes}: must leave room for KV "
            f"blocks of the prefill instance, which has {spec.num_gpu_blocks:,} of {block_bytes:,} "
            "bytes"
        )
    num_gpu_blocks = spec.num_gpu_blocks - num_buffer_blocks
    found = replace(spec, num_gpu_blocks=num_gpu_blocks, disaggregation=parts)
    found.validate()
    return found


def given_link(options: RoleOptions, device: DeviceSpec) -> Link:
    """The link of one GPU to those of other instances.

    Raises:
        ConfigError: the GPU has no such link.
    """
    if options.link == "nvlink" and not device.nvlink_bytes_per_s:
        raise ConfigError(f"cluster.link=nvlink: {device.name} has none; choose pcie or nic")
    links: dict[str, Callable[[], Link]] = {
        "nvlink": lambda: peer_link(device),
        "pcie": lambda: host_link(device),
        "nic": network_link,
    }
    link = links[options.link]()
    if options.link_bytes_per_s is not None:
        link = replace(link, bytes_per_s=options.link_bytes_per_s, source="given")
    if options.link_latency_s is not None:
        link = replace(link, latency_s=options.link_latency_s, source="given")
    return link


def feeder_maker(roles: RoleConfig) -> "FeederMaker":
    """What makes the feeder of a run.

    Raises:
        ConfigError: its constructor refuses an option.
    """
    if roles.feeder is not None:
        return FeederMaker(roles.feeder.build)
    is_layerwise = roles.options.transfer == "layerwise"
    return FeederMaker(lambda: DirectFeeder(is_layerwise))


class FeederMaker:
    """Makes feeders, and remembers the last one for the figures of its run.

    Attributes:
        last: the feeder that was made last.
    """

    def __init__(self, build: Callable[[], DecodeFeeder]) -> None:
        self._build = build
        self.last = build()  # a constructor that refuses must do so before the trace is read

    def __call__(self) -> DecodeFeeder:
        """A new feeder."""
        self.last = self._build()
        return self.last


def _buffer_bytes(
    options: RoleOptions, feeder: FeederMaker, prefill_bytes: int, decode_bytes: int
) -> int:
    """Memory beside the cache of a prefill instance: as given, or as the feeder would have it.

    At most half of the KV of the prefill instance.
    """
    if options.prefill_buffer_bytes is not None:
        return options.prefill_buffer_bytes
    wanted = getattr(feeder.last, "wanted_buffer_bytes", None)
    if wanted is None:
        return 0
    num_sharing = -(-options.num_decode // options.num_prefill)
    return min(num_sharing * int(wanted(decode_bytes)), prefill_bytes // 2)


def _spec(link: Link, num_gpus: int) -> LinkSpec:
    """The links of all GPUs of an instance as one."""
    return LinkSpec(latency_s=link.latency_s, bytes_per_s=link.bytes_per_s * num_gpus)
