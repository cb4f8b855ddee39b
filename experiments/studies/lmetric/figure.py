"""Figures of the studies of LMETRIC: ratios to the reference, a panel per setting."""

from collections.abc import Sequence
from dataclasses import replace

from matplotlib.figure import Figure

from experiments.stats.intervals import Interval
from experiments.studies.feather.figure import dots_figure, lines_figure
from experiments.studies.feather.rows import SeriesRow
from experiments.studies.findings import Findings
from experiments.studies.lmetric.measures import Measure
from experiments.studies.lmetric.rows import DifferenceRow
from experiments.studies.lmetric.variants import PLACEBO

MOST_PANELS = 4
"""Side by side on a page."""


def ratios_figure(
    findings: Findings, measure: Measure, label: str, titles: Sequence[str] = ()
) -> Figure:
    """A measure over that of the reference, of the routers that all panels have.

    Args:
        findings: with sections of differences.
        measure: which of their quantities.
        label: title of the abscissa.
        titles: settings to draw, by the ends of their sections' titles; empty: the first ones.
    """
    known = difference_panels(findings, measure)
    chosen = [title for title in titles if title in known] or list(known)
    panels = {title: known[title] for title in chosen[:MOST_PANELS]}
    shared = set.intersection(*({row.setting for row in rows} for rows in panels.values()))
    drawn = {
        title: [_as_ratio(row) for row in rows if row.setting in shared]
        for title, rows in panels.items()
    }
    broken = {title.replace(", ", "\n", 1): rows for title, rows in drawn.items()}
    return dots_figure(broken, label, no_effect=1.0)


def sweep_figure(findings: Findings, measure: Measure, axis: str) -> Figure:
    """A measure over the swept value, a panel per trace, a line per router.

    Placebos are left out: their lines would cover those of their policy.

    Args:
        findings: with a section of the measure whose rows have abscissae.
        measure: which.
        axis: title of the abscissa.
    """
    panels: dict[str, list[SeriesRow]] = {}
    for row in findings.section(measure.title).rows:
        if isinstance(row, SeriesRow) and row.at is not None and PLACEBO not in row.series:
            panels.setdefault(row.setting.partition(", ")[0], []).append(row)
    title = measure.title[0].upper() + measure.title[1:]
    return lines_figure(panels, axis, label=f"{title} ({measure.unit})")


def difference_panels(findings: Findings, measure: Measure) -> dict[str, list[DifferenceRow]]:
    """Differences of a measure by setting."""
    panels: dict[str, list[DifferenceRow]] = {}
    for section in findings.sections:
        rows = [
            row
            for row in section.rows
            if isinstance(row, DifferenceRow) and row.quantity == measure.title
        ]
        if rows:
            panels[section.title.partition(": ")[2].removesuffix(", more")] = rows
    return panels


def _as_ratio(row: DifferenceRow) -> SeriesRow:
    """One and the difference, in place of percent."""
    value = row.simulated
    mean, low, high = (1 + end / 100 for end in (value.mean, value.low, value.high))
    return replace(row, simulated=Interval(mean, low, high, value.num_values), unit="x")
