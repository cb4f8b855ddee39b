"""`feather_scheduler_cpu`: CPU time of the policies beside GPU time, by model and prompt length."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from experiments.stats.intervals import mean_interval
from experiments.studies.base import Bench, Study
from experiments.studies.feather.cell import DECIDES
from experiments.studies.feather.cpu_cells import (
    COMPILED,
    CROWD,
    FREE,
    LARGE,
    PYTHON,
    SERVED,
    SMALL,
    CpuCell,
    Served,
)
from experiments.studies.feather.cpu_claims import Table, claims, slowdowns
from experiments.studies.feather.found import run_cells
from experiments.studies.feather.load import SCALES
from experiments.studies.feather.measures import CPU_REQUEST, CPU_SHARE, OUTPUT
from experiments.studies.feather.notes import seeds_note
from experiments.studies.feather.rows import SeriesRow, measured_row
from experiments.studies.feather.sweep import series_rows
from experiments.studies.feather.variants import (
    DFS_WEIGHT,
    FEATHER,
    HASH_TREE,
    LPM,
    RADIX_COST,
)
from experiments.studies.findings import Findings, Section
from experiments.studies.measured import Measure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

VARIANTS = (LPM, DFS_WEIGHT, HASH_TREE, RADIX_COST, FEATHER)
PREFIXES: Mapping[str, tuple[int, ...]] = {
    "quick": (1000, 5000, 20_000),
    "full": (1000, 2000, 5000, 10_000, 20_000),
}
MODELS: Mapping[str, Mapping[str, tuple[Served, ...]]] = {
    "quick": {PYTHON: SERVED, COMPILED: (SMALL, LARGE)},
    "full": {PYTHON: SERVED, COMPILED: SERVED},
}
"""By size and language."""

SLOWED = (LPM, DFS_WEIGHT, FEATHER)
"""Policies that run without a price as well, at the longest prefix."""

CROWDED = (DFS_WEIGHT, HASH_TREE)
"""Policies that look at a queue of 1,000, as LPM does not."""

CLAIMS_TITLE = "claims"


class FeatherSchedulerCpu(Study):
    """Radix trees and hash trees in two languages."""

    name = "feather_scheduler_cpu"
    question = "Does the CPU time of finding shared prefixes rival GPU time?"
    sizes: Mapping[str, str] = {
        size: f"5 policies, 0.5B to 13B in Python, {len(MODELS[size][COMPILED])} of 4 models "
        f"compiled, {len(prefixes)} prefixes of 1,000 to 20,000 tokens; 1,000 requests a job, "
        f"{SCALES[size].num_seeds} seeds ({time})"
        for (size, prefixes), time in zip(
            PREFIXES.items(), ("two minutes on two free cores", "eight minutes"), strict=True
        )
    }
    decides = (*DECIDES, "model", "engine", "scheduler")

    def run(self, bench: Bench) -> Findings:
        """Simulate and compare; nothing is fitted here."""
        cells = self._cells(bench.size)
        found = run_cells(bench, [one.cell for one in cells])
        table = dict(zip(cells, found, strict=True))
        sections = [Section(title=CLAIMS_TITLE, rows=tuple(claims(table)))]
        sections += [
            Section(
                title=_title(measure, served, language),
                rows=tuple(
                    measured_row(
                        *(one, measure, f"{cell.prefix_tokens:,} tokens"), cell.prefix_tokens / 1000
                    )
                    for cell, one in table.items()
                    if (cell.served, cell.language) == (served, language) and cell.users != CROWD
                ),
                is_printed=measure is CPU_SHARE,
            )
            for measure in (CPU_SHARE, CPU_REQUEST, OUTPUT)
            for language, models in MODELS[bench.size].items()
            for served in models
        ]
        sections.append(Section(title=_SLOWED_TITLE, rows=tuple(_slowed_rows(table))))
        sections.append(
            Section(
                title=_CROWD_TITLE,
                rows=tuple(
                    measured_row(one, CPU_SHARE, cell.served.label)
                    for cell, one in table.items()
                    if cell.users == CROWD
                ),
            )
        )
        own = "1,000 requests a job (2,000 with 1,000 waiting)"
        return Findings(
            verdicts=(), sections=tuple(sections), notes=(seeds_note(bench.size, own), *_NOTES)
        )

    def pictures(self, findings: Findings) -> "Mapping[str, Figure]":
        """Share of GPU time over the prefix, one line per policy, a panel per model: Python."""
        from experiments.studies.feather.figure import lines_figure

        panels = {
            f"{served.label}, Python": series_rows(findings, _title(CPU_SHARE, served, PYTHON))
            for served in SERVED
        }
        return {
            self.name: lines_figure(panels, "Prefix (1,000 tokens)", label="CPU / GPU time (%)")
        }

    def _cells(self, size: str) -> list[CpuCell]:
        cells = [
            CpuCell(served, min(prefix, served.longest_tokens), variant, language)
            for language, models in MODELS[size].items()
            for served in models
            for prefix in PREFIXES[size]
            for variant in VARIANTS
        ]
        cells += [
            CpuCell(served, served.longest_tokens, variant, FREE)
            for served in SERVED
            for variant in SLOWED
        ]
        cells += [
            CpuCell(served, served.longest_tokens, variant, PYTHON, CROWD)
            for served in (SMALL, LARGE)
            for variant in CROWDED
        ]
        return cells


_SLOWED_TITLE = "output with CPU time priced / free, longest prefix"
_CROWD_TITLE = f"{CPU_SHARE.title}, 1,000 waiting, 20,000 tokens, Python"


def _title(measure: Measure, served: Served, language: str) -> str:
    return f"{measure.title}, {served.label}, {language}"


def _slowed_rows(table: Table) -> list[SeriesRow]:
    return [
        SeriesRow(
            setting=f"{cell.served.label}, {language}: {cell.variant.label}",
            quantity="output priced/free",
            unit="x",
            claim=None,
            simulated=mean_interval(slowdowns(table, replace(cell, language=language))),
            series=cell.variant.label,
        )
        for language in (PYTHON, COMPILED)
        for cell in table
        if cell.language == FREE and replace(cell, language=language) in table
    ]


_NOTES = (
    "SGLang's rules, 100 seats and 200 users who send a request as soon as their last one has "
    "ended (about 100 wait; LPM matches up to 128); 5 groups, 20 own tokens, 1 to 99 output "
    "tokens, no prefix is warm; steps wait for the policy (SGLang's own overlap is not modelled)",
    "Python: operations counted and priced by our own measurements; compiled: 20 times faster, an "
    "assumption (docs/scheduler_cpu.md); radix_cost and hash_tree keep counts and do not match the "
    "whole queue in every step, as LPM and DFS-weight do",
    "13B is LongChat, whose context ends at 16,384 tokens: 15,000 in place of 20,000; its KV cache "
    "then holds one prefix, more than 128 wait, and LPM matches nothing",
    "[paper]: `comparable to GPU time`, read as half of it or more; [note]: `LPM and DFS-weight up "
    "to 10 times`, read as reached where it is worst, `Feather below 1 %`, `hash tree up to 1,000 "
    "times cheaper at 20,000 tokens`",
    "a claim counts widened by the percentage behind its verdict; it agrees if the whole interval "
    "lies within it, disagrees if nothing of it does, else it is not distinguishable",
    "the GPU's kernels are transferred from other GPUs (docs/validation.md)",
)
