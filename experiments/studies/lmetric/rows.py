"""Rows of the studies of LMETRIC: a difference beside its noise floor, or beside a claim."""

import math
from dataclasses import dataclass

from experiments.stats.intervals import Interval
from experiments.studies.feather.rows import SeriesRow
from experiments.studies.findings import REPORTED, Row

HIGHER, LOWER = "higher", "lower"
NOT_DISTINGUISHABLE, WITHIN_NOISE = "not distinguishable", "within noise"
"""Verdicts of a difference: of the quantity, whichever way is better; its interval covers 0; it
does not, but the noise floor reaches it."""

AGREES, SMALLER, LARGER = "agrees", "smaller", "larger"
OPPOSITE, DISAGREES = "opposite", "disagrees"
"""Verdicts of a claim: the effect is as claimed, has its sign but not its size, or not its sign; of
a claim that 0 lies within, that the effect lies outside."""

ABOUT = 0.25
"""Half-width of "about" (ours), of the claimed effect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferenceRow(SeriesRow):
    """A relative difference to a reference, percent; `limit_ratio` is the noise floor, a ratio."""

    @property
    def verdict(self) -> str:
        """Its direction, if its whole interval lies beyond the noise floor."""
        found = _direction(self.simulated, self.limit_ratio)
        if found is not None:
            return found
        is_sure = _direction(self.simulated, 0.0) is not None
        return WITHIN_NOISE if is_sure else NOT_DISTINGUISHABLE


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimedRow(Row):
    """A claimed difference, percent; the claim counts widened by `limit_ratio` of its size.

    Attributes:
        floor_ratio: the noise floor, a ratio.
    """

    floor_ratio: float = 0.0

    @property
    def error_ratio(self) -> float | None:
        """Distance to the nearer end of the claim, relative to it; 0 inside."""
        if self.claim is None:
            return None
        low, high = self.claim
        mean = self.simulated.mean
        if math.isnan(mean) or low <= mean <= high:
            return mean if math.isnan(mean) else 0.0
        end = low if mean < low else high
        return mean / end - 1 if end else float("nan")

    @property
    def verdict(self) -> str:
        """What the interval says of sign and size; nothing if it reaches the noise floor."""
        if self.claim is None:
            return REPORTED
        low, high = _widened(self.claim, self.limit_ratio or 0.0)
        value = self.simulated
        if low <= 0 <= high:
            is_inside = low <= value.low and value.high <= high
            is_outside = value.high < low or value.low > high
            return AGREES if is_inside else DISAGREES if is_outside else NOT_DISTINGUISHABLE
        direction = _direction(value, self.floor_ratio)
        if direction is None:
            is_sure = _direction(value, 0.0) is not None
            return WITHIN_NOISE if is_sure else NOT_DISTINGUISHABLE
        if (direction == HIGHER) != (low > 0):
            return OPPOSITE
        if low <= value.low and value.high <= high:
            return AGREES
        if value.low <= high and value.high >= low:
            return NOT_DISTINGUISHABLE if not low <= value.mean <= high else AGREES
        return LARGER if abs(value.mean) > max(abs(low), abs(high)) else SMALLER


def measured_row(
    setting: str, series: str, quantity: str, unit: str, value: Interval, at: float | None = None
) -> SeriesRow:
    """A plain measure, for which nobody claimed anything."""
    return SeriesRow(
        setting=setting,
        quantity=quantity,
        unit=unit,
        claim=None,
        simulated=value,
        at=at,
        series=series,
    )


def _direction(value: Interval, floor_ratio: float | None) -> str | None:
    floor = 100 * (floor_ratio or 0.0)
    if value.low > floor:
        return HIGHER
    return LOWER if value.high < -floor else None


def _widened(claim: tuple[float, float], limit_ratio: float) -> tuple[float, float]:
    """Ends of a claim, each moved outwards by this share of itself."""
    low, high = (0.0 if math.isinf(end) else limit_ratio * abs(end) for end in claim)
    return claim[0] - low, claim[1] + high
