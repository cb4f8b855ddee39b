"""`feather_attribution`: cascade attention, L2 and KV memory, on and off in all combinations."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from experiments.studies.base import SIZES, Bench, Study
from experiments.studies.feather.cell import DECIDES
from experiments.studies.feather.effects import effect_intervals
from experiments.studies.feather.factors import CONDITIONS, FACTORS, Condition, cell_of
from experiments.studies.feather.found import Found, run_cells
from experiments.studies.feather.load import SCALES
from experiments.studies.feather.measures import MEASURES, OUTPUT, RECOMPUTED
from experiments.studies.feather.notes import notes_of, scale_text
from experiments.studies.feather.rows import SeriesRow, claim_row, measured_row, ratio_title
from experiments.studies.feather.sweep import (
    ARRIVALS,
    BASES,
    CLAIMS_TITLE,
    POISSON,
    series_rows,
)
from experiments.studies.feather.variants import FCFS, FEATHER, LPM, MAIN, ORACLE, Variant
from experiments.studies.findings import Findings, Row, Section

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NUM_GROUPS = (5, 20)
"""The standard workload, and one at whose groups L2 is said to begin to matter."""

ARRIVALS_OF = {"quick": (POISSON,), "full": ARRIVALS}

RIVALS = (FEATHER, LPM, ORACLE)

_SCALES = tuple(scale_text(SCALES[size]) for size in SIZES)

Key = tuple[str, int, Condition, Variant]


class FeatherAttribution(Study):
    """A factorial of the three mechanisms."""

    name = "feather_attribution"
    question = (
        "Where does the gain of Feather come from, cascade attention, L2 or KV memory, and what is "
        "left of it on an engine without cascade attention, which is vLLM's default today?"
    )
    sizes: Mapping[str, str] = {
        "quick": f"8 conditions, 4 policies, 5 and 20 groups, Poisson: 64 jobs; {_SCALES[0]} "
        "(one minute on two free cores)",
        "full": f"the same, and all at once: 128 jobs; {_SCALES[1]} (four minutes)",
    }
    decides = (*DECIDES, "hardware.fidelity")

    def run(self, bench: Bench) -> Findings:
        """Simulate and compare; nothing is fitted here."""
        came = ARRIVALS_OF[bench.size]
        keys: list[Key] = [
            (arrivals, groups, condition, variant)
            for arrivals in came
            for groups in NUM_GROUPS
            for condition in CONDITIONS
            for variant in MAIN
        ]
        found = run_cells(
            bench,
            [
                cell_of(replace(BASES[arrivals], num_groups=groups), condition, variant)
                for arrivals, groups, condition, variant in keys
            ],
        )
        table = dict(zip(keys, found, strict=True))
        sections = [Section(title=CLAIMS_TITLE, rows=tuple(_claims(table, came)))]
        for groups in NUM_GROUPS:
            for arrivals in came:
                sections.append(
                    Section(
                        title=_ratio_title(groups, arrivals),
                        rows=tuple(_ratios(table, groups, arrivals)),
                    )
                )
        sections += [
            Section(
                title=f"effects on output of {variant.label} / fcfs, {groups} groups, {arrivals}",
                rows=tuple(_effects(table, groups, arrivals, variant)),
                is_printed=variant is not LPM,
            )
            for groups in NUM_GROUPS
            for arrivals in came
            for variant in RIVALS
        ]
        sections += [
            Section(
                title=f"{measure.title}, {groups} groups, {arrivals}",
                rows=tuple(
                    measured_row(one, measure, condition.label)
                    for (came, number, condition, _), one in table.items()
                    if (came, number) == (arrivals, groups)
                ),
                is_printed=measure in (OUTPUT, RECOMPUTED) and arrivals == POISSON,
            )
            for measure in MEASURES
            for groups in NUM_GROUPS
            for arrivals in came
        ]
        return Findings(verdicts=(), sections=tuple(sections), notes=notes_of(bench.size, *_NOTES))

    def pictures(self, findings: Findings) -> "Mapping[str, Figure]":
        """Gain over first come, first served, by condition."""
        from experiments.studies.feather.figure import dots_figure

        known = {section.title for section in findings.sections}
        panels = {
            f"{groups} groups, {arrivals}": series_rows(findings, title)
            for groups in NUM_GROUPS
            for arrivals in ARRIVALS
            if (title := _ratio_title(groups, arrivals)) in known
        }
        return {self.name: dots_figure(panels, "Output / fcfs", no_effect=1.0)}


def _ratio_title(groups: int, arrivals: str) -> str:
    return f"output over that of fcfs, {groups} groups, {arrivals}"


def _ratios(table: Mapping[Key, Found], groups: int, arrivals: str) -> Sequence[SeriesRow]:
    return [
        SeriesRow(
            setting=condition.label,
            quantity=f"{variant.label}/fcfs",
            unit="x",
            claim=None,
            simulated=table[arrivals, groups, condition, variant].ratio(
                table[arrivals, groups, condition, FCFS], OUTPUT
            ),
            series=variant.label,
        )
        for condition in CONDITIONS
        for variant in RIVALS
    ]


def _effects(
    table: Mapping[Key, Found], groups: int, arrivals: str, variant: Variant
) -> Sequence[Row]:
    """Main effects and interactions on the ratio to first come, first served."""
    ratios = {}
    for condition in CONDITIONS:
        mine, fcfs = (table[arrivals, groups, condition, one] for one in (variant, FCFS))
        pairs = zip(mine.samples(OUTPUT), fcfs.samples(OUTPUT), strict=True)
        ratios[condition.signs] = [a / b for a, b in pairs]
    return [
        Row(
            setting=" x ".join(FACTORS[place] for place in places),
            quantity="multiplies the ratio by",
            unit="x",
            claim=None,
            simulated=interval,
        )
        for places, interval in effect_intervals(ratios).items()
    ]


def _claims(table: Mapping[Key, Found], came: Sequence[str]) -> Sequence[Row]:
    """What the formulas, and a critic, let one expect."""
    rows = []
    for arrivals in came:
        for has_cascade in (True, False):
            condition = Condition(has_cascade=has_cascade, has_l2=True, is_tight=False)
            mine, fcfs = (table[arrivals, 5, condition, one] for one in (FEATHER, FCFS))
            rows.append(
                claim_row(
                    f"cascade {'on' if has_cascade else 'off'}, {arrivals}",
                    ratio_title(mine, fcfs, OUTPUT),
                    (2.0, 10.0),
                    mine.ratio(fcfs, OUTPUT),
                    "[paper]",
                    limit_ratio=0,
                )
            )
    return rows


_NOTES = (
    "cascade off is kernel=flash; L2 off is hardware.fidelity=calibrated, where every read of a "
    "shared prefix comes from HBM; KV tight has room for half of the prefixes and for the own "
    "tokens of 100 requests, KV ample is what the GPU has left (12,205 blocks)",
    "an effect is the factor by which the geometric mean of the ratio changes when the factor goes "
    "from off to on (KV: from ample to tight); an interaction, the factor by which that effect is "
    "larger than this average where the other one is on, and smaller where it is off",
    "claims: of 5 groups, L2 on, KV ample; the paper says that its gain exceeds that of kernels "
    "that know about prefixes, so it is held to 2-10x without cascade attention too",
)
