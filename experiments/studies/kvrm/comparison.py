"""A study that runs several loads under every executor."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.stats.intervals import mean_interval
from experiments.studies.base import Bench, Study
from experiments.studies.conduct import JOBS
from experiments.studies.feather.rows import SeriesRow
from experiments.studies.findings import Findings, Section
from experiments.studies.kvrm.measures import (
    MEASURES,
    OUTPUT,
    PRINTED,
    RESERVED,
    STEP_P999,
)
from experiments.studies.kvrm.notes import COMMON
from experiments.studies.kvrm.over_time import SECTIONS, rows_over_time
from experiments.studies.kvrm.variants import AS_MEASURED, KV_RM, MAIN, STAGED, Variant
from experiments.studies.measured import Measure
from experiments.studies.runs import Case, Simulated

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MACHINE: Mapping[str, str] = {
    "model": "llama3_8b",
    "hardware": "a100_sxm_80gb",
    "cluster.num_instances": "1",
    "engine": "vllm_v1",
}
"""One instance, so that its steps are those of one executor."""

DECIDES = ("trace", "executor", "cluster", "replications", "output.steps", "experiment")
"""Keys that these studies set themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What is offered to the instance.

    Attributes:
        title: in tables.
        folder: in directories.
        tick: in figures.
        trace: the section `trace` of a job.
        variants: executors that it is run under.
        is_over_time: whether what is reserved is shown over time.
        machine: what differs from MACHINE.
    """

    title: str
    folder: str
    tick: str
    trace: Mapping[str, str] = field(hash=False)
    variants: Sequence[Variant] = (*MAIN, *STAGED)
    is_over_time: bool = False
    machine: Mapping[str, str] = field(default_factory=dict, hash=False)

    def case(self, variant: Variant, num_seeds: int) -> Case:
        """A job."""
        values = {
            **MACHINE,
            **self.machine,
            **self.trace,
            **variant.overrides,
            "replications": f"{num_seeds}",
            "output.steps": str(self.is_over_time).lower(),
        }
        overrides = [f"{key}={value}" if value else key for key, value in values.items()]
        return Case(f"{self.folder}-{variant.folder}", tuple(overrides))


class ExecutorComparison(Study):
    """Loads under executors: figures of the machine and of the requests."""

    decides: tuple[str, ...] = DECIDES

    @abstractmethod
    def loads(self, size: str) -> Sequence[Load]:
        """What is run."""

    @abstractmethod
    def num_seeds(self, load: Load, size: str) -> int:
        """Replications of a job."""

    @abstractmethod
    def own_notes(self, size: str) -> Sequence[str]:
        """What is special to the study."""

    def run(self, bench: Bench) -> Findings:
        """Simulate and tabulate; nobody's claim is tested."""
        keys = [(load, variant) for load in self.loads(bench.size) for variant in load.variants]
        cases = [load.case(one, self.num_seeds(load, bench.size)) for load, one in keys]
        runs = bench.runner.run(cases)
        found = dict(zip(keys, runs, strict=True))
        sections = [
            Section(
                title=title_of(load, measure),
                rows=tuple(_rows(load, measure, found)),
                is_printed=measure in PRINTED,
            )
            for load in self.loads(bench.size)
            for measure in MEASURES
        ]
        sections += [
            Section(title=ratio_title(load), rows=tuple(_ratios(load, found)), is_printed=False)
            for load in self.loads(bench.size)
        ]
        folders = {
            key: bench.directory / JOBS / case.folder for key, case in zip(keys, cases, strict=True)
        }
        sections += _over_time(folders)
        notes = (COMMON[0], f"size={bench.size}: {self.sizes[bench.size]}")
        return Findings(
            verdicts=(),
            sections=tuple(section for section in sections if section.rows),
            notes=(*notes, *self.own_notes(bench.size), *COMMON[1:]),
        )

    def pictures(self, findings: Findings) -> "Mapping[str, Figure]":
        """Throughput, slowest steps and reserved memory by load; the last over time."""
        from experiments.studies.kvrm.figure import bars_figure, over_time_figure

        main = [variant.label for variant in MAIN]
        panels: dict[str, list[SeriesRow]] = {}
        for load in self.loads("quick"):
            titles = {
                "output over as_measured": ratio_title(load),
                STEP_P999.title: title_of(load, STEP_P999),
                RESERVED.title: title_of(load, RESERVED),
            }
            for panel, title in titles.items():
                rows = [
                    replace(row, setting=load.tick)
                    for row in _series_rows(findings, title)
                    if row.series in main
                ]
                panels.setdefault(panel, []).extend(rows)
        pictures = {self.name: bars_figure(panels)}
        over_time = {
            title: rows
            for title, _, _ in SECTIONS.values()
            if (rows := _series_rows(findings, title))
        }
        if over_time:
            pictures[f"{self.name}_over_time"] = over_time_figure(over_time)
        return pictures


def title_of(load: Load, measure: Measure) -> str:
    """Title of a section."""
    return f"{load.title}: {measure.title}"


def ratio_title(load: Load) -> str:
    """Title of the section with ratios of throughput."""
    return f"{load.title}: output over as_measured"


def _ratios(load: Load, found: Mapping[tuple[Load, Variant], Simulated]) -> list[SeriesRow]:
    """Throughput of every executor over that of the default, seed by seed on the same draws."""
    yours = found[load, AS_MEASURED].values(OUTPUT.key)
    rows = []
    for variant in load.variants:
        mine = found[load, variant].values(OUTPUT.key)
        ratios = [one / other for one, other in zip(mine, yours, strict=True)]
        rows.append(
            SeriesRow(
                setting=variant.label,
                quantity=OUTPUT.title,
                unit="x",
                claim=None,
                simulated=mean_interval(ratios),
                series=variant.label,
            )
        )
    return rows


def _rows(
    load: Load, measure: Measure, found: Mapping[tuple[Load, Variant], Simulated]
) -> list[SeriesRow]:
    """A measure of every executor that has it."""
    rows = []
    for variant in load.variants:
        value = found[load, variant].interval(measure.key, measure.factor)
        if value.mean == value.mean:  # not NaN
            rows.append(
                SeriesRow(
                    setting=variant.label,
                    quantity=measure.title,
                    unit=measure.unit,
                    claim=None,
                    simulated=value,
                    series=variant.label,
                )
            )
    return rows


def _over_time(folders: Mapping[tuple[Load, Variant], Path]) -> list[Section]:
    """Sections over time of the loads that have them, for the executors of the figures."""
    sections = []
    for column, (title, _, _) in SECTIONS.items():
        rows = [
            row
            for (load, variant), folder in folders.items()
            if load.is_over_time and variant in _shown(column)
            for row in rows_over_time(folder / "steps.parquet", column, variant.label)
        ]
        sections.append(Section(title=title, rows=tuple(rows), is_printed=False))
    return sections


def _shown(column: str) -> Sequence[Variant]:
    """Executors of a panel over time."""
    if column == "kv_reserved_bytes":
        return [variant for variant in MAIN if variant.overrides["executor"] not in _SAME]
    return (KV_RM, *STAGED)


_SAME = ("as_measured", "eager")
"""Reserve what `cuda_graph` does."""


def _series_rows(findings: Findings, title: str) -> list[SeriesRow]:
    """Rows of a section; none if nothing had any."""
    rows = [section.rows for section in findings.sections if section.title == title]
    return [row for row in (rows[0] if rows else ()) if isinstance(row, SeriesRow)]
