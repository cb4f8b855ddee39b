"""Which transforms a trace goes through; every default does nothing."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from sim.errors import ConfigError
from traces.options import (
    MAX_REQUESTS,
    MAX_TIME_S,
    MAX_TOKENS,
    require_bool,
    require_int,
    require_number,
    require_rate,
    shown,
)

COPY_OFFSETS = ("random", "even")

MIN_FACTOR = 1e-6
"""Smallest factor of a length."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transforms:
    """Options of `traces.transforms.transform`; the package says in which order they apply.

    Attributes:
        window_s: `[start, end]` keeps start <= arrival < end and makes `start` the new time 0; a
            single number is the end of a window from 0. Seconds of the trace's own time.
        sample: share of the rows to keep, drawn by the seed, > 0 and <= 1; the turns of a session
            are kept or left out together. A larger share keeps the rows of a smaller one.
        limit: keep the first so many rows.
        scale_prompt: factor of prompt lengths and of what prompts share.
        scale_output: factor of output lengths, also where they return in later prompts.
        max_output_tokens: longest output; longer ones are cut, also in later prompts.
        max_prompt_tokens: longest prompt; of longer ones the beginning is kept.
        strip_prefixes: no two prompts share anything.
        copies: so many copies of the trace at once, which share no more than what all prompts of
            the trace begin with. The rate is as many times higher, the length of the trace stays.
        copy_offsets: where in the trace each copy starts: `random` (by the seed) or `even` (spread
            over its length); null is random.
        poissonise: new arrivals of a Poisson process with the same mean rate; the turns of a
            session keep their distances.
        rate_scale: divide arrival times; 2 is twice as fast.
        shift_s: seconds added to every arrival.
        anonymise: ids of runs and sessions by first use, tenants as tenant_0, tenant_1, ...
        replay_concurrency: so many users send the requests in order, each the next one when its
            last one has ended; the rows of a session one after the other.
        replay_think_time_s: seconds between that end and the next request; null is 0.
    """

    window_s: float | Sequence[float] | None = None
    sample: float = 1.0
    limit: int | None = None
    scale_prompt: float = 1.0
    scale_output: float = 1.0
    max_output_tokens: int | None = None
    max_prompt_tokens: int | None = None
    strip_prefixes: bool = False
    copies: int = 1
    copy_offsets: str | None = None
    poissonise: bool = False
    rate_scale: float = 1.0
    shift_s: float = 0.0
    anonymise: bool = False
    replay_concurrency: int | None = None
    replay_think_time_s: float | None = None

    def __post_init__(self) -> None:
        if self.window_s is not None:
            window_bounds(self.window_s)
        require_number("trace.sample", self.sample, above=0, high=1)
        for name in ("limit", "max_output_tokens", "max_prompt_tokens"):
            if getattr(self, name) is not None:
                require_int(f"trace.{name}", getattr(self, name), 1)
        for name in ("scale_prompt", "scale_output"):
            value = getattr(self, name)
            require_number(f"trace.{name}", value, low=MIN_FACTOR, high=MAX_TOKENS)
        require_int("trace.copies", self.copies, 1, MAX_REQUESTS)
        require_rate("trace.rate_scale", self.rate_scale)
        require_number("trace.shift_s", self.shift_s, low=-MAX_TIME_S, high=MAX_TIME_S)
        for name in ("strip_prefixes", "poissonise", "anonymise"):
            require_bool(f"trace.{name}", getattr(self, name))
        if self.replay_concurrency is not None:
            require_int("trace.replay_concurrency", self.replay_concurrency, 1, MAX_REQUESTS)
        if self.replay_think_time_s is not None:
            key = "trace.replay_think_time_s"
            require_number(key, self.replay_think_time_s, high=MAX_TIME_S)
        self._refuse_wrong_offsets()
        self._refuse_without_effect()

    @property
    def names(self) -> tuple[str, ...]:
        """Options that are not at their default, in the order of the fields."""
        return tuple(f.name for f in fields(self) if getattr(self, f.name) != f.default)

    def _refuse_wrong_offsets(self) -> None:
        if self.copy_offsets is not None and self.copy_offsets not in COPY_OFFSETS:
            allowed = " or ".join(COPY_OFFSETS)
            raise ConfigError(
                f"trace.copy_offsets={shown(self.copy_offsets)}: must be {allowed}, or null"
            )

    def _refuse_without_effect(self) -> None:
        """An option that changes nothing beside another one is a mistake."""
        if self.copy_offsets is not None and self.copies == 1:
            raise _has_no_effect("copy_offsets", self.copy_offsets, "trace.copies is 1")
        if self.replay_concurrency is None:
            if self.replay_think_time_s is not None:
                value = self.replay_think_time_s
                reason = "trace.replay_concurrency is not given"
                raise _has_no_effect("replay_think_time_s", value, reason)
            return
        for name in ("poissonise", "rate_scale", "shift_s"):
            value = getattr(self, name)
            if value != getattr(Transforms(), name):
                reason = "with trace.replay_concurrency nothing arrives at a recorded time"
                raise _has_no_effect(name, value, reason)


def window_bounds(window_s: Any) -> tuple[float, float]:
    """Start and end of a window, seconds.

    Raises:
        ConfigError: neither a length nor a start and a later end.
    """
    key = "trace.window_s"
    if not isinstance(window_s, Sequence) or isinstance(window_s, str):
        return 0.0, require_number(key, window_s, above=0)
    if len(window_s) != 2:
        raise ConfigError(f"{key}={shown(window_s)}: must be a length or [start, end], in seconds")
    start_s = require_number(f"{key}[0]", window_s[0])
    return start_s, require_number(f"{key}[1]", window_s[1], above=start_s, low=-math.inf)


def _has_no_effect(name: str, value: Any, reason: str) -> ConfigError:
    return ConfigError(f"trace.{name}={value} has no effect: {reason}; leave it out")
