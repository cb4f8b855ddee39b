"""Builds a frozen dataclass from one section of the configuration, strictly."""

from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any, TypeVar

from experiments.schema.suggest import unknown_name
from sim.errors import ConfigError

Section = TypeVar("Section")


def as_mapping(key: str, value: object) -> Mapping[str, Any]:
    """The section under `key`.

    Raises:
        ConfigError: it is missing or no mapping.
    """
    if isinstance(value, Mapping):
        return value
    raise ConfigError(f"{key}={value!r}: must be a section with keys and values")


def refuse_unknown(key: str, names: Iterable[str], allowed: Iterable[str]) -> None:
    """Refuse the first name that is not allowed under `key` (empty at the top)."""
    known = set(allowed)
    for name in names:
        if name not in known:
            kind = f"key of {key}" if key else "key"
            raise ConfigError(unknown_name(kind, str(name), known))


def build_section(
    section: type[Section], key: str, values: Mapping[str, Any], more: Iterable[str] = ()
) -> Section:
    """Instance of the dataclass `section`, every value checked.

    Args:
        section: dataclass whose fields carry a check (`experiments.schema.checks.checked`).
        key: name of the section, for messages.
        values: the section.
        more: further keys that others read from the same section.

    Raises:
        ConfigError: a key is unknown or missing, or a value is not allowed.
    """
    checks = {item.name: item.metadata["check"] for item in fields(section)}  # type: ignore[arg-type]
    refuse_unknown(key, values, [*checks, *more])
    checked: dict[str, Any] = {}
    for name, check in checks.items():
        if name not in values:
            raise ConfigError(f"{key}.{name} is missing")
        checked[name] = check(f"{key}.{name}", values[name])
    return section(**checked)
