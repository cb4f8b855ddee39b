"""Distributions of token counts, given as mappings such as `{kind: uniform, low: 1, high: 9}`."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from sim.errors import ConfigError
from sim.workload import IntArray
from traces.options import MAX_TOKENS, require_int, require_number, shown

MIN_MEAN, MAX_MEAN = 1e-9, 1e9
"""Bounds of a lognormal's mean and median, tokens, before it is clipped."""

MAX_CV = 1000.0

MAX_SIGMA = 10_000.0


class LengthDistribution(Protocol):
    """A distribution of integers >= 1."""

    def sample(self, rng: np.random.Generator, size: int) -> IntArray:
        """`size` independent draws. Shape (size,)."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """Always `value`."""

    value: int

    def sample(self, rng: np.random.Generator, size: int) -> IntArray:
        """`size` times the value; draws nothing."""
        return np.full(size, self.value, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Uniform:
    """Every integer from `low` to `high`, both included, with equal probability."""

    low: int
    high: int

    def sample(self, rng: np.random.Generator, size: int) -> IntArray:
        """`size` independent draws. Shape (size,)."""
        return rng.integers(self.low, self.high, size, dtype=np.int64, endpoint=True)


@dataclass(frozen=True, slots=True)
class LogNormal:
    """exp of a normal with mean ln(median) and deviation sigma, rounded, then clipped."""

    median: float
    sigma: float
    low: int
    high: int

    def sample(self, rng: np.random.Generator, size: int) -> IntArray:
        """`size` independent draws. Shape (size,)."""
        log_tokens = math.log(self.median) + self.sigma * rng.standard_normal(size)
        # Clipped before exp: a wide sigma must not overflow.
        bounded = np.clip(log_tokens, -1.0, math.log(MAX_TOKENS) + 1.0)
        tokens: IntArray = np.clip(np.rint(np.exp(bounded)), self.low, self.high).astype(np.int64)
        return tokens


_KEYS = {
    "fixed": "value",
    "uniform": "low, high",
    "lognormal": "mean and cv, or median and sigma; optional low, high",
}


def length_distribution(key: str, spec: Any, high: int = MAX_TOKENS) -> LengthDistribution:
    """The distribution that a mapping describes.

    Args:
        key: name of the option, for messages.
        spec: `{kind: fixed, value}`, `{kind: uniform, low, high}` (both included), or
            `{kind: lognormal}` with `mean, cv` (of the unclipped distribution) or `median, sigma`
            (deviation of the logarithm) and optional clipping bounds `low, high`.
        high: largest value allowed, and where a lognormal is clipped by default.

    Raises:
        ConfigError: unknown kind, missing or unknown key, or value out of range.
    """
    if not isinstance(spec, Mapping):
        raise ConfigError(
            f"{key}={shown(spec)}: must be a mapping such as {{kind: fixed, value: 9}}"
        )
    kind = spec.get("kind")
    values = {name: value for name, value in spec.items() if name != "kind"}
    if kind == "fixed":
        _require_keys(key, kind, values, {"value"})
        return Fixed(require_int(f"{key}.value", values["value"], 1, high))
    if kind == "uniform":
        _require_keys(key, kind, values, {"low", "high"})
        return Uniform(*_bounds(key, values, high))
    if kind == "lognormal":
        return _lognormal(key, values, high)
    raise ConfigError(f"{key}.kind={shown(kind)}: must be one of {', '.join(_KEYS)}")


def _lognormal(key: str, values: Mapping[str, Any], high: int) -> LogNormal:
    shape = set(values) - {"low", "high"}
    _require_keys(
        key, "lognormal", shape, {"mean", "cv"} if "mean" in shape else {"median", "sigma"}
    )
    least, most = _bounds(key, values, high)
    if "mean" in shape:
        mean = require_number(f"{key}.mean", values["mean"], low=MIN_MEAN, high=MAX_MEAN)
        cv = require_number(f"{key}.cv", values["cv"], high=MAX_CV)
        variance = math.log1p(cv * cv)
        return LogNormal(mean * math.exp(-variance / 2), math.sqrt(variance), least, most)
    median = require_number(f"{key}.median", values["median"], low=MIN_MEAN, high=MAX_MEAN)
    sigma = require_number(f"{key}.sigma", values["sigma"], high=MAX_SIGMA)
    return LogNormal(median, sigma, least, most)


def _bounds(key: str, values: Mapping[str, Any], high: int) -> tuple[int, int]:
    least = require_int(f"{key}.low", values.get("low", 1), 1, high)
    return least, require_int(f"{key}.high", values.get("high", high), least, high)


def _require_keys(key: str, kind: str, given: Any, needed: set[str]) -> None:
    if set(given) != needed:
        names = ", ".join(sorted(map(str, given))) or "nothing"
        raise ConfigError(f"{key} has {names}: kind {kind} needs {_KEYS[kind]}")
