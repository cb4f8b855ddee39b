"""What the kernel models share: checked sizes, and a smooth maximum of two bounds."""

import numpy as np
import numpy.typing as npt

from hwmodels.strict_json import shown
from sim.errors import ConfigError
from sim.interfaces import FloatArray

Numbers = npt.ArrayLike
"""A number or an array of numbers; several of them broadcast."""


def sizes(name: str, values: Numbers, at_least: float = 1.0) -> FloatArray:
    """`values` as float64.

    Raises:
        ConfigError: one of them is below `at_least`, infinite or not a number.
    """
    array = np.asarray(values, dtype=np.float64)
    allowed = (array >= at_least) & (array < np.inf)
    if not np.all(allowed):
        worst = float(array[~allowed].flat[0])
        raise ConfigError(f"{name} must be at least {at_least:g}, found {shown(worst)}")
    return array


def smooth_max(one: Numbers, other: Numbers, exponent: float) -> FloatArray:
    """`(one^q + other^q)^(1/q)` for values that are not negative: from sum (q = 1) to maximum."""
    first, second = np.asarray(one, dtype=np.float64), np.asarray(other, dtype=np.float64)
    larger = np.maximum(np.maximum(first, second), np.finfo(np.float64).tiny)
    ratio = np.minimum(first, second) / larger
    joined: FloatArray = larger * (1.0 + ratio**exponent) ** (1.0 / exponent)
    return joined


def as_times(seconds: FloatArray) -> FloatArray:
    """A float64 array of any shape as it is; of shape () as a NumPy float64, which is a float."""
    times: FloatArray = np.asarray(seconds, dtype=np.float64)[()]
    return times
