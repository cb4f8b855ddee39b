"""The comparison as text cells: what the terminal, Markdown and HTML tables show alike."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.compare.titles import DEFAULT_METRICS, shown, shown_difference, title_of
from experiments.quantities import ABSENT, digits
from experiments.stats.blocks import Block, Sample

if TYPE_CHECKING:
    from collections.abc import Hashable

    import pandas as pd

ALARM = "▲"
"""Before a regime in which averages depend on where the trace stops."""

ALARMING = ("overloaded", "backlogged")

SAME = "≈"
"""Before a difference that is not distinguishable from none."""

BASELINE = "baseline"


@dataclass(frozen=True, slots=True)
class Cell:
    """A metric of a policy.

    Attributes:
        lines: mean, interval, difference to the baseline with its verdict; those there are.
        verdict: of the difference; empty without one.
    """

    lines: tuple[str, ...]
    verdict: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """A policy in one setting.

    Attributes:
        name: of the policy, or of the setting where there is but one policy.
        role: "baseline" or empty.
        num_runs: independent runs averaged.
        regime: with a marker where averages mislead.
        cells: one per metric.
    """

    name: str
    role: str
    num_runs: int
    regime: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class Section:
    """A table: one setting.

    Attributes:
        title: the setting and the load offered in it.
        rows: one per policy.
    """

    title: str
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class PlainTable:
    """A small table of texts below the comparison.

    Attributes:
        title: what it shows.
        headings: of its columns.
        rows: texts, one per column.
    """

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Report:
    """Tables and what must be known to read them.

    Attributes:
        headings: of the cells.
        first_heading: of the first column.
        sections: the tables.
        notes: below them, one paragraph each.
        extras: small tables between the two.
    """

    headings: tuple[str, ...]
    first_heading: str
    sections: tuple[Section, ...]
    notes: tuple[str, ...]
    extras: tuple[PlainTable, ...] = ()


def shown_metrics(table: "pd.DataFrame", asked: Sequence[str] | None) -> list[str]:
    """Metrics to show: those asked for, else the usual ones that some run has."""
    if asked is not None:
        return list(asked)
    there = set(table.loc[table["mean"].notna(), "metric"])
    return [metric for metric in DEFAULT_METRICS if metric in there]


def sections_of(
    blocks: Sequence[Block], table: "pd.DataFrame", metrics: Sequence[str]
) -> tuple[Section, ...]:
    """One table per setting; a single one where no setting has two policies.

    Args:
        blocks: the settings with their runs.
        table: as `comparison` returns it, of the same frame.
        metrics: what to show.
    """
    figures = _figures(blocks, table)
    if has_one_policy_each(blocks):
        rows = tuple(
            _row(block.title or policy, policy, sample, metrics, cells)
            for block, cells in zip(blocks, figures, strict=True)
            for policy, sample in block.samples.items()
        )
        return (Section("", rows),)
    return tuple(
        Section(
            _titled(block),
            tuple(
                _row(policy, policy, sample, metrics, cells)
                for policy, sample in _baseline_first(block, str(table["baseline"].iloc[0]))
            ),
        )
        for block, cells in zip(blocks, figures, strict=True)
    )


def has_one_policy_each(blocks: Sequence[Block]) -> bool:
    """Whether no setting has two policies: then the settings are compared, in one table."""
    return all(len(block.samples) == 1 for block in blocks)


def load_text(block: Block) -> str:
    """Users of a closed loop, or requests per second that arrived; a range where policies differ.

    Policies shape the arrivals of requests that wait for others to end.
    """
    users = np.concatenate([sample.users for sample in block.samples.values()])
    if np.isfinite(users).any():
        fewest, most = np.nanmin(users), np.nanmax(users)
        count = f"{most:,.0f}" if fewest == most else f"{fewest:,.0f} to {most:,.0f}"
        return f"{count} user{'' if most == 1 else 's'}"
    rates = [float(sample.offered_rates_per_s.mean()) for sample in block.samples.values()]
    known = [rate for rate in rates if rate == rate]
    if not known:
        return ""
    low, high = min(known), max(known)
    text = digits(low) if high <= 1.01 * low else f"{digits(low)} to {digits(high)}"
    return f"{text} requests/s offered"


Figures = Mapping[tuple[str, str], "Mapping[Hashable, Any]"]
"""Rows of the long table by policy and metric."""


def _figures(blocks: Sequence[Block], table: "pd.DataFrame") -> list[Figures]:
    """The rows of each block; the long table holds the blocks in their order."""
    records = table.to_dict("records")
    num_metrics = table["metric"].nunique()
    found: list[Figures] = []
    first = 0
    for block in blocks:
        count = num_metrics * len(block.samples)
        part = records[first : first + count]
        found.append({(str(row["policy"]), str(row["metric"])): row for row in part})
        first += count
    return found


def _baseline_first(block: Block, baseline: str) -> list[tuple[str, Sample]]:
    return sorted(block.samples.items(), key=lambda item: item[0] != baseline)


def _titled(block: Block) -> str:
    return "; ".join(part for part in (block.title, load_text(block)) if part)


def _row(name: str, policy: str, sample: Sample, metrics: Sequence[str], figures: Figures) -> Row:
    cells = tuple(_cell(metric, figures[policy, metric]) for metric in metrics)
    baseline = next(iter(figures.values()))["baseline"] if name == policy else None
    return Row(
        name=name,
        role=BASELINE if policy == baseline else "",
        num_runs=sample.num_values,
        regime=_regime(sample),
        cells=cells,
    )


def _regime(sample: Sample) -> str:
    if sample.regime is None:
        return ABSENT
    if sample.regime not in ALARMING:
        return sample.regime.replace("_", " ")
    share = f" {sample.num_in_regime}/{len(sample.seeds)}"
    return f"{ALARM} {sample.regime}{share if sample.num_in_regime < len(sample.seeds) else ''}"


def _cell(metric: str, row: "Mapping[Hashable, Any]") -> Cell:
    lines = [shown(metric, row["mean"])]
    if row["low"] == row["low"]:
        lines.append(_interval(metric, row))
    verdict = row["verdict"]
    if not isinstance(verdict, str) or verdict == "absent":
        return Cell(tuple(lines))
    difference = shown_difference(metric, row["difference"], row["relative_difference"])
    if verdict == "not distinguishable":
        difference = difference if difference == "equal" else f"{SAME} {difference}"
    elif verdict != "one run":
        difference = f"{difference} {verdict}"
    return Cell((*lines, difference), verdict)


def _interval(metric: str, row: "Mapping[Hashable, Any]") -> str:
    if row["interval"] == "t":
        return f"± {shown(metric, (row['high'] - row['low']) / 2)}"
    return f"{shown(metric, row['low'])} to {shown(metric, row['high'])}"


def report_of(
    blocks: Sequence[Block],
    table: "pd.DataFrame",
    asked: Sequence[str] | None,
    notes: Sequence[str],
    extras: Sequence[PlainTable] = (),
) -> Report:
    """The whole report.

    Args:
        blocks: the settings with their runs.
        table: as `comparison` returns it, of the same frame.
        asked: metrics to show; None shows the usual ones.
        notes: what must be known to read it.
        extras: small tables of other figures.
    """
    metrics = shown_metrics(table, asked)
    sections = sections_of(blocks, table, metrics)
    are_settings_rows = has_one_policy_each(blocks) and len(blocks) > 1
    return Report(
        headings=tuple(map(title_of, metrics)),
        first_heading="setting" if are_settings_rows else "policy",
        sections=sections,
        notes=tuple(notes),
        extras=tuple(extras),
    )
