"""Which columns of a table of requests mean what, and in which unit its times are."""

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sim.errors import ConfigError
from traces.options import MAX_TOKENS, require_int, shown

REQUIRED = ("arrival_s", "prompt_tokens", "output_tokens")

FIELDS = (*REQUIRED, "tenant", "slo_class", "session_id", "turn", "priority", "hash_ids")
"""What a column can be."""

UNITS = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000, "iso8601": 1_000_000_000}
"""Unit of times -> how many make a second once read; dates are read in nanoseconds."""

ORIGINS = ("first", "zero")


def default_columns() -> dict[str, str | None]:
    """The columns under our own names that every table has, and none of the others."""
    return {field: field if field in REQUIRED else None for field in FIELDS}


@dataclass(frozen=True, slots=True)
class ColumnOptions:
    """What a table's columns mean.

    Attributes:
        names: field -> name of the file's column, for the fields that are read.
        time_unit: unit of the times, one of `UNITS`.
        time_origin: `first` makes the earliest row time 0, `zero` takes times as they are.
        block_tokens: prompt tokens per hash id; None without hash ids.

    Raises:
        ConfigError: one of them is out of range or does not fit the others.
    """

    names: Mapping[str, str]
    time_unit: str
    time_origin: str
    block_tokens: int | None

    @staticmethod
    def of(columns: Any, time_unit: Any, time_origin: Any, block_tokens: Any) -> "ColumnOptions":
        """The options as the user gave them."""
        names = _names(columns)
        for key, value, allowed in (
            ("time_unit", time_unit, tuple(UNITS)),
            ("time_origin", time_origin, ORIGINS),
        ):
            if value not in allowed:
                raise ConfigError(
                    f"trace.{key}={shown(value)}: must be one of {', '.join(allowed)}"
                )
        if time_unit == "iso8601" and time_origin == "zero":
            raise ConfigError("trace.time_origin='zero': dates have no zero, must be first")
        if (block_tokens is None) != ("hash_ids" not in names):
            raise ConfigError(
                f"trace.block_tokens={shown(block_tokens)}: must be given with "
                "trace.columns.hash_ids and has no effect without"
            )
        if block_tokens is not None:
            require_int("trace.block_tokens", block_tokens, 1, MAX_TOKENS)
        return ColumnOptions(names, time_unit, time_origin, block_tokens)

    def as_mapping(self) -> dict[str, Any]:
        """For the provenance."""
        return {
            "columns": dict(self.names),
            "time_unit": self.time_unit,
            "time_origin": self.time_origin,
            "block_tokens": self.block_tokens,
        }


def why_absent(name: str, found: Iterable[str], key: str | None = None) -> str:
    """What to say when a file lacks a column (that the option `key` names)."""
    there = list(found)
    asked = "" if key is None else f" (trace.{key})"
    return f"no column {shown(name)}{asked}{_hint(name, there)}; it has {_listed(there)}"


def _names(columns: Any) -> dict[str, str]:
    if not isinstance(columns, Mapping):
        allowed = "must be a mapping such as {arrival_s: time, ...}"
        raise ConfigError(f"trace.columns={shown(columns)}: {allowed}")
    for field, name in columns.items():
        if field not in FIELDS:
            hint = _hint(str(field), FIELDS)
            raise ConfigError(
                f"trace.columns: unknown key {shown(field)}{hint}; allowed: {', '.join(FIELDS)}"
            )
        if name is not None and not (isinstance(name, str) and name):
            raise ConfigError(f"trace.columns.{field}={shown(name)}: must be a column's name")
    names = {field: columns[field] for field in FIELDS if columns.get(field) is not None}
    for field in REQUIRED:
        if field not in names:
            raise ConfigError(f"trace.columns.{field} is missing: it must name a column")
    return names


def _hint(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(known), n=1)
    return f" (did you mean {_printable(close[0])}?)" if close else ""


def _listed(names: list[str]) -> str:
    text = ", ".join(map(_printable, names)) or "none"
    return text if len(text) <= 300 else text[:297] + "..."


def _printable(name: str) -> str:
    """A name on one line, as a quotation where it has line breaks or the like."""
    return name if name.isprintable() else repr(name)
