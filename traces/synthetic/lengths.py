"""Distributions of token counts, given as mappings such as `{kind: uniform, low: 1, high: 9}`."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sim.errors import ConfigError
from traces.options import MAX_TOKENS, require_int, require_number, shown
from traces.synthetic.length_shapes import (
    Empirical,
    Fixed,
    Gamma,
    LengthDistribution,
    LogNormal,
    Mixture,
    Quantiles,
    Uniform,
    Zipf,
)
from traces.synthetic.popularity import MAX_SKEW

MIN_MEAN, MAX_MEAN = 1e-9, 1e9
"""Bounds of means and medians, tokens, before they are clipped."""

MAX_CV = 1000.0

MAX_SIGMA = 10_000.0

MAX_WEIGHT = 1e12

MAX_ITEMS = 1_000_000
"""Most values, quantiles or parts of a distribution."""


def length_distribution(key: str, spec: Any, high: int = MAX_TOKENS) -> LengthDistribution:
    """The distribution that a mapping describes.

    Args:
        key: name of the option, for messages.
        spec: a mapping with `kind` and:
            fixed: `value`;
            uniform: `low, high`, both included;
            lognormal: `mean, cv` (of the unclipped distribution) or `median, sigma` (deviation of
            the logarithm); gamma: `mean, cv`; exponential: `mean`; all with optional clipping
            bounds `low, high`;
            zipf: `low, high, exponent`: P(k) proportional to k ** -exponent;
            empirical: `values` and optional `weights`, or `quantiles`: pairs [share, tokens] from
            share 0 to 1, linear between them;
            mixture: `parts`, a list of such mappings, each with a `weight`.
        high: largest value allowed, and where it is clipped by default.

    Raises:
        ConfigError: unknown kind, missing or unknown key, or value out of range.
    """
    if not isinstance(spec, Mapping):
        raise ConfigError(
            f"{key}={shown(spec)}: must be a mapping such as {{kind: fixed, value: 9}}"
        )
    kind = spec.get("kind")
    if not isinstance(kind, str) or kind not in _KINDS:
        raise ConfigError(f"{key}.kind={shown(kind)}: must be one of {', '.join(_KINDS)}")
    build, _ = _KINDS[kind]
    return build(key, {name: value for name, value in spec.items() if name != "kind"}, high)


def length_or_number(key: str, value: Any) -> LengthDistribution:
    """The distribution of a length that may also be given as a plain number.

    Raises:
        ConfigError: as `length_distribution`, or a number out of range.
    """
    if isinstance(value, Mapping):
        return length_distribution(key, value)
    return Fixed(require_int(key, value, 1, MAX_TOKENS))


def _fixed(key: str, values: Mapping[str, Any], high: int) -> LengthDistribution:
    _require_keys(key, "fixed", values, {"value"})
    return Fixed(require_int(f"{key}.value", values["value"], 1, high))


def _uniform(key: str, values: Mapping[str, Any], high: int) -> LengthDistribution:
    _require_keys(key, "uniform", values, {"low", "high"})
    return Uniform(*_bounds(key, values, high))


def _lognormal(key: str, values: Mapping[str, Any], high: int) -> LengthDistribution:
    shape = set(values) - {"low", "high"}
    _require_keys(
        key, "lognormal", shape, {"mean", "cv"} if "mean" in shape else {"median", "sigma"}
    )
    least, most = _bounds(key, values, high)
    if "mean" in shape:
        cv = require_number(f"{key}.cv", values["cv"], high=MAX_CV)
        variance = math.log1p(cv * cv)
        median = _mean(key, "mean", values) * math.exp(-variance / 2)
        return LogNormal(median, math.sqrt(variance), least, most)
    sigma = require_number(f"{key}.sigma", values["sigma"], high=MAX_SIGMA)
    return LogNormal(_mean(key, "median", values), sigma, least, most)


def _gamma(key: str, values: Mapping[str, Any], high: int) -> LengthDistribution:
    _require_keys(key, "gamma", set(values) - {"low", "high"}, {"mean", "cv"})
    cv = require_number(f"{key}.cv", values["cv"], low=1e-3, high=MAX_CV)
    return Gamma(_mean(key, "mean", values), cv, *_bounds(key, values, high))


def _exponential(key: str, values: Mapping[str, Any], high: int) -> LengthDistribution:
    _require_keys(key, "exponential", set(values) - {"low", "high"}, {"mean"})
    return Gamma(_mean(key, "mean", values), 1.0, *_bounds(key, values, high))


def _zipf(key: str, values: Mapping[str, Any], high: int) -> LengthDistribution:
    _require_keys(key, "zipf", values, {"low", "high", "exponent"})
    exponent = require_number(f"{key}.exponent", values["exponent"], high=MAX_SKEW)
    return Zipf(exponent, *_bounds(key, values, high))


def _empirical(key: str, values: Mapping[str, Any], high: int) -> LengthDistribution:
    if "quantiles" in values:
        _require_keys(key, "empirical", values, {"quantiles"})
        return _quantiles(f"{key}.quantiles", values["quantiles"], high)
    _require_keys(key, "empirical", set(values) - {"weights"}, {"values"})
    items = _items(f"{key}.values", values["values"])
    tokens = tuple(require_int(f"{key}.values[{i}]", item, 1, high) for i, item in enumerate(items))
    weights = _items(f"{key}.weights", values.get("weights", [1] * len(tokens)))
    if len(weights) != len(tokens):
        raise ConfigError(
            f"{key}.weights has {len(weights)} entries: must be one for each of the "
            f"{len(tokens)} values"
        )
    return Empirical(tokens, _weights(f"{key}.weights", "", weights))


def _quantiles(key: str, spec: Any, high: int) -> LengthDistribution:
    shares: list[float] = []
    tokens: list[int] = []
    for i, pair in enumerate(_items(key, spec)):
        where = f"{key}[{i}]"
        if not isinstance(pair, Sequence) or isinstance(pair, str) or len(pair) != 2:
            raise ConfigError(f"{where}={shown(pair)}: must be a pair [share, tokens]")
        above = shares[-1] if shares else -1.0
        shares.append(require_number(f"{where}[0]", pair[0], above=above, high=1))
        tokens.append(require_int(f"{where}[1]", pair[1], tokens[-1] if tokens else 1, high))
    if shares[0] > 0 or shares[-1] < 1:
        raise ConfigError(f"{key}={shown(spec)}: must begin at share 0 and end at share 1")
    return Quantiles(tuple(shares), tuple(tokens))


def _mixture(key: str, values: Mapping[str, Any], high: int) -> LengthDistribution:
    _require_keys(key, "mixture", values, {"parts"})
    parts: list[LengthDistribution] = []
    weights: list[Any] = []
    for i, spec in enumerate(_items(f"{key}.parts", values["parts"])):
        where = f"{key}.parts[{i}]"
        if not isinstance(spec, Mapping) or "weight" not in spec:
            raise ConfigError(f"{where}={shown(spec)}: must be a mapping with weight and kind")
        weights.append(spec["weight"])
        shape = {name: value for name, value in spec.items() if name != "weight"}
        parts.append(length_distribution(where, shape, high))
    return Mixture(_weights(f"{key}.parts", ".weight", weights), tuple(parts))


def _items(key: str, value: Any) -> Sequence[Any]:
    is_list = isinstance(value, Sequence) and not isinstance(value, str)
    if is_list and 1 <= len(value) <= MAX_ITEMS:
        items: Sequence[Any] = value
        return items
    raise ConfigError(f"{key}={shown(value)}: must be a list of 1 to {MAX_ITEMS:,} entries")


def _weights(key: str, name: str, items: Sequence[Any]) -> tuple[float, ...]:
    weights = tuple(
        require_number(f"{key}[{i}]{name}", item, high=MAX_WEIGHT) for i, item in enumerate(items)
    )
    if sum(weights) < 1 / MAX_WEIGHT:
        raise ConfigError(f"{key}: the weights must not all be 0")
    return weights


def _mean(key: str, name: str, values: Mapping[str, Any]) -> float:
    return require_number(f"{key}.{name}", values[name], low=MIN_MEAN, high=MAX_MEAN)


def _bounds(key: str, values: Mapping[str, Any], high: int) -> tuple[int, int]:
    least = require_int(f"{key}.low", values.get("low", 1), 1, high)
    return least, require_int(f"{key}.high", values.get("high", high), least, high)


def _require_keys(key: str, kind: str, given: Any, needed: set[str]) -> None:
    if set(given) != needed:
        names = ", ".join(sorted(" ".join(str(name).split()) for name in given)) or "nothing"
        raise ConfigError(f"{key} has {names}: kind {kind} needs {_KINDS[kind][1]}")


_Build = Callable[[str, Mapping[str, Any], int], LengthDistribution]

_KINDS: dict[str, tuple[_Build, str]] = {
    "fixed": (_fixed, "value"),
    "uniform": (_uniform, "low, high"),
    "lognormal": (_lognormal, "mean and cv, or median and sigma; optional low, high"),
    "gamma": (_gamma, "mean and cv; optional low, high"),
    "exponential": (_exponential, "mean; optional low, high"),
    "zipf": (_zipf, "low, high, exponent"),
    "empirical": (_empirical, "values, optional weights; or quantiles"),
    "mixture": (_mixture, "parts"),
}
"""Kind -> what builds it, and the keys it needs in words."""
