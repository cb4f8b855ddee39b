"""A study of Feather that changes one value and keeps the rest of the standard workload."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from experiments.studies.base import Bench, Study
from experiments.studies.feather.cell import DECIDES, Cell
from experiments.studies.feather.found import Found, run_cells
from experiments.studies.feather.load import Load
from experiments.studies.feather.measures import MEASURES, OUTPUT, WAIT
from experiments.studies.feather.notes import notes_of
from experiments.studies.feather.rows import SeriesRow, claim_row, measured_row, ratio_title
from experiments.studies.feather.variants import MAIN, Variant
from experiments.studies.findings import Findings, Row, Section
from experiments.studies.measured import Measure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

POISSON, AT_ONCE = "Poisson", "all at once"
COLD, COLD_AT_ONCE = "Poisson, cold", "all at once, cold"

BASES: Mapping[str, Load] = {
    POISSON: Load(),
    AT_ONCE: Load(rate_per_s=None),
    COLD: Load(is_warm=False),
    COLD_AT_ONCE: Load(rate_per_s=None, is_warm=False),
}
"""The standard workload by the way to arrive; `cold`: no prefix is in the cache at first."""

ARRIVALS = (POISSON, AT_ONCE)

CLAIMS_TITLE = "claims (ratios: of output tokens/s, unless named)"


class Table:
    """What the jobs of a sweep measured."""

    def __init__(self, found: Mapping[tuple[str, float, str], Found]) -> None:
        self._found = found

    def at(self, arrivals: str, value: float, variant: Variant) -> Found:
        """A job."""
        return self._found[arrivals, value, variant.label]

    def claim(
        self,
        claim: tuple[float, float],
        source: str,
        *,
        of: tuple[Variant, Variant],
        at: tuple[str, float],
        setting: str,
        measure: Measure = OUTPUT,
        **options: float,
    ) -> Row:
        """A claim about the ratio of two policies, of the first to the second."""
        mine, yours = (self.at(*at, variant) for variant in of)
        return claim_row(
            f"{setting}, {at[0]}",
            ratio_title(mine, yours, measure),
            claim,
            mine.ratio(yours, measure),
            source,
            **options,  # type: ignore[arg-type]
        )


class Sweep(Study):
    """A study over one value.

    Attributes:
        axis: title of the abscissa.
        values: of the swept value.
        variants: batch policies.
        arrivals: of `bases`, in the order of tables and panels.
        printed: measures for people; the others are in the CSV alone.
        own_notes: what is special to the study.
        ticks: names of the values, where they are no numbers.
        bases: the load by the way to arrive, before the value changes it.
        num_requests: of a job, in place of those of the size.
    """

    axis: str
    values: tuple[float, ...]
    variants: tuple[Variant, ...] = MAIN
    arrivals: tuple[str, ...] = ARRIVALS
    printed: tuple[Measure, ...] = (OUTPUT, WAIT)
    own_notes: tuple[str, ...] = ()
    ticks: ClassVar[Mapping[float, str] | None] = None
    decides: tuple[str, ...] = DECIDES
    bases: ClassVar[Mapping[str, Load]] = BASES
    num_requests: int | None = None

    @abstractmethod
    def load(self, value: float, base: Load) -> Load:
        """The load at a value, from the one of the way to arrive."""

    def prepare(self, bench: Bench) -> None:
        """Write what the jobs need."""

    @abstractmethod
    def setting(self, value: float) -> str:
        """A value in words."""

    def machine(self, value: float) -> Mapping[str, str]:
        """What the machine has in place of the standard one, as keys of a job."""
        return {}

    @abstractmethod
    def claims(self, table: Table) -> Sequence[Row]:
        """Claims beside what came out."""

    def cell(self, arrivals: str, value: float, variant: Variant) -> Cell:
        """A job."""
        machine = self.machine(value)
        return Cell(
            load=self.load(value, self.bases[arrivals]),
            variant=variant,
            machine=machine,
            place=f"{value:g}".replace(".", "_") if machine else "",
            num_requests=self.num_requests,
        )

    def run(self, bench: Bench) -> Findings:
        """Simulate and compare; nothing is fitted here."""
        self.prepare(bench)
        keys = [
            (arrivals, value, variant)
            for arrivals in self.arrivals
            for value in self.values
            for variant in self.variants
        ]
        found = run_cells(bench, [self.cell(*key) for key in keys])
        by_key = {
            (arrivals, value, variant.label): one
            for (arrivals, value, variant), one in zip(keys, found, strict=True)
        }
        claims = tuple(self.claims(Table(by_key)))
        sections = [Section(title=CLAIMS_TITLE, rows=claims)] if claims else []
        for measure in dict.fromkeys((*MEASURES, *self.printed)):
            for arrivals in self.arrivals:
                rows = [
                    measured_row(one, measure, self.setting(value), value)
                    for (came, value, _), one in by_key.items()
                    if came == arrivals
                ]
                sections.append(
                    Section(
                        title=title_of(measure, arrivals),
                        rows=tuple(rows),
                        is_printed=measure in self.printed,
                    )
                )
        return Findings(
            verdicts=(), sections=tuple(sections), notes=notes_of(bench.size, *self.own_notes)
        )

    def pictures(self, findings: Findings) -> "Mapping[str, Figure]":
        """Throughput over the value, one line per policy, one panel per way to arrive."""
        from experiments.studies.feather.figure import lines_figure

        panels = {
            arrivals: series_rows(findings, title_of(OUTPUT, arrivals))
            for arrivals in self.arrivals
        }
        return {self.name: lines_figure(panels, self.axis, self.ticks)}


def title_of(measure: Measure, arrivals: str) -> str:
    """Title of a section."""
    return f"{measure.title}, {arrivals}"


def series_rows(findings: Findings, title: str) -> list[SeriesRow]:
    """Rows of a section for a figure."""
    return [row for row in findings.section(title).rows if isinstance(row, SeriesRow)]
