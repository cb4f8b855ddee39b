"""The interval of a mean over independent runs (seeds, replications)."""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from sim.errors import ConfigError

FloatArray = npt.NDArray[np.float64]

Method = Literal["t", "bootstrap", "percentile"]
METHODS: tuple[str, ...] = get_args(Method)

METHOD_TITLES = {
    "t": "Student's t",
    "bootstrap": "bias-corrected and accelerated (BCa) bootstrap",
    "percentile": "percentile bootstrap",
}

NUM_RESAMPLES = 9_999
BOOTSTRAP_SEED = 20_260
"""Fixed, so that the same results give the same interval."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean and where the true one lies.

    Attributes:
        mean: sample mean; NaN without values.
        low: lower bound; NaN where one value (or none) allows no interval.
        high: upper bound, likewise.
        num_values: values averaged.
    """

    mean: float
    low: float
    high: float
    num_values: int

    @property
    def is_bounded(self) -> bool:
        """Whether there is an interval at all."""
        return not np.isnan(self.low)

    @property
    def half_width(self) -> float:
        """Half of the interval's width; NaN without one."""
        return (self.high - self.low) / 2


def mean_interval(
    values: npt.ArrayLike, level: float = 0.95, method: Method | str = "t"
) -> Interval:
    """Two-sided interval of the mean of independent values.

    The t interval assumes that means of so many values are about normal; the bootstraps do not,
    but need some ten values to reach their level.

    Args:
        values: shape (n,); NaN (a figure that a run does not have) makes the mean NaN, since
            leaving it out would average another set of runs.
        level: coverage, between 0 and 1.
        method: one of METHODS.

    Raises:
        ConfigError: `level` or `method` is none.
    """
    check_level(level)
    if method not in METHODS:
        raise ConfigError(f"unknown interval {method!r}: must be one of {', '.join(METHODS)}")
    sample = np.asarray(values, dtype=np.float64)
    if not len(sample) or np.isnan(sample).any():
        return Interval(np.nan, np.nan, np.nan, len(sample))
    mean = float(sample.mean())
    if len(sample) == 1:
        return Interval(mean, np.nan, np.nan, 1)
    if np.all(sample == sample[0]):
        return Interval(float(sample[0]), float(sample[0]), float(sample[0]), len(sample))
    low, high = _t(sample, level) if method == "t" else _bootstrap(sample, level, method)
    return Interval(mean, low, high, len(sample))


def check_level(level: float) -> None:
    """Refuse a level of confidence that is none.

    Raises:
        ConfigError: it is not between 0 and 1.
    """
    if not 0 < level < 1:
        raise ConfigError(f"level is {level:g}: must lie between 0 and 1, for example 0.95")


def t_quantile(level: float, freedom: float) -> float:
    """Two-sided Student quantile: the factor of the standard error."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, (1 + level) / 2))


def _t(sample: FloatArray, level: float) -> tuple[float, float]:
    error = float(sample.std(ddof=1)) / len(sample) ** 0.5
    reach = t_quantile(level, len(sample) - 1) * error
    mean = float(sample.mean())
    return mean - reach, mean + reach


def _bootstrap(sample: FloatArray, level: float, method: str) -> tuple[float, float]:
    from scipy.stats import bootstrap

    found = bootstrap(
        (sample,),
        np.mean,
        confidence_level=level,
        n_resamples=NUM_RESAMPLES,
        method="BCa" if method == "bootstrap" else "percentile",
        rng=np.random.default_rng(BOOTSTRAP_SEED),
    ).confidence_interval
    return float(found.low), float(found.high)
