"""Rows of the studies of Feather: what a claim says of a simulated interval, and plain measures."""

import math
from dataclasses import dataclass

from experiments.stats.intervals import Interval
from experiments.studies.feather.found import Found
from experiments.studies.feather.measures import OUTPUT
from experiments.studies.findings import REPORTED, Row
from experiments.studies.measured import Measure

AGREES, DISAGREES, NOT_DISTINGUISHABLE = "agrees", "disagrees", "not distinguishable"
"""Verdicts of a row with a claim; `reported`: nobody claimed anything."""

ABOUT = 0.25
"""Half-width of "about" (ours): a claim without decimals, read off a summary."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRow(Row):
    """A simulated interval beside a claim, which counts widened by `limit_ratio` on both sides."""

    @property
    def error_ratio(self) -> float | None:
        """Distance to the nearer end of the claim, relative to it; 0 inside."""
        if self.claim is None:
            return None
        low, high = self.claim
        mean = self.simulated.mean
        if math.isnan(mean) or low <= mean <= high:
            return mean if math.isnan(mean) else 0.0
        return mean / (low if mean < low else high) - 1

    @property
    def verdict(self) -> str:
        """It agrees if the whole interval lies within the claim, and disagrees if nothing does."""
        if self.claim is None:
            return REPORTED
        limit = self.limit_ratio or 0.0
        low, high = self.claim[0] * (1 - limit), self.claim[1] * (1 + limit)
        value = self.simulated
        if math.isnan(value.low):
            return NOT_DISTINGUISHABLE
        if value.high < low or value.low > high:
            return DISAGREES
        return AGREES if low <= value.low and value.high <= high else NOT_DISTINGUISHABLE


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesRow(Row):
    """A plain measure.

    Attributes:
        series: line of a figure that it belongs to, the label of a policy.
    """

    series: str


def measured_row(
    found: Found, measure: Measure, setting: str = "", at: float | None = None
) -> SeriesRow:
    """A measure of a job, for which nobody claimed anything."""
    label = found.cell.variant.label
    return SeriesRow(
        setting=f"{setting}: {label}" if setting else label,
        quantity=measure.title,
        unit=measure.unit,
        claim=None,
        simulated=found.interval(measure),
        at=at,
        series=label,
    )


def ratio_title(mine: Found, yours: Found, measure: Measure) -> str:
    """Quantity of a row that holds the ratio of two jobs; output goes without saying."""
    title = f"{mine.cell.variant.label}/{yours.cell.variant.label}"
    return title if measure is OUTPUT else f"{measure.title}: {title}"


def claim_row(
    setting: str,
    quantity: str,
    claim: tuple[float, float],
    simulated: Interval,
    source: str,
    *,
    limit_ratio: float = ABOUT,
    unit: str = "x",
) -> ClaimRow:
    """A claim and what came out.

    Args:
        setting: where it is claimed.
        quantity: of what.
        claim: lowest and highest value; infinity for "at least".
        simulated: what came out, in `unit`.
        source: who says so.
        limit_ratio: how far the claim is widened.
        unit: of all values.
    """
    return ClaimRow(
        setting=setting,
        quantity=quantity,
        unit=unit,
        claim=claim,
        simulated=simulated,
        role=source,
        limit_ratio=limit_ratio,
    )
