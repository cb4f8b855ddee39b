"""The one number that is fitted: how many KV blocks of every prompt were cached."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from experiments.studies.vllm_a100.points import METRICS, MOST_BLOCKS, Point

ITL = METRICS[0]

COARSE = 8
"""Step of the first grid, KV blocks."""

NEARLY_AS_GOOD_RATIO = 0.005
"""Shares whose error exceeds the best one by no more than this are told apart by nothing here."""

Measure = Callable[[Sequence[int]], Mapping[int, tuple[float, ...]]]
"""Signed relative errors of the fitted points, by number of blocks."""


@dataclass(frozen=True, slots=True)
class HitShare:
    """A fitted number of blocks.

    Attributes:
        blocks: the best number.
        errors: signed relative errors of the fitted points, by number of blocks, all that were
            tried.
    """

    blocks: int
    errors: Mapping[int, tuple[float, ...]]

    @property
    def of_least_absolute(self) -> int:
        """The number that the mean of the absolute errors would choose."""
        return min(self.errors, key=lambda blocks: (sum(map(abs, self.errors[blocks])), blocks))

    @property
    def beside(self) -> list[int]:
        """Numbers of blocks that were tried one by one, ascending."""
        return [k for k in self.errors if abs(k - self.blocks) < COARSE]

    @property
    def nearly_as_good(self) -> list[int]:
        """Numbers of blocks that the fitted points cannot tell from the best one, ascending."""
        worst = root_mean_square(self.errors[self.blocks]) + NEARLY_AS_GOOD_RATIO
        return sorted(k for k, found in self.errors.items() if root_mean_square(found) <= worst)


def fit_hit_share(measure: Measure) -> HitShare:
    """Least squares on relative errors over whole numbers of blocks; the fewest blocks win ties.

    Tries every eighth number, then all beside the best of these.

    Args:
        measure: simulates.
    """
    errors = dict(measure(range(0, MOST_BLOCKS + 1, COARSE)))
    best = _best(errors)
    near = range(max(best - COARSE + 1, 0), min(best + COARSE, MOST_BLOCKS + 1))
    errors |= measure([blocks for blocks in near if blocks not in errors])
    return HitShare(_best(errors), dict(sorted(errors.items())))


def root_mean_square(errors: Sequence[float]) -> float:
    """Root of the mean square of relative errors."""
    return math.sqrt(sum(error * error for error in errors) / len(errors))


def _best(errors: Mapping[int, Sequence[float]]) -> int:
    return min(errors, key=lambda blocks: (root_mean_square(errors[blocks]), blocks))


def relative_error(point: Point, itl_s: float) -> float:
    """Simulated over measured mean ITL, less 1."""
    return itl_s * 1e3 / point.measured_ms[ITL] - 1
