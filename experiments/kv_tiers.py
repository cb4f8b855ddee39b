"""From the section `kv_tiers` to what `sim` needs of the tiers behind the prefix caches."""

from collections.abc import Mapping
from typing import Any

from experiments.quantities import amount, count, duration, percent
from experiments.schema.job import JobConfig
from experiments.schema.kv_tiers import (
    DEFAULT_MIN_HIT_TOKENS,
    DEFAULT_WRITE_BACKLOG_BYTES,
    KvTiersConfig,
)
from hwmodels.device import DeviceSpec
from hwmodels.links import host_link, network_link
from hwmodels.model_shape import ModelShape
from sim.disaggregation.spec import LinkSpec
from sim.errors import ConfigError
from sim.tiers.spec import BEFORE_PREFILL, WRITE_BACK, TierSpec


def tiers_of(config: JobConfig, device: DeviceSpec, shape: ModelShape) -> TierSpec | None:
    """The tiers with their defaults filled in; None if there are none.

    Raises:
        ConfigError: a tier does not hold a single KV block.
    """
    options = config.kv_tiers
    if options.host_bytes is None:
        return None
    block_bytes = shape.kv_bytes_per_token * config.engine_options.block_tokens
    has_remote = options.remote_bytes is not None
    return TierSpec(
        host_blocks=_num_blocks("host_bytes", options.host_bytes, block_bytes),
        block_bytes=block_bytes,
        host_link=_host_link(options, device, config.cluster.tensor_parallel),
        num_layers=shape.num_layers,
        instances_per_host=options.instances_per_host or 1,
        remote_blocks=_num_blocks("remote_bytes", options.remote_bytes, block_bytes),
        remote_link=_remote_link(options) if has_remote else None,
        write=options.write or WRITE_BACK,
        load=options.load or BEFORE_PREFILL,
        min_hit_tokens=_or(options.min_hit_tokens, DEFAULT_MIN_HIT_TOKENS),
        write_backlog_bytes=_or(options.write_backlog_bytes, DEFAULT_WRITE_BACKLOG_BYTES),
        eviction=config.eviction.build,
    )


def _or(value: int | None, default: int) -> int:
    return default if value is None else value


def _num_blocks(name: str, num_bytes: int | None, block_bytes: int) -> int:
    if num_bytes is None:
        return 0
    if num_bytes < block_bytes:
        raise ConfigError(
            f"kv_tiers.{name}={num_bytes}: must hold at least one KV block, which has "
            f"{block_bytes:,} bytes"
        )
    return num_bytes // block_bytes


def _host_link(options: KvTiersConfig, device: DeviceSpec, num_gpus: int) -> LinkSpec:
    """One direction of the links of all GPUs of an instance; a rate that is given is of one GPU."""
    link = host_link(device)
    rate, latency_s = options.host_bytes_per_s, options.host_latency_s
    return LinkSpec(
        latency_s=link.latency_s if latency_s is None else latency_s,
        bytes_per_s=(link.bytes_per_s if rate is None else rate) * num_gpus,
    )


def _remote_link(options: KvTiersConfig) -> LinkSpec:
    """One direction of the link of a host to the store."""
    link = network_link()
    rate, latency_s = options.remote_bytes_per_s, options.remote_latency_s
    return LinkSpec(
        latency_s=link.latency_s if latency_s is None else latency_s,
        bytes_per_s=link.bytes_per_s if rate is None else rate,
    )


def shown_tiers(tiers: TierSpec, num_gpus: int) -> dict[str, Any]:
    """The section `kv_tiers` with what was left to a default as what it became.

    Args:
        tiers: the tiers.
        num_gpus: GPUs of an instance.
    """
    shown: dict[str, Any] = {
        name: getattr(tiers, name)
        for name in ("instances_per_host", "write", "load", "min_hit_tokens", "write_backlog_bytes")
    }
    shown["host_bytes_per_s"] = tiers.host_link.bytes_per_s / num_gpus
    shown["host_latency_s"] = tiers.host_link.latency_s
    if tiers.remote_link is not None:
        shown["remote_bytes_per_s"] = tiers.remote_link.bytes_per_s
        shown["remote_latency_s"] = tiers.remote_link.latency_s
    return shown


def tiers_line(tiers: TierSpec) -> str:
    """What lies behind the prefix caches, before anything runs."""
    size = tiers.block_bytes
    sharing = f" shared by {tiers.instances_per_host}" if tiers.instances_per_host > 1 else ""
    text = (
        f"  KV tiers: host memory of {amount(tiers.host_blocks * size)}{sharing} "
        f"({tiers.host_blocks:,} blocks) at {amount(tiers.host_link.bytes_per_s)}/s"
    )
    if tiers.remote_link is not None:
        text += (
            f", store of {amount(tiers.remote_blocks * size)} at "
            f"{amount(tiers.remote_link.bytes_per_s)}/s"
        )
    return text


def loads_line(metrics: Mapping[str, Any], tiers: TierSpec) -> str:
    """What the tiers did in one line."""
    store = f" and {percent(metrics['prefix_hit_remote_ratio'])} in the store"
    return (
        f"KV tiers: prefix hits {percent(metrics['prefix_hit_total_ratio'])} of prompt tokens with "
        f"{percent(metrics['prefix_hit_host_ratio'])} in host memory"
        f"{'' if tiers.remote_link is None else store}; "
        f"{count(metrics['num_kv_loads'])} loads, a request waits "
        f"{duration(metrics['load_wait_mean_s'])} (p99 {duration(metrics['load_wait_p99_s'])}); "
        f"{amount(metrics['kv_host_written_bytes'])} written to hosts"
    )
