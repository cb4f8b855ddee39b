"""A study that compares routers with LMETRIC on the same requests, setting by setting."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from experiments.stats.intervals import Interval
from experiments.studies.base import Bench, Study
from experiments.studies.findings import Findings, Row, Section
from experiments.studies.lmetric.found import Found, Key, run_settings
from experiments.studies.lmetric.measures import (
    LATENCIES,
    PLAIN,
    TPOT,
    TTFT,
    Measure,
)
from experiments.studies.lmetric.notes import notes_of
from experiments.studies.lmetric.paired import floor_of
from experiments.studies.lmetric.rows import (
    ABOUT,
    ClaimedRow,
    DifferenceRow,
    measured_row,
)
from experiments.studies.lmetric.setting import DECIDES, SCALES, Scale, Setting
from experiments.studies.lmetric.variants import LMETRIC, Variant, placebo

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CLAIMS_TITLE = "claims (differences, %)"
CAPACITY_TITLE = "capacity: flood throughput under least_requests"

PERCENT = 100.0

Plan = Mapping[Setting, tuple[Variant, ...]]
"""Routers of each setting, without the reference and its placebos."""

PLACEBOS = {"quick": (placebo(1),), "full": (placebo(1), placebo(5), placebo(11))}


class Table:
    """What the jobs of a study measured.

    Args:
        found: by setting and router.
        reference: what the routers of a setting are compared with.
        placebos: the reference with other orders of ties.
    """

    def __init__(
        self, found: Mapping[Key, Found], reference: Variant, placebos: Sequence[Variant]
    ) -> None:
        self._found = found
        self._reference = reference
        self._placebos = placebos

    def at(self, setting: Setting, variant: Variant) -> Found:
        """A job."""
        return self._found[setting, variant]

    def has(self, setting: Setting, variant: Variant) -> bool:
        """Whether there is such a job."""
        return (setting, variant) in self._found

    def change(self, setting: Setting, mine: Variant, other: Variant, measure: Measure) -> Interval:
        """Of one router to another, percent."""
        return self.at(setting, mine).change(self.at(setting, other), measure)

    def floor_ratio(self, setting: Setting, measure: Measure) -> float:
        """What placebos reach in a setting, a ratio, to a hundredth of a percent."""
        changes = [
            self.change(setting, one, self._reference, measure)
            for one in self._placebos
            if self.has(setting, one)
        ]
        return round(floor_of(changes) / PERCENT, 4)

    def claim(
        self,
        setting: Setting,
        pair: tuple[Variant, Variant],
        measure: Measure,
        claim: tuple[float, float],
        source: str,
        limit_ratio: float = ABOUT,
    ) -> Row:
        """A claimed difference of the first router to the second, percent."""
        mine, other = pair
        return ClaimedRow(
            setting=setting.title,
            quantity=f"{measure.title}: {mine.label} against {other.label}",
            unit="%",
            claim=claim,
            simulated=self.change(setting, mine, other, measure),
            role=source,
            limit_ratio=limit_ratio,
            floor_ratio=self.floor_ratio(setting, measure),
        )


class Comparison(Study):
    """A study of settings and routers.

    Attributes:
        reference: what everything is compared with.
        printed: measures whose differences are for people; the others are in the CSV alone.
        plain: measures whose values are for people.
        extra: measures, beside the latencies of all requests, whose differences are in the CSV.
        own_notes: what is special to the study.
        scales: how much each size runs.
        drawn: the measure of the figure.
        drawn_name: its name there; empty: its title.
        is_joined: whether the differences of all settings share one section.
    """

    reference: Variant = LMETRIC
    printed: tuple[Measure, ...] = (TTFT, TPOT)
    plain: tuple[Measure, ...] = ()
    extra: tuple[Measure, ...] = ()
    own_notes: tuple[str, ...] = ()
    decides: tuple[str, ...] = DECIDES
    scales: ClassVar[Mapping[str, Scale]] = SCALES
    drawn: Measure = TTFT
    drawn_name: str = ""
    is_joined: bool = False

    @abstractmethod
    def plan(self, size: str) -> Plan:
        """Settings and routers."""

    def claims(self, table: Table, plan: Plan) -> Sequence[Row]:
        """Claims beside what came out."""
        return ()

    def more(self, table: Table, plan: Plan) -> Sequence[Section]:
        """Further sections, behind the claims."""
        return ()

    def placebos(self, size: str) -> tuple[Variant, ...]:
        """The reference with other orders of ties."""
        return PLACEBOS[size]

    def run(self, bench: Bench) -> Findings:
        """Simulate and compare; nothing is fitted here."""
        plan = self.plan(bench.size)
        wanted = [
            (setting, variant)
            for setting, routers in plan.items()
            for variant in (self.reference, *self.placebos(bench.size), *routers)
        ]
        found = run_settings(bench, wanted, self.scales)
        table = Table(found, self.reference, self.placebos(bench.size))
        claims = tuple(self.claims(table, plan))
        sections = [Section(title=CLAIMS_TITLE, rows=claims)] if claims else []
        sections += self.more(table, plan)
        sections += self._differences(table, plan, bench.size)
        sections += [self._measured(table, plan, measure, bench.size) for measure in PLAIN]
        sections.append(_capacities(table, plan, self.reference))
        sources = dict.fromkeys(setting.source for setting in plan)
        lacking = [one.note for one in sources if one.note is not None]
        text = f"size={bench.size}: {self.sizes[bench.size]}"
        return Findings(
            verdicts=(),
            sections=tuple(sections),
            notes=(
                *lacking,
                text,
                *_regimes(table, plan, self.reference),
                *self.own_notes,
                *notes_of(self.scales[bench.size]),
            ),
        )

    def pictures(self, findings: Findings) -> "Mapping[str, Figure]":
        """Ratios to the reference in one measure, a panel per setting."""
        from experiments.studies.lmetric.figure import ratios_figure

        label = f"{self.drawn_name or self.drawn.title} / {self.reference.label}'s"
        return {self.name: ratios_figure(findings, self.drawn, label)}

    def _differences(self, table: Table, plan: Plan, size: str) -> list[Section]:
        """Sections for people, each followed by one with the other latencies."""
        others = tuple(one for one in (*LATENCIES, *self.extra) if one not in self.printed)
        groups = [tuple(plan)] if self.is_joined else [(setting,) for setting in plan]
        sections = []
        for group in groups:
            title = f"against {self.reference.label}"
            title = title if self.is_joined else f"{title}: {group[0].title}"
            for measures, is_printed in ((self.printed, True), (others, False)):
                rows = tuple(
                    self._difference(table, setting, variant, measure)
                    for measure in measures
                    for setting in group
                    for variant in (*self.placebos(size), *plan[setting])
                )
                heading = title if is_printed else f"{title}, more"
                sections.append(Section(title=heading, rows=rows, is_printed=is_printed))
        return sections

    def _difference(
        self, table: Table, setting: Setting, variant: Variant, measure: Measure
    ) -> DifferenceRow:
        label = variant.label
        return DifferenceRow(
            setting=f"{setting.place}: {label}" if self.is_joined else label,
            quantity=measure.title,
            unit="%",
            claim=None,
            simulated=table.change(setting, variant, self.reference, measure),
            limit_ratio=table.floor_ratio(setting, measure),
            at=setting.at,
            series=label,
        )

    def _measured(self, table: Table, plan: Plan, measure: Measure, size: str) -> Section:
        rows = [
            measured_row(
                f"{setting.title}: {variant.label}",
                variant.label,
                measure.title,
                measure.unit,
                table.at(setting, variant).interval(measure),
                setting.at,
            )
            for setting, routers in plan.items()
            for variant in (self.reference, *self.placebos(size), *routers)
        ]
        return Section(title=measure.title, rows=tuple(rows), is_printed=measure in self.plain)


def _regimes(table: Table, plan: Plan, reference: Variant) -> list[str]:
    """Settings whose averages say little, one line each kind."""
    by_regime: dict[str, list[str]] = {}
    for setting in plan:
        regime = table.at(setting, reference).simulated.regime or "unknown"
        if regime not in ("stable", "closed_loop"):
            by_regime.setdefault(regime, []).append(setting.title)
    return [
        f"{regime} even under {reference.label}, so that latencies also say how long the trace is: "
        + "; ".join(titles)
        for regime, titles in by_regime.items()
    ]


def _capacities(table: Table, plan: Plan, reference: Variant) -> Section:
    """What loads are shares of."""
    rows: dict[Setting, Row] = {}
    for setting in plan:
        capacity = table.at(setting, reference).capacity
        value = capacity.rate_per_s
        rows[setting.flooded] = Row(
            setting=setting.title.rpartition(", ")[0],
            quantity="capacity",
            unit="requests/s",
            claim=None,
            simulated=Interval(value, float("nan"), float("nan"), 1),
            role="with drain: too low" if capacity.is_drained else "",
        )
    return Section(title=CAPACITY_TITLE, rows=tuple(rows.values()))
