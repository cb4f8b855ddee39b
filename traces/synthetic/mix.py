"""Several traces at once, such as tenants that share a cluster; generators or files."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from sim.errors import ConfigError
from sim.rng import stream
from traces.merge import PartLabels, merge
from traces.options import MAX_TIME_S, require_int, require_keys, require_number, shown
from traces.schema import TraceSource, TraceTable
from traces.synthetic.provenance import provenance_of_generator

MAX_PRIORITY = 10**9

LABELS = ("tenant", "slo_class")


@dataclass(frozen=True, slots=True, kw_only=True)
class MixTrace:
    """Traces that are merged by time; each draws from random streams of its own.

    The draws of a part depend on the seed and on its name only: another part changes none of them.

    Attributes:
        parts: name of each part -> `trace` (what loads it) and optional labels of all its rows:
            `tenant` (None: what it has, else its name), `slo_class` and `priority` (None: what it
            has); `start_s` is when it begins, 0 by default.
    """

    parts: Mapping[str, Mapping[str, Any]]

    def __post_init__(self) -> None:
        key = "trace.parts"
        if not isinstance(self.parts, Mapping) or not self.parts:
            raise ConfigError(f"{key}={shown(self.parts)}: must be a section of named parts")
        for name, part in self.parts.items():
            if not isinstance(name, str):
                raise ConfigError(f"{key}: name {shown(name)} of a part must be a text")
            _require_part(f"{key}.{name}", part)

    def load(self, seed: int) -> TraceTable:
        """Load all parts.

        Raises:
            ConfigError: a part cannot be loaded or cannot be merged; names it.
        """
        tables = {name: self._load_part(name, seed) for name in self.parts}
        merged = merge(list(tables.values()), [self._labels(name, tables[name]) for name in tables])
        options = {
            name: {option: value for option, value in part.items() if option != "trace"}
            for name, part in self.parts.items()
        }
        provenance = provenance_of_generator("mix", seed, merged.num_requests, {"parts": options})
        sources = {name: dict(table.provenance) for name, table in tables.items()}
        return replace(merged, provenance={**provenance, "parts": sources})

    def _load_part(self, name: str, seed: int) -> TraceTable:
        key, part = f"trace.parts.{name}.trace", self.parts[name]
        source: TraceSource = part["trace"]
        try:
            table = source.load(part_seed(seed, name))
        except ConfigError as error:
            raise ConfigError(in_part(key, str(error))) from None
        if table.concurrency is not None:
            raise ConfigError(
                f"{key}: has a fixed concurrency ({table.concurrency} users), and its requests no "
                "times of their own, so it cannot be mixed with others; give it arrivals at a rate"
            )
        return replace(table, arrival_s=table.arrival_s + part.get("start_s", 0.0))

    def _labels(self, name: str, table: TraceTable) -> PartLabels:
        part = self.parts[name]
        tenant = part.get("tenant")
        if tenant is None and table.tenant is None:
            tenant = name
        return PartLabels(
            tenant=tenant, slo_class=part.get("slo_class"), priority=part.get("priority")
        )


def part_seed(seed: int, name: str) -> int:
    """Seed of the part `name` of a trace with that seed."""
    return int(stream(seed, f"trace.parts.{name}").integers(2**63))


def in_part(key: str, message: str) -> str:
    """A message about the trace as one about the part under `key`."""
    return key + (message[5:] if message.startswith(("trace.", "trace:")) else f": {message}")


def _require_part(key: str, part: Any) -> None:
    if not isinstance(part, Mapping):
        raise ConfigError(f"{key}={shown(part)}: must be a section with trace")
    require_keys(key, "part", part, ("trace",), (*LABELS, "priority", "start_s"))
    if not callable(getattr(part["trace"], "load", None)):
        raise ConfigError(
            f"{key}.trace={shown(part['trace'])}: must be a section with _target_ that names a "
            f"kind of trace; trace@{key}.trace=KIND chooses one with its defaults"
        )
    for name in LABELS:
        label = part.get(name)
        if label is not None and not (isinstance(label, str) and label.strip()):
            raise ConfigError(f"{key}.{name}={shown(label)}: must be a text or null")
    if part.get("priority") is not None:
        require_int(f"{key}.priority", part["priority"], -MAX_PRIORITY, MAX_PRIORITY)
    require_number(f"{key}.start_s", part.get("start_s", 0.0), high=MAX_TIME_S)
