"""Checks of router options, in the words of the configuration."""

from collections.abc import Mapping
from math import isfinite

from sim.errors import ConfigError


def refuse_unknown_choice(name: str, value: str, allowed: tuple[str, ...]) -> None:
    """Accept only one of the named values.

    Raises:
        ConfigError: it is none of them.
    """
    if value not in allowed:
        raise ConfigError(f"routing.{name}={value}: must be one of {', '.join(allowed)}")


def refuse_unread(options: Mapping[str, object], because: str) -> None:
    """Accept options only if they are null, since nothing reads them.

    Raises:
        ConfigError: one is given.
    """
    for name, value in options.items():
        if value is not None:
            raise ConfigError(f"routing.{name}={value} has no effect with {because}: leave it out")


def refuse_outside(name: str, value: float, low: float, high: float = float("inf")) -> None:
    """Accept only finite numbers from `low` to `high`.

    Raises:
        ConfigError: it is outside.
    """
    if not (isfinite(value) and low <= value <= high):
        bound = f"at least {low:g}" if high == float("inf") else f"{low:g} to {high:g}"
        raise ConfigError(f"routing.{name}={value}: must be {bound}")


def refuse_not_above(name: str, value: float, low: float = 0.0) -> None:
    """Accept only finite numbers above `low`.

    Raises:
        ConfigError: it is not.
    """
    if not (isfinite(value) and value > low):
        raise ConfigError(f"routing.{name}={value}: must be above {low:g}")
