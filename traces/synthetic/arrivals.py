"""Arrival processes, given as mappings such as `{kind: gamma, cv: 2}` or by kind alone."""

from collections.abc import Callable, Mapping
from typing import Any

from sim.errors import ConfigError
from sim.workload import FloatArray
from traces.options import (
    MAX_RATE,
    MAX_REQUESTS,
    MAX_TIME_S,
    require_bool,
    require_int,
    require_keys,
    require_number,
    require_rate,
    shown,
)
from traces.synthetic.loops import AllAtOnce, ArrivalProcess, Arrivals, ClosedLoop, OpenLoop
from traces.synthetic.modulated import Diurnal, OnOff, Spike
from traces.synthetic.renewal import MAX_CV, MIN_CV, Constant, Gamma, Poisson, Weibull

__all__ = [
    "ArrivalProcess",
    "Arrivals",
    "ClosedLoop",
    "arrival_process",
    "is_at_rate",
    "poisson_arrivals",
]

SHORTEST_PERIOD_S = 1e-6
"""Shortest phase or period, seconds."""

WITHOUT_RATE = ("all_at_once", "closed_loop")
"""Kinds that do not use the rate."""


def poisson_arrivals(seed: int, num_arrivals: int, rate_per_s: float) -> FloatArray:
    """Times of a Poisson process from 0 on, seconds; another rate only stretches them.

    Draws from the stream "trace.arrivals". Shape (num_arrivals,).
    """
    return Poisson(rate_per_s).times(seed, num_arrivals)


def is_at_rate(spec: Any) -> bool:
    """Whether the process that a mapping or a name describes uses the rate."""
    kind = spec.get("kind") if isinstance(spec, Mapping) else spec
    return kind not in WITHOUT_RATE


def arrival_process(key: str, spec: Any, rate_per_s: float | None) -> ArrivalProcess:
    """The process that a mapping, or the name of a kind that needs nothing more, describes.

    Args:
        key: name of the option, for messages.
        spec: `poisson`, `constant`, `all_at_once`, or a mapping with `kind` and:
            gamma, weibull: `cv` of the gaps;
            on_off: `on_s, off_s`, optional `off_ratio` (0), `fixed` (false);
            diurnal: `period_s` and `amplitude` or `peak_to_mean`, optional `peak_s` (half a
            period, so that the trace begins in the trough);
            spike: `at_s, duration_s, factor`;
            closed_loop: `concurrency`, optional `think_time_s` (0) and `think` (exponential or
            fixed).
        rate_per_s: mean rate in the long run; all_at_once and closed_loop do not use it, and only
            with them it may be None.

    Raises:
        ConfigError: unknown kind, missing or unknown key, or value out of range.
    """
    if isinstance(spec, str):
        spec = {"kind": spec}
    if not isinstance(spec, Mapping):
        raise ConfigError(
            f"{key}={shown(spec)}: must be a kind such as poisson, or a mapping such as "
            "{kind: gamma, cv: 2}"
        )
    kind = spec.get("kind")
    if not isinstance(kind, str) or kind not in _KINDS:
        raise ConfigError(f"{key}.kind={shown(kind)}: must be one of {', '.join(_KINDS)}")
    needed, optional, build = _KINDS[kind]
    values = {name: value for name, value in spec.items() if name != "kind"}
    if kind == "diurnal" and "peak_to_mean" in values:
        needed = ("period_s", "peak_to_mean")
    require_keys(key, kind, values, needed, optional)
    if rate_per_s is not None or is_at_rate(kind):
        section = key.rpartition(".")[0]
        rate_per_s = require_rate(f"{section}.rate_per_s", rate_per_s)
    return build(key, values, rate_per_s or 0.0)


_Build = Callable[[str, Mapping[str, Any], float], ArrivalProcess]


def _poisson(key: str, values: Mapping[str, Any], rate_per_s: float) -> ArrivalProcess:
    return OpenLoop(Poisson(rate_per_s))


def _constant(key: str, values: Mapping[str, Any], rate_per_s: float) -> ArrivalProcess:
    return OpenLoop(Constant(rate_per_s))


def _all_at_once(key: str, values: Mapping[str, Any], rate_per_s: float) -> ArrivalProcess:
    return OpenLoop(AllAtOnce())


def _gamma(key: str, values: Mapping[str, Any], rate_per_s: float) -> ArrivalProcess:
    return OpenLoop(Gamma(rate_per_s, _cv(key, values)))


def _weibull(key: str, values: Mapping[str, Any], rate_per_s: float) -> ArrivalProcess:
    return OpenLoop(Weibull(rate_per_s, _cv(key, values)))


def _on_off(key: str, values: Mapping[str, Any], rate_per_s: float) -> ArrivalProcess:
    return OpenLoop(
        OnOff(
            key=key,
            rate_per_s=rate_per_s,
            on_s=_period(f"{key}.on_s", values["on_s"]),
            off_s=_period(f"{key}.off_s", values["off_s"]),
            off_ratio=require_number(f"{key}.off_ratio", values.get("off_ratio", 0.0), high=1),
            fixed=require_bool(f"{key}.fixed", values.get("fixed", False)),
        )
    )


def _diurnal(key: str, values: Mapping[str, Any], rate_per_s: float) -> ArrivalProcess:
    period_s = _period(f"{key}.period_s", values["period_s"])
    if "amplitude" in values:
        amplitude = require_number(f"{key}.amplitude", values["amplitude"], high=1)
    else:
        peak_to_mean = values["peak_to_mean"]
        amplitude = require_number(f"{key}.peak_to_mean", peak_to_mean, low=1, high=2) - 1
    peak_s = require_number(f"{key}.peak_s", values.get("peak_s", period_s / 2), high=period_s)
    return OpenLoop(Diurnal(rate_per_s, period_s, amplitude, peak_s))


def _spike(key: str, values: Mapping[str, Any], rate_per_s: float) -> ArrivalProcess:
    return OpenLoop(
        Spike(
            rate_per_s=rate_per_s,
            at_s=require_number(f"{key}.at_s", values["at_s"], high=MAX_TIME_S),
            duration_s=_period(f"{key}.duration_s", values["duration_s"]),
            factor=require_number(f"{key}.factor", values["factor"], high=MAX_RATE),
        )
    )


def _closed_loop(key: str, values: Mapping[str, Any], rate_per_s: float) -> ArrivalProcess:
    think = values.get("think", "exponential")
    if think not in ("exponential", "fixed"):
        raise ConfigError(f"{key}.think={shown(think)}: must be exponential or fixed")
    think_time_s = values.get("think_time_s", 0.0)
    return ClosedLoop(
        concurrency=require_int(f"{key}.concurrency", values["concurrency"], 1, MAX_REQUESTS),
        think_time_s=require_number(f"{key}.think_time_s", think_time_s, high=MAX_TIME_S),
        think=think,
    )


def _cv(key: str, values: Mapping[str, Any]) -> float:
    return require_number(f"{key}.cv", values["cv"], low=MIN_CV, high=MAX_CV)


def _period(key: str, value: Any) -> float:
    return require_number(key, value, low=SHORTEST_PERIOD_S, high=MAX_TIME_S)


_KINDS: dict[str, tuple[tuple[str, ...], tuple[str, ...], _Build]] = {
    "poisson": ((), (), _poisson),
    "gamma": (("cv",), (), _gamma),
    "weibull": (("cv",), (), _weibull),
    "on_off": (("on_s", "off_s"), ("off_ratio", "fixed"), _on_off),
    "diurnal": (("period_s", "amplitude"), ("peak_s",), _diurnal),
    "spike": (("at_s", "duration_s", "factor"), (), _spike),
    "constant": ((), (), _constant),
    "all_at_once": ((), (), _all_at_once),
    "closed_loop": (("concurrency",), ("think_time_s", "think"), _closed_loop),
}
"""Kind -> keys it needs, keys it may have, what builds it."""
