"""A study that compares systems on some settings, all requests at once and at a load."""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from experiments.studies.alignedserve.cell import DECIDES, Cell, Found, Setting, run_cells
from experiments.studies.alignedserve.measures import MEASURES, OUTPUT, TPOT_P99, TTFT
from experiments.studies.alignedserve.notes import notes_of
from experiments.studies.alignedserve.systems import DISTSERVE, MAIN, System
from experiments.studies.base import Bench, Study
from experiments.studies.feather.rows import ClaimRow, SeriesRow, claim_row
from experiments.studies.findings import Findings, Row, Section
from experiments.studies.measured import Measure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

AT_ONCE, LOADED = "all at once", "Poisson"
ARRIVALS = (AT_ONCE, LOADED)

LOAD = 0.7
"""Poisson rate over the rate at which the reference finishes requests that are there at once."""

CLAIMS_TITLE = "claims"


@dataclass(frozen=True, slots=True)
class Grid:
    """What the jobs of a study measured."""

    found: Mapping[tuple[str, str, str], Found]

    def at(self, arrivals: str, setting: Setting, system: System) -> Found:
        """A job."""
        return self.found[arrivals, setting.label, system.label]

    def ratio_row(
        self,
        claim: tuple[float, float],
        source: str,
        *,
        of: tuple[System, System],
        at: tuple[str, Setting],
        measure: Measure = OUTPUT,
        limit_ratio: float = 0.25,
    ) -> ClaimRow:
        """A claim about the ratio of two systems, of the first to the second."""
        mine, yours = (self.at(*at, system) for system in of)
        quantity = f"{measure.title}: {of[0].label} / {of[1].label}"
        return claim_row(
            f"{at[1].label}, {at[0]}",
            quantity,
            claim,
            mine.ratio(yours, measure),
            source,
            limit_ratio=limit_ratio,
        )

    def value_row(
        self,
        claim: tuple[float, float],
        source: str,
        *,
        system: System,
        at: tuple[str, Setting],
        measure: Measure,
        limit_ratio: float = 0.25,
    ) -> ClaimRow:
        """A claim about a value of a system."""
        return claim_row(
            f"{at[1].label}, {at[0]}",
            f"{measure.title}: {system.label}",
            claim,
            self.at(*at, system).interval(measure),
            source,
            limit_ratio=limit_ratio,
            unit=measure.unit,
        )


class Comparison(Study):
    """A study over settings and systems.

    Attributes:
        axis: title of the abscissa.
        systems: compared, in the order of tables.
        arrivals: of `ARRIVALS`, in the order of tables.
        printed: measures for people; the others are in the CSV alone.
        drawn: what the figure shows, for each way to arrive.
        own_notes: what is special to the study.
        ticks: names of the abscissae, where they are no numbers.
        reference: sets the Poisson rate of a setting.
    """

    axis: str = ""
    systems: tuple[System, ...] = MAIN
    arrivals: tuple[str, ...] = ARRIVALS
    printed: tuple[Measure, ...] = (OUTPUT, TPOT_P99, TTFT)
    drawn: ClassVar[Mapping[str, Measure]] = {AT_ONCE: OUTPUT}
    own_notes: tuple[str, ...] = ()
    ticks: ClassVar[Mapping[float, str] | None] = None
    reference: System = DISTSERVE
    decides: tuple[str, ...] = DECIDES

    @abstractmethod
    def settings(self, size: str) -> Sequence[Setting]:
        """What the systems are compared on."""

    @abstractmethod
    def claims(self, grid: Grid, settings: Sequence[Setting]) -> Sequence[Row]:
        """Claims beside what came out."""

    def run(self, bench: Bench) -> Findings:
        """Simulate and compare; nothing is fitted here."""
        settings = tuple(self.settings(bench.size))
        grid = Grid(self._simulated(bench, settings))
        claims = tuple(self.claims(grid, settings))
        sections = [Section(title=CLAIMS_TITLE, rows=claims)] if claims else []
        for measure in MEASURES:
            for arrivals in self.arrivals:
                rows = tuple(
                    _measured_row(grid.at(arrivals, setting, system), measure)
                    for setting in settings
                    for system in self.systems
                )
                title = _title(measure, arrivals)
                is_printed = measure in self.printed
                sections.append(Section(title=title, rows=rows, is_printed=is_printed))
        notes = notes_of(bench.size, *self.own_notes)
        return Findings(verdicts=(), sections=tuple(sections), notes=notes)

    def _simulated(
        self, bench: Bench, settings: Sequence[Setting]
    ) -> dict[tuple[str, str, str], Found]:
        cells = [
            Cell(setting=setting, system=system)
            for setting in settings
            for system in dict.fromkeys((self.reference, *self.systems))
        ]
        found = run_cells(bench, cells)
        if LOADED in self.arrivals:
            rates = {
                one.cell.setting.label: LOAD
                * sum(run["request_rate_per_s"] for run in one.values)
                / len(one.values)
                for one in found
                if one.cell.system == self.reference
            }
            loaded = [
                Cell(setting=setting, system=system, rate_per_s=rates[setting.label])
                for setting in settings
                for system in self.systems
            ]
            found += run_cells(bench, loaded)
        return {
            (
                AT_ONCE if one.cell.rate_per_s is None else LOADED,
                one.cell.setting.label,
                one.cell.system.label,
            ): one
            for one in found
        }

    def pictures(self, findings: Findings) -> "Mapping[str, Figure]":
        """A measure over the settings, one line per system, a panel per way to arrive."""
        from experiments.studies.feather.figure import lines_figure

        panels = {}
        for arrivals, measure in self.drawn.items():
            rows = findings.section(_title(measure, arrivals)).rows
            panels[arrivals] = [row for row in rows if isinstance(row, SeriesRow)]
        figure = lines_figure(panels, self.axis, self.ticks)
        tops = [
            row.simulated.high for rows in panels.values() for row in rows if row.at is not None
        ]
        figure.axes[0].set_ylim(top=1.05 * max(tops, default=1.0))  # room for the bars
        return {self.name: figure}


def dots_of(
    findings: Findings, measure: Measure, place: Callable[[SeriesRow], tuple[str, str]]
) -> "Figure":
    """A measure of requests that are all there at once, as dots.

    Args:
        findings: of a comparison.
        measure: which.
        place: title of the panel of a row, and its setting there.
    """
    from experiments.studies.feather.figure import dots_figure

    panels: dict[str, list[SeriesRow]] = {}
    for row in findings.section(_title(measure, AT_ONCE)).rows:
        if isinstance(row, SeriesRow):
            panel, setting = place(row)
            panels.setdefault(panel, []).append(replace(row, setting=setting))
    return dots_figure(panels)


def _title(measure: Measure, arrivals: str) -> str:
    return f"{measure.title}, {arrivals}"


def _measured_row(found: Found, measure: Measure) -> SeriesRow:
    setting, label = found.cell.setting, found.cell.system.label
    return SeriesRow(
        setting=f"{setting.label}: {label}",
        quantity=measure.title,
        unit=measure.unit,
        claim=None,
        simulated=found.interval(measure),
        at=setting.at,
        series=label,
    )
