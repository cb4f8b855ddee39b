"""Checks of single configuration values: each failure names key, value and what is allowed."""

import math
from collections.abc import Callable
from dataclasses import field
from typing import Any

from sim.errors import ConfigError

Check = Callable[[str, Any], Any]
"""(key, value) -> the value, typed; raises ConfigError."""


def checked(check: Check) -> Any:
    """Dataclass field whose value `build_section` passes through `check`."""
    return field(metadata={"check": check})


def refuse(key: str, value: object, allowed: str) -> ConfigError:
    """The error for a value that is not allowed."""
    text = repr(value)
    shown = text if len(text) <= 60 else text[:57] + "..."
    return ConfigError(f"{key}={shown}: must be {allowed}")


def whole(low: int, high: int | None = None) -> Check:
    """An integer in [low, high]."""
    allowed = f"an integer >= {low}" + ("" if high is None else f" and <= {high}")

    def check(key: str, value: Any) -> int:
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        if is_whole and value >= low and (high is None or value <= high):
            return int(value)
        raise refuse(key, value, allowed)

    return check


def number(*, above: float | None = None, low: float = 0.0, high: float = math.inf) -> Check:
    """A finite number in [low, high], and > `above` if that is given."""
    allowed = f"a finite number >= {low:g}" if above is None else f"a finite number > {above:g}"
    if high < math.inf:
        allowed += f" and <= {high:g}"

    def check(key: str, value: Any) -> float:
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            is_above = value >= low if above is None else value > above
            if is_above and value <= high:
                return float(value)
        raise refuse(key, value, allowed)

    return check


def period(shortest: float) -> Check:
    """Zero, or a finite number >= `shortest`."""

    def check(key: str, value: Any) -> float:
        try:
            return float(number(low=shortest)(key, value))
        except ConfigError:
            if value == 0 and not isinstance(value, bool):
                return 0.0
            raise refuse(key, value, f"0 or a finite number >= {shortest:g}") from None

    return check


def flag(key: str, value: Any) -> bool:
    """True or false."""
    if isinstance(value, bool):
        return value
    raise refuse(key, value, "true or false")


def text(key: str, value: Any) -> str:
    """A text that is not empty."""
    if isinstance(value, str) and value.strip():
        return value
    raise refuse(key, value, "a text that is not empty")


def one_of(*names: str) -> Check:
    """One of some names."""

    def check(key: str, value: Any) -> str:
        if value in names:
            return str(value)
        raise refuse(key, value, f"one of {', '.join(names)}")

    return check


def optional(check: Check) -> Check:
    """Null, or a value that passes `check`."""

    def check_unless_null(key: str, value: Any) -> Any:
        if value is None:
            return None
        try:
            return check(key, value)
        except ConfigError as error:
            raise ConfigError(f"{error}, or null") from None

    return check_unless_null


def window(key: str, value: Any) -> float | tuple[float, float]:
    """End of a window from 0, or [start, end]; seconds."""
    if isinstance(value, list | tuple):
        if len(value) != 2:
            raise refuse(key, value, "a length in seconds or [start, end]")
        start_s = number()(f"{key}[0]", value[0])
        return start_s, number(above=start_s)(f"{key}[1]", value[1])
    end_s: float = number(above=0)(key, value)
    return end_s
