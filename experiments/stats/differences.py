"""Differences between two policies: paired where both saw the same load, Welch's where not."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from experiments.stats.directions import Direction
from experiments.stats.intervals import check_level, t_quantile

FloatArray = npt.NDArray[np.float64]
Verdict = Literal["better", "worse", "higher", "lower", "not distinguishable", "one run", "absent"]


@dataclass(frozen=True, slots=True)
class Difference:
    """Mean of a policy less that of the baseline.

    Attributes:
        difference: in the metric's unit; NaN where a figure is absent.
        low: lower bound, NaN where there is no interval.
        high: upper bound, likewise.
        relative: difference / mean of the baseline; NaN where that is 0.
        num_values: pairs, or runs of the smaller side.
        method: paired, welch, or none (fewer than two values).
        standard_error: of the difference; NaN without an interval.
        freedom: degrees of freedom of its t distribution.
        p_value: of "no difference", two-sided; after `holm` the adjusted one.
        level: of the interval.
    """

    difference: float
    low: float
    high: float
    relative: float
    num_values: int
    method: Literal["paired", "welch", "none"]
    standard_error: float
    freedom: float
    p_value: float
    level: float

    def verdict(self, direction: Direction | None, alpha: float) -> Verdict:
        """What the difference says of the policy.

        Args:
            direction: which way the metric is better; None only tells higher from lower.
            alpha: probability accepted of a wrong verdict.
        """
        if np.isnan(self.difference):
            return "absent"
        if self.method == "none":
            return "one run"
        if not self.p_value <= alpha:
            return "not distinguishable"
        way: Direction = "higher" if self.difference > 0 else "lower"
        if direction is None:
            return way
        return "better" if way == direction else "worse"


def paired_difference(
    values: npt.ArrayLike, baseline: npt.ArrayLike, level: float = 0.95
) -> Difference:
    """Difference of means of values that belong together (same load, same seed), with t interval.

    Args:
        values: shape (n,), of the policy.
        baseline: shape (n,), of the baseline on the same loads in the same order.
        level: coverage of the interval.
    """
    check_level(level)
    ours, theirs = (np.asarray(side, dtype=np.float64) for side in (values, baseline))
    pairs = ours - theirs
    mean = float(pairs.mean()) if len(pairs) else np.nan
    if len(pairs) < 2 or np.isnan(mean):
        return _without_interval(mean, theirs, len(pairs), level)
    error = float(pairs.std(ddof=1)) / len(pairs) ** 0.5
    return _difference(mean, error, len(pairs) - 1, theirs, len(pairs), "paired", level)


def welch_difference(
    values: npt.ArrayLike, baseline: npt.ArrayLike, level: float = 0.95
) -> Difference:
    """Difference of means of independent runs of unequal variance.

    Args:
        values: shape (n,), of the policy.
        baseline: shape (m,), of the baseline.
        level: coverage of the interval.
    """
    check_level(level)
    ours, theirs = (np.asarray(side, dtype=np.float64) for side in (values, baseline))
    smaller = min(len(ours), len(theirs))
    mean = float(ours.mean() - theirs.mean()) if smaller else np.nan
    if smaller < 2 or np.isnan(mean):
        return _without_interval(mean, theirs, smaller, level)
    parts = np.array([side.var(ddof=1) / len(side) for side in (ours, theirs)])
    total = float(parts.sum())
    rest = float((parts**2 / [len(ours) - 1, len(theirs) - 1]).sum())
    freedom = total**2 / rest if rest > 0 else float(len(ours) + len(theirs) - 2)
    return _difference(mean, total**0.5, freedom, theirs, smaller, "welch", level)


def holm(differences: Sequence[Difference], level: float = 0.95) -> list[Difference]:
    """Correct for several policies compared with one baseline (Holm's step-down method).

    p-values become the adjusted ones. Every interval is widened to the level of its step, so that
    it leaves 0 outside exactly where the adjusted p-value is at most 1 - level.

    Args:
        differences: one per policy, of one metric in one setting.
        level: coverage before the correction.
    """
    tested = [k for k, item in enumerate(differences) if item.method != "none"]
    order = sorted(tested, key=lambda k: differences[k].p_value)
    corrected = list(differences)
    alpha, step_level, largest = 1 - level, level, 0.0
    for num_before, k in enumerate(order):
        item = differences[k]
        num_left = len(order) - num_before
        # The first that is not rejected ends the procedure: the others keep its level.
        if largest <= alpha:
            step_level = 1 - alpha / num_left
        largest = max(largest, min(1.0, num_left * item.p_value))
        reach = t_quantile(step_level, item.freedom) * item.standard_error
        corrected[k] = replace(
            item,
            p_value=largest,
            level=step_level,
            low=item.difference - reach,
            high=item.difference + reach,
        )
    return corrected


def _difference(
    mean: float,
    error: float,
    freedom: float,
    baseline: FloatArray,
    num_values: int,
    method: Literal["paired", "welch"],
    level: float,
) -> Difference:
    from scipy.special import stdtr

    if error > 0:
        p_value = float(2 * stdtr(freedom, -abs(mean) / error))
    else:
        p_value = 1.0 if mean == 0 else 0.0
    reach = t_quantile(level, freedom) * error
    return Difference(
        difference=mean,
        low=mean - reach,
        high=mean + reach,
        relative=_relative(mean, baseline),
        num_values=num_values,
        method=method,
        standard_error=error,
        freedom=freedom,
        p_value=p_value,
        level=level,
    )


def _without_interval(
    mean: float, baseline: FloatArray, num_values: int, level: float
) -> Difference:
    nan = float("nan")
    relative = _relative(mean, baseline)
    return Difference(mean, nan, nan, relative, num_values, "none", nan, nan, nan, level)


def _relative(mean: float, baseline: FloatArray) -> float:
    whole = float(baseline.mean()) if len(baseline) else np.nan
    return mean / whole if whole else np.nan
