"""Findings on the terminal. Nothing is cut: where no terminal is, lines are as long as they get."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from experiments.studies.findings import FAILS, HOLDS, Findings
from experiments.studies.wording import HEADINGS, VERDICT_HEADINGS, cells, verdict_cells

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_ENDLESS = 10_000
"""Columns that no table needs."""

_STYLES = {HOLDS: "green", FAILS: "bold red"}


def print_findings(findings: Findings, console: "Console") -> None:
    """Print every section, then the verdicts and the notes."""
    for section in findings.printed:
        console.print(section.title, style="bold", soft_wrap=True)
        _print_table(console, HEADINGS, [cells(row) for row in section.rows], range(2, 6))
        console.print()
    if findings.verdicts:
        rows = [verdict_cells(verdict) for verdict in findings.verdicts]
        _print_table(console, VERDICT_HEADINGS, rows, range(1, 3))
        console.print()
    for note in findings.notes:
        console.print(f"* {note}", soft_wrap=True)


def _print_table(
    console: "Console", headings: Sequence[str], rows: Sequence[Sequence[str]], numbers: range
) -> None:
    """Print a table; on a narrow terminal what stands before the numbers takes several lines."""
    from rich.measure import Measurement

    table = _table(headings, rows, numbers, can_fold=console.is_terminal)
    if not console.is_terminal:
        endless = console.options.update(width=_ENDLESS)
        console.width = max(console.width, Measurement.get(console, endless, table).maximum)
    console.print(table)


def _table(
    headings: Sequence[str], rows: Sequence[Sequence[str]], numbers: range, *, can_fold: bool
) -> "Table":
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column, heading in enumerate(headings):
        table.add_column(
            heading,
            justify="right" if column in numbers else "left",
            no_wrap=not (can_fold and column < min(numbers)),
            overflow="fold",
        )
    for row in rows:
        style = _STYLES.get(row[-1].partition(" ")[0], "")
        table.add_row(*row[:-1], Text(row[-1], style=style))
    return table
