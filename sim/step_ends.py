"""End times of an instance's steps, one growing array."""

from typing import Any, cast

import numpy as np
import numpy.typing as npt
from mypy_extensions import mypyc_attr

FloatArray = npt.NDArray[np.float64]


@mypyc_attr(allow_interpreted_subclasses=True)
class StepEnds:
    """Step k (from 1) ends at `times[k - 1]`; entries past the planned steps are scratch.

    Attributes:
        times: end times, seconds; replaced by `reserve` when it grows.
        view: the same memory for single entries, as Python floats (three times as fast).
    """

    __slots__ = ("capacity", "times", "view")

    def __init__(self) -> None:
        self.capacity = 1024
        self.times: FloatArray = np.empty(self.capacity)
        self.view: memoryview[float] = memoryview(cast(Any, self.times))

    def reserve(self, num_steps: int) -> None:
        """Make room for `num_steps` entries."""
        if num_steps > self.capacity:
            self.capacity = max(num_steps, self.capacity + self.capacity // 2)
            grown = np.empty(self.capacity)
            grown[: len(self.times)] = self.times
            self.times = grown
            self.view = memoryview(cast(Any, grown))
