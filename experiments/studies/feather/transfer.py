"""`feather_transfer`: a table learned on one workload, used on another."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.studies.base import Bench, Study
from experiments.studies.feather.cell import DECIDES, Cell
from experiments.studies.feather.found import Found, run_cells, run_seed_by_seed
from experiments.studies.feather.load import SCALES, Load
from experiments.studies.feather.measures import MEASURES, OUTPUT
from experiments.studies.feather.notes import notes_of
from experiments.studies.feather.rows import SeriesRow, measured_row
from experiments.studies.feather.sweep import series_rows
from experiments.studies.feather.tables import (
    NUM_TAUGHT,
    TAUGHT_FROM,
    taught_cases,
    teach,
)
from experiments.studies.feather.variants import FCFS, FEATHER
from experiments.studies.findings import Findings, Section

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LOADS: Mapping[str, Load] = {
    "5 groups": Load(),
    "50 groups": Load(num_groups=50),
    "long answers": Load(output_tokens=200),
    "no sharing": Load(num_groups=0, prefix_tokens=480, is_warm=False),
}

LEARNS: Mapping[str, Sequence[bool]] = {"quick": (False,), "full": (False, True)}
"""By size: whether a policy with a learned table goes on learning."""

UNTAUGHT = replace(FEATHER, label="untaught")


class FeatherTransfer(Study):
    """All pairs of four workloads."""

    name = "feather_transfer"
    question = "Does a policy that Feather learned on one workload serve another?"
    sizes: Mapping[str, str] = {
        size: f"4 workloads teach and are served, {use}, Poisson; {NUM_TAUGHT:,} requests to "
        f"learn, {scale.num_requests:,} to serve, {scale.num_seeds} seeds ({time})"
        for (size, scale), use, time in zip(
            SCALES.items(),
            ("tables fixed", "tables fixed and learning on"),
            ("two minutes on two free cores", "six minutes"),
            strict=True,
        )
    }
    decides = (*DECIDES, "engine")
    loads: Mapping[str, Load] = LOADS
    num_taught = NUM_TAUGHT

    def run(self, bench: Bench) -> Findings:
        """Teach, serve and compare; nothing is fitted here."""
        tables = self._teach(bench)
        found = self._serve(bench, tables)
        sections = [
            Section(
                title=_ratio_title(served),
                rows=tuple(
                    _ratio_row(one, by_policy[yours])
                    for yours in (FCFS.label, UNTAUGHT.label)
                    for label, one in by_policy.items()
                    if label not in (FCFS.label, yours)
                ),
            )
            for served, by_policy in found.items()
        ]
        sections += [
            Section(
                title=f"{measure.title}, served: {served}",
                rows=tuple(measured_row(one, measure) for one in by_policy.values()),
                is_printed=measure is OUTPUT,
            )
            for measure in MEASURES
            for served, by_policy in found.items()
        ]
        return Findings(verdicts=(), sections=tuple(sections), notes=notes_of(bench.size, *_NOTES))

    def _teach(self, bench: Bench) -> dict[str, list[Path]]:
        """Tables of every seed, by the workload that taught them."""
        num_seeds = SCALES[bench.size].num_seeds
        cells = [
            Cell(load=load, variant=FEATHER, num_requests=self.num_taught)
            for load in self.loads.values()
        ]
        return dict(zip(self.loads, teach(bench, cells, num_seeds, TAUGHT_FROM), strict=True))

    def _serve(
        self, bench: Bench, tables: Mapping[str, Sequence[Path]]
    ) -> dict[str, dict[str, Found]]:
        """What was measured, by the workload served and the label of the policy."""
        num_requests = SCALES[bench.size].num_requests
        jobs = []
        for load in self.loads.values():
            for learns in LEARNS[bench.size]:
                for teacher, paths in tables.items():
                    label = f"taught by {teacher}{', learning' if learns else ''}"
                    variant = replace(FEATHER, label=label)
                    cell = Cell(load=load, variant=variant, num_requests=num_requests)
                    jobs.append((cell, taught_cases(bench, cell, paths, learns=learns)))
        taught = run_seed_by_seed(bench, jobs)
        plain = run_cells(
            bench,
            [
                Cell(load=load, variant=variant)
                for load in self.loads.values()
                for variant in (FCFS, UNTAUGHT)
            ],
        )
        return {
            title: {
                one.cell.variant.label: one for one in (*plain, *taught) if one.cell.load == load
            }
            for title, load in self.loads.items()
        }

    def pictures(self, findings: Findings) -> "Mapping[str, Figure]":
        """Output over that of fcfs by what taught the table, a panel per workload served."""
        from experiments.studies.feather.figure import dots_figure

        panels = {
            f"served: {served}": [
                row
                for row in series_rows(findings, _ratio_title(served))
                if row.quantity == _OVER_FCFS
            ]
            for served in self.loads
        }
        return {self.name: dots_figure(panels, "Output / fcfs", no_effect=1.0)}


_OVER_FCFS = f"output over that of {FCFS.label}"


def _ratio_title(served: str) -> str:
    return f"ratios, served: {served}"


def _ratio_row(mine: Found, yours: Found) -> SeriesRow:
    label = mine.cell.variant.label
    return SeriesRow(
        setting=label,
        quantity=f"output over that of {yours.cell.variant.label}",
        unit="x",
        claim=None,
        simulated=mine.ratio(yours, OUTPUT),
        series=label,
    )


_NOTES = (
    f"Feather as coded learns from {NUM_TAUGHT:,} requests; its table then serves other requests, "
    "of other draws, as it is and without exploration (`learning`: it goes on learning); there are "
    "as many tables as seeds, one each",
    "nobody published such a transfer: there is no claim; `untaught`: Feather that begins with an "
    "empty table, as published",
    "long answers: 200 output tokens, 5 groups; no sharing: prompts of 500 tokens; all at 100 "
    "requests per second",
)
