"""Differences between policies that count only beyond what a placebo makes.

A *unit* is one replication of a comparison: a seed, a stretch of a recorded trace
(`trace_windows`), or a pair of both. Every policy serves the same requests in a unit, so policies
are compared unit by unit, with a bootstrap interval over the units. The *placebo* of a policy is
the policy itself with its order of ties shifted (`tie_shift_override`): what that changes is noise,
however sure its interval looks. A verdict is given only where the interval of a difference lies
outside of what placebos reach.

Not covered: that few units know little (bootstraps of fewer than some ten are too narrow, so the
wider one of theirs and Student's is taken), and that a policy whose scores never tie has a placebo
that changes nothing: its floor is 0, and the units alone decide.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from experiments.stats.directions import Direction
from experiments.stats.intervals import Interval, mean_interval
from sim.errors import ConfigError

FloatArray = npt.NDArray[np.float64]

GuardedVerdict = Literal[
    "better",
    "worse",
    "higher",
    "lower",
    "within noise",
    "not distinguishable",
    "one unit",
    "absent",
]

UnitValues = Mapping[Any, float]
"""A metric by unit: a seed, a window, a pair of both; anything that can be a key."""

FEW_UNITS = 10
"""Below so many units a bootstrap interval is clearly too narrow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placebo:
    """A policy beside itself with another order of ties.

    Attributes:
        plain: a metric of the policy by unit.
        shifted: the same of its placebo.
    """

    plain: UnitValues
    shifted: UnitValues


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardedDifference:
    """Mean difference of a policy to a baseline over units, and the noise floor beneath it.

    Attributes:
        difference: mean of policy less baseline, in the metric's unit; its interval over units.
        relative: difference / mean of the baseline; NaN where that is 0.
        noise_floor: what placebos reach, in the metric's unit, >= 0; NaN without a placebo.
    """

    difference: Interval
    relative: float
    noise_floor: float

    @property
    def is_beyond_noise(self) -> bool:
        """Whether the whole interval is farther from 0 than the noise floor (0 without one)."""
        floor = 0.0 if np.isnan(self.noise_floor) else self.noise_floor
        return self.difference.low > floor or self.difference.high < -floor

    def verdict(self, direction: Direction | None) -> GuardedVerdict:
        """What the difference says of the policy.

        "not distinguishable": the interval covers 0; "within noise": it does not, but placebos
        reach it.

        Args:
            direction: which way the metric is better; None only tells higher from lower.
        """
        found = self.difference
        if np.isnan(found.mean):
            return "absent"
        if not found.is_bounded:
            return "one unit"
        if found.low <= 0 <= found.high:
            return "not distinguishable"
        if not self.is_beyond_noise:
            return "within noise"
        way: Direction = "higher" if found.mean > 0 else "lower"
        if direction is None:
            return way
        return "better" if way == direction else "worse"


def guarded_difference(
    policy: UnitValues,
    baseline: UnitValues,
    placebos: Sequence[Placebo] = (),
    level: float = 0.95,
) -> GuardedDifference:
    """Compare two policies over the units that both have.

    Args:
        policy: a metric of the policy by unit; NaN where it has none, which makes the mean NaN.
        baseline: the same of the baseline.
        placebos: of the policy, of the baseline, or of both; any number of shifts.
        level: coverage of all intervals.

    Raises:
        ConfigError: `level` is none, or two sides have no unit in common.
    """
    pairs = unit_differences(policy, baseline)
    common = [unit for unit in policy if unit in baseline]
    whole = float(np.mean([baseline[unit] for unit in common]))
    found = unit_interval(pairs, level)
    return GuardedDifference(
        difference=found,
        relative=found.mean / whole if whole else np.nan,
        noise_floor=noise_floor(placebos, level),
    )


def noise_floor(placebos: Sequence[Placebo], level: float = 0.95) -> float:
    """The farthest from 0 that an interval of a placebo's mean difference reaches.

    With a single unit there is no interval: then the difference itself. NaN without placebos.

    Raises:
        ConfigError: `level` is none, or a placebo has no unit of its policy.
    """
    reach: list[float] = []
    for placebo in placebos:
        found = unit_interval(unit_differences(placebo.shifted, placebo.plain), level)
        ends = (found.low, found.high) if found.is_bounded else (found.mean,)
        reach += [abs(end) for end in ends]
    return max(reach, default=np.nan) if not np.isnan(reach).any() else np.nan


def unit_differences(policy: UnitValues, baseline: UnitValues) -> FloatArray:
    """Policy less baseline in every unit that both have, in the policy's order. Shape (units,).

    Raises:
        ConfigError: they have none in common.
    """
    common = [unit for unit in policy if unit in baseline]
    if not common:
        raise ConfigError("nothing to compare: no seed and no window is common to both policies")
    return np.array([policy[unit] - baseline[unit] for unit in common], dtype=np.float64)


def unit_interval(
    differences: npt.ArrayLike, level: float = 0.95, method: str = "bootstrap"
) -> Interval:
    """Bootstrap interval of a mean over units; of few units Student's where that is wider.

    Args:
        differences: shape (units,).
        level: coverage, between 0 and 1.
        method: bootstrap (BCa) or percentile.

    Raises:
        ConfigError: `level` or `method` is none.
    """
    by_bootstrap = mean_interval(differences, level, method)
    if by_bootstrap.num_values >= FEW_UNITS or not by_bootstrap.is_bounded:
        return by_bootstrap
    by_t = mean_interval(differences, level, "t")
    return Interval(
        mean=by_t.mean,
        low=min(by_bootstrap.low, by_t.low),
        high=max(by_bootstrap.high, by_t.high),
        num_values=by_t.num_values,
    )


def trace_windows(start_s: float, end_s: float, num_windows: int) -> list[tuple[float, float]]:
    """Equal stretches of a trace, in order: its replication units.

    Each is simulated on its own, from an empty cluster; `trace.warmup_s` counts within it.

    Args:
        start_s: where the first one begins, seconds.
        end_s: where the last one ends, seconds.
        num_windows: how many, >= 1.

    Raises:
        ConfigError: there is nothing to cut.
    """
    if num_windows < 1 or not start_s < end_s:
        raise ConfigError(
            f"no windows: {num_windows} from {start_s:g} s to {end_s:g} s; must be at least one "
            "and of some length"
        )
    edges = [float(edge) for edge in np.linspace(start_s, end_s, num_windows + 1)]
    return list(pairwise(edges))


def window_override(window: tuple[float, float]) -> str:
    """The override that keeps one window of a trace."""
    return f"trace.window_s=[{window[0]:.17g},{window[1]:.17g}]"


def tie_shift_override(tie_shift: int = 1) -> str:
    """The override that makes a placebo; below `cluster.num_instances`."""
    return f"routing.tie_shift={tie_shift}"
