"""The section `kv_tiers`: host memory and a store behind the prefix cache, off by default."""

from dataclasses import dataclass, fields

from experiments.schema.checks import checked, number, one_of, optional, whole
from sim.errors import ConfigError
from sim.tiers.spec import BEFORE_PREFILL, LAYERWISE, WRITE_BACK, WRITE_THROUGH
from sim.units import GIB

DEFAULT_MIN_HIT_TOKENS = 256
"""A load is waited for until the next plan, about one step, and saves the time of its tokens. So
many take about as long as a step that only decodes (assumed; docs/kv_tiers.md)."""

DEFAULT_WRITE_BACKLOG_BYTES = 4 * GIB
"""Twice what the largest step of an 8B model evicts at once (8,192 tokens: 1 GiB), and some room
(assumed)."""

MAX_BYTES = 10**18
MAX_TOKENS = 10**9
MAX_INSTANCES_PER_HOST = 65_536

_RATE = number(low=1.0, high=1e15)
_LATENCY = number(high=1e6)
"""Bytes/s and seconds; beyond, a unit was mistaken, and times would no longer be finite."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KvTiersConfig:
    """Sizes and rules; null takes the default, and is a must while `host_bytes` is null.

    Without `remote_bytes` there is no store, and what concerns it must be null too.
    """

    host_bytes: int | None = checked(optional(whole(1, MAX_BYTES)))
    instances_per_host: int | None = checked(optional(whole(1, MAX_INSTANCES_PER_HOST)))
    write: str | None = checked(optional(one_of(WRITE_BACK, WRITE_THROUGH)))
    load: str | None = checked(optional(one_of(BEFORE_PREFILL, LAYERWISE)))
    min_hit_tokens: int | None = checked(optional(whole(0, MAX_TOKENS)))
    write_backlog_bytes: int | None = checked(optional(whole(0, MAX_BYTES)))
    host_bytes_per_s: float | None = checked(optional(_RATE))
    host_latency_s: float | None = checked(optional(_LATENCY))
    remote_bytes: int | None = checked(optional(whole(1, MAX_BYTES)))
    remote_bytes_per_s: float | None = checked(optional(_RATE))
    remote_latency_s: float | None = checked(optional(_LATENCY))


def refuse_unread_tiers(config: KvTiersConfig) -> None:
    """What concerns a tier that is not there decides nothing.

    Raises:
        ConfigError: names the key and what to do.
    """
    for item in fields(KvTiersConfig):
        name = item.name
        value = getattr(config, name)
        if value is None or name == "host_bytes":
            continue
        if config.host_bytes is None:
            raise ConfigError(
                f"kv_tiers.{name}={value} has no effect without kv_tiers.host_bytes: leave it out "
                "or give both"
            )
        if name in ("remote_bytes_per_s", "remote_latency_s") and config.remote_bytes is None:
            raise ConfigError(
                f"kv_tiers.{name}={value} has no effect without kv_tiers.remote_bytes: leave it "
                "out or give both"
            )
