"""`feather_standard`: the standard workload, every policy, everything that is measured."""

from collections.abc import Mapping, Sequence
from math import inf
from typing import TYPE_CHECKING

from experiments.studies.base import Bench, Study
from experiments.studies.feather.cell import DECIDES, Cell
from experiments.studies.feather.found import Found, run_cells
from experiments.studies.feather.group_service import measures_of
from experiments.studies.feather.load import Load
from experiments.studies.feather.measures import (
    BATCH,
    CPU_SHARE,
    HBM_RATE,
    MEASURES,
    OUTPUT,
)
from experiments.studies.feather.notes import notes_of, sizes_of
from experiments.studies.feather.rows import (
    ABOUT,
    SeriesRow,
    claim_row,
    measured_row,
    ratio_title,
)
from experiments.studies.feather.sweep import (
    ARRIVALS,
    BASES,
    CLAIMS_TITLE,
    series_rows,
    title_of,
)
from experiments.studies.feather.variants import (
    AGEING,
    DFS_WEIGHT,
    DYNAMIC,
    FCFS,
    FEATHER,
    HASH_TREE,
    HEURISTIC,
    LPM,
    MAIN,
    NO_PREFILL,
    ORACLE,
    Q_LEARNING,
    RADIX_COST,
    Variant,
)
from experiments.studies.findings import Findings, Row, Section

if TYPE_CHECKING:
    from matplotlib.figure import Figure

VARIANTS = (
    *(*MAIN, DFS_WEIGHT, DYNAMIC, HASH_TREE, RADIX_COST, HEURISTIC),
    *(NO_PREFILL, Q_LEARNING, AGEING),
)
PRICED = (FEATHER, LPM, DFS_WEIGHT)
"""Policies whose own CPU time is priced as well."""

GROUPS_TITLE = "service by group until the first one is done"
CPU_TITLE = "CPU time of the policy, Poisson, priced"
_IN_FULL = (FCFS, FEATHER, ORACLE)


class FeatherStandard(Study):
    """Every policy on the standard workload."""

    name = "feather_standard"
    question = (
        "What do Feather and its rivals make of five groups behind prefixes of 5,000 tokens at 100 "
        "requests per second?"
    )
    sizes: Mapping[str, str] = sizes_of(
        "12 policies, Poisson and all at once, 3 with CPU time priced: 27 jobs",
        quick="one minute on two free cores",
        full="two minutes",
    )
    decides = (*DECIDES, "scheduler")

    def run(self, bench: Bench) -> Findings:
        """Simulate and compare; nothing is fitted here."""
        keys = [(arrivals, variant) for arrivals in ARRIVALS for variant in VARIANTS]
        cells = [Cell(load=BASES[arrivals], variant=variant) for arrivals, variant in keys]
        priced = [
            Cell(
                load=Load(),
                variant=variant,
                machine={"scheduler.enabled": "true"},
                place="priced",
            )
            for variant in PRICED
        ]
        found = run_cells(bench, [*cells, *priced])
        table = dict(zip(keys, found[: len(keys)], strict=True))
        of_cpu = dict(zip(PRICED, found[len(keys) :], strict=True))
        sections = [Section(title=CLAIMS_TITLE, rows=tuple(_claims(table, of_cpu)))]
        sections += [
            Section(
                title=title_of(measure, arrivals),
                rows=tuple(measured_row(table[arrivals, one], measure) for one in VARIANTS),
                is_printed=measure is OUTPUT,
            )
            for measure in MEASURES
            for arrivals in ARRIVALS
        ]
        sections += [
            Section(
                title=f"all measures, {arrivals}",
                rows=tuple(
                    measured_row(table[arrivals, one], measure)
                    for measure in MEASURES
                    if measure is not OUTPUT
                    for one in _IN_FULL
                ),
            )
            for arrivals in ARRIVALS
        ]
        sections += [
            Section(title=f"{GROUPS_TITLE}, {arrivals}", rows=tuple(_group_rows(table, arrivals)))
            for arrivals in ARRIVALS
        ]
        rows = tuple(measured_row(one, CPU_SHARE) for one in of_cpu.values())
        sections.append(Section(title=CPU_TITLE, rows=rows))
        return Findings(verdicts=(), sections=tuple(sections), notes=notes_of(bench.size, *_NOTES))

    def pictures(self, findings: Findings) -> "Mapping[str, Figure]":
        """Throughput by policy and way to arrive."""
        from experiments.studies.feather.figure import dots_figure

        panels = {
            arrivals: series_rows(findings, title_of(OUTPUT, arrivals)) for arrivals in ARRIVALS
        }
        return {self.name: dots_figure(panels)}


def _group_rows(table: Mapping[tuple[str, Variant], Found], arrivals: str) -> list[SeriesRow]:
    """Every group, from the most to the least served one of its run."""
    ranks = range(BASES[arrivals].num_groups)
    return [
        measured_row(table[arrivals, variant], measures_of(rank)[place], f"group {rank + 1}")
        for place in range(len(measures_of(0)))
        for variant in _IN_FULL
        for rank in ranks
    ]


def _claims(
    table: Mapping[tuple[str, Variant], Found], of_cpu: Mapping[Variant, Found]
) -> Sequence[Row]:
    rows: list[Row] = []
    for arrivals in ARRIVALS:
        fcfs = table[arrivals, FCFS]
        for variant, measure, claim, source, limit in _CLAIMS:
            mine = table[arrivals, variant]
            rows.append(
                claim_row(
                    *(arrivals, ratio_title(mine, fcfs, measure), claim),
                    *(mine.ratio(fcfs, measure), source),
                    limit_ratio=limit,
                )
            )
    rows.append(
        claim_row(
            *("Poisson, priced", "feather: CPU/GPU time", (0.0, 1.0)),
            *(of_cpu[FEATHER].interval(CPU_SHARE), "[note]"),
            limit_ratio=0,
            unit="%",
        )
    )
    return rows


_CLAIMS = (
    (FEATHER, OUTPUT, (4.0, 4.0), "[note]", ABOUT),
    (FEATHER, OUTPUT, (2.0, 10.0), "[paper]", 0.0),
    (FEATHER, BATCH, (0.0, 1.0), "[note]", 0.0),
    (FEATHER, HBM_RATE, (1.4, inf), "[note]", 0.0),
    (HEURISTIC, OUTPUT, (0.0, 1.0), "[note]", 0.0),
)
"""Policy over fcfs: about 4x; 2-10x; smaller batch; > 40 % better DRAM use; greedy is worse."""

_NOTES = (
    "LPM and DFS-weight order the queue as SGLang does, in the engine of the others (vLLM's); "
    "LPM serves a queue of more than 128 first come, first served",
    "better use of DRAM bandwidth is read as bytes per busy second; fewer bytes are not counted",
    "feather_heuristic stands for the paper's variant without learning, which is said to be worse "
    "than fcfs at mid and high load",
    "oracle is told the groups; `10 s`: whoever has waited longer goes first (ours); `no prefill`: "
    "reward of steps without prefill (ours); Q: Q-learning, whose constants are ours",
    "groups: by the requests that have finished when the first of them has nothing left, the most "
    "served one of a run first; the longest wait is of the whole run",
    "GPU times and mean batch are of the whole run, with the warm start",
)
