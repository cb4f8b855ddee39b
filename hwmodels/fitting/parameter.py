"""A constant that a fit may change, with its bounds and the value held when data do not say."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sim.errors import ConfigError

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A positive constant, fitted by its logarithm.

    Attributes:
        name: of the constant; its unit is in the name.
        start: first guess of the fit.
        low: smallest value that the fit may take, above zero.
        high: largest value that it may take.
        prior: value kept where the data do not identify the constant, 0 or more; None: `start`.

    Raises:
        ConfigError: not 0 < low <= start <= high, a bound is not finite, or a negative prior.
    """

    name: str
    start: float
    low: float
    high: float
    prior: float | None = None

    def __post_init__(self) -> None:
        is_ordered = 0 < self.low <= self.start <= self.high and math.isfinite(self.high)
        if not is_ordered or (self.prior is not None and not self.prior >= 0):
            raise ConfigError(
                f"parameter {self.name}: need 0 < low <= start <= high and a prior >= 0, "
                f"got {self.low}, {self.start}, {self.high}, {self.prior}"
            )

    @property
    def fallback(self) -> float:
        """The value where the data do not identify the constant."""
        return self.start if self.prior is None else self.prior


def log_bounds(parameters: Iterable[Parameter]) -> tuple[FloatArray, FloatArray]:
    """Logarithms of the low and the high bounds, in the order of the parameters."""
    low = np.log([parameter.low for parameter in parameters])
    high = np.log([parameter.high for parameter in parameters])
    return low, high


def starts_of(parameters: tuple[Parameter, ...], num_starts: int) -> list[FloatArray]:
    """Logarithms to start from: the first guesses, then fixed points around them inside the bounds.

    The points are drawn from a generator with a constant seed, so that a fit repeats exactly.
    """
    rng = np.random.default_rng(20_240_607)
    low, high = log_bounds(parameters)
    middle = np.log([parameter.start for parameter in parameters])
    starts = [middle]
    for _ in range(num_starts - 1):
        shifted = middle + rng.uniform(-0.7, 0.7, size=middle.size)
        starts.append(np.clip(shifted, low + 1e-9, high - 1e-9))
    return starts


def with_logs(
    names: Iterable[str], logs: FloatArray, fixed: Mapping[str, float]
) -> dict[str, float]:
    """Values by name: `exp` of the fitted logarithms, and the fixed ones as they are."""
    return dict(fixed) | dict(zip(names, np.exp(logs).tolist(), strict=True))
