"""Checks of a trace's options: each failure is one line with key, value and what is allowed."""

import math
from collections.abc import Collection, Iterable
from numbers import Integral, Real
from pathlib import Path
from typing import Any

from sim.errors import ConfigError

MAX_TOKENS = 10_000_000
"""Longest prompt or output a trace may ask for, tokens; more is taken for a mistake."""

MAX_REQUESTS = 10_000_000
"""Most requests a generator makes. Measured for independent ones: 50 bytes each to build and 670 to
run, 6.5 GiB for so many."""

MIN_RATE = 1e-9
"""Lowest rate per second, and smallest factor of a rate."""

MAX_RATE = 1e9
"""Highest rate per second, and largest factor of a rate."""

MAX_TIME_S = 1e9
"""Longest time and latest arrival, 31 years: doubles then still tell 0.1 microseconds apart."""


def require_int(key: str, value: Any, low: int, high: int | None = None) -> int:
    """The option as an int.

    Raises:
        ConfigError: not an integer, or outside [low, high].
    """
    if not isinstance(value, bool) and isinstance(value, Integral):
        number = int(value)
        if number >= low and (high is None or number <= high):
            return number
    allowed = f">= {low}" if high is None else f"from {low} to {high:,}"
    raise ConfigError(f"{key}={shown(value)}: must be an integer {allowed}")


def require_number(
    key: str,
    value: Any,
    *,
    above: float = -math.inf,
    low: float = 0.0,
    high: float = math.inf,
) -> float:
    """The option as a finite float that is > `above`, >= `low` and <= `high`.

    Raises:
        ConfigError: not a number, not finite, or outside the bounds.
    """
    if not isinstance(value, bool) and isinstance(value, Real):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if math.isfinite(number) and number > above and low <= number <= high:
            return number
    allowed = f"> {above:g}" if above >= low else f">= {low:g}"
    if math.isfinite(high):
        allowed += f" and <= {high:g}"
    raise ConfigError(f"{key}={shown(value)}: must be a finite number {allowed}")


def require_rate(key: str, value: Any) -> float:
    """The option as a rate per second, or as a factor of one.

    Raises:
        ConfigError: not a number from `MIN_RATE` to `MAX_RATE`.
    """
    return require_number(key, value, low=MIN_RATE, high=MAX_RATE)


def require_bool(key: str, value: Any) -> bool:
    """The option as a bool.

    Raises:
        ConfigError: anything but true or false.
    """
    if isinstance(value, bool):
        return value
    raise ConfigError(f"{key}={shown(value)}: must be true or false")


def require_path(key: str, value: Any) -> Path:
    """The option as a path; whether it exists is the reader's question.

    Raises:
        ConfigError: not a path, or empty.
    """
    if isinstance(value, Path) or (isinstance(value, str) and value):
        return Path(value)
    raise ConfigError(f"{key}={shown(value)}: must be the path of a trace file")


def shown(value: Any) -> str:
    """`value` as it appears in a message, shortened where it is long."""
    try:
        text = repr(value)
    except ValueError:  # an int of more digits than Python writes out
        text = f"<{type(value).__name__} of very many digits>"
    return text if len(text) <= 60 else text[:57] + "..."


def require_keys(
    key: str,
    kind: str,
    given: Iterable[Any],
    needed: Collection[str],
    optional: Collection[str] = (),
) -> None:
    """Check which keys come with a kind.

    Raises:
        ConfigError: one of `needed` is missing, or one is neither needed nor optional.
    """
    names = {str(name) for name in given}
    if names >= set(needed) and names <= {*needed, *optional}:
        return
    allowed = f"needs {', '.join(needed)}" if needed else "needs nothing more"
    if optional:
        allowed += f"; optional {', '.join(optional)}"
    raise ConfigError(f"{key} has {', '.join(sorted(names)) or 'nothing'}: kind {kind} {allowed}")
