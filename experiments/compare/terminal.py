"""The comparison on the terminal: as many tables as its width takes."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal

from experiments.compare.report import ALARM, Cell, PlainTable, Report, Row, Section

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

_GAP = 2
"""Blank columns between the columns of a table."""

_STYLES = {"better": "green", "worse": "red"}


def print_report(report: Report, console: "Console") -> None:
    """Print every section, the small tables, then the notes."""
    for section in report.sections:
        if section.title:
            console.print(section.title, style="bold", soft_wrap=True)
        for columns in _fitting(report, section, console.width):
            console.print(_table(report, section, columns))
            console.print()
    for extra in report.extras:
        console.print(extra.title, style="bold", soft_wrap=True)
        console.print(_plain(extra))
        console.print()
    for note in report.notes:
        console.print(f"* {note}", soft_wrap=True)


def _plain(extra: PlainTable) -> "Table":
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0))
    for index, heading in enumerate(extra.headings):
        # Names wrap, figures are never cut: headings of a word a line keep their columns narrow.
        lines = "\n".join(heading.split())
        justify: Literal["left", "right"] = "right" if index else "left"
        table.add_column(lines, justify=justify, no_wrap=bool(index), overflow="fold")
    for row in extra.rows:
        table.add_row(*row)
    return table


def _fitting(report: Report, section: Section, width: int) -> Iterator[list[int]]:
    """Columns of each part of the table: as many metrics as fit beside the first columns."""
    heads = [(report.first_heading, [_name(row) for row in section.rows])]
    heads += [("runs", [str(row.num_runs) for row in section.rows])]
    heads += [("regime", [row.regime for row in section.rows])]
    left = width - sum(_width(heading, texts) + _GAP for heading, texts in heads)
    part: list[int] = []
    used = 0
    for column, heading in enumerate(report.headings):
        texts = [line for row in section.rows for line in row.cells[column].lines]
        need = _width(heading, texts) + _GAP
        if part and used + need > left:
            yield part
            part, used = [], 0
        part.append(column)
        used += need
    if part:
        yield part


def _width(heading: str, texts: Sequence[str]) -> int:
    lines = [line for text in (_wrapped(heading), *texts) for line in text.splitlines()]
    return max(map(len, lines), default=0)


def _wrapped(heading: str) -> str:
    """A heading with its unit on a line of its own."""
    return heading.replace(" (", "\n(")


def _name(row: Row) -> str:
    return f"{row.name}\n({row.role})" if row.role else row.name


def _table(report: Report, section: Section, columns: Sequence[int]) -> "Table":
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0))
    table.add_column(report.first_heading, overflow="fold")
    table.add_column("runs", justify="right", no_wrap=True)
    table.add_column("regime", no_wrap=True)
    for column in columns:
        table.add_column(_wrapped(report.headings[column]), justify="right", no_wrap=True)
    for row in section.rows:
        cells = [_text(row.cells[column]) for column in columns]
        name = _name(row) if row is section.rows[-1] else _spaced(row)
        table.add_row(name, str(row.num_runs), _regime(row.regime), *cells)
    return table


def _spaced(row: Row) -> str:
    """The name, with a blank line after the row if it has several lines."""
    name = _name(row)
    height = max(len(name.splitlines()), *(len(cell.lines) for cell in row.cells))
    return name + "\n" * (height - len(name.splitlines()) + 1) if height > 1 else name


def _regime(regime: str) -> "Text":
    from rich.text import Text

    return Text(regime, style="bold yellow" if regime.startswith(ALARM) else "")


def _text(cell: Cell) -> "Text":
    from rich.text import Text

    text = Text("\n".join(cell.lines))
    style = _STYLES.get(cell.verdict)
    if style is not None:
        text.stylize(style, len(text) - len(cell.lines[-1]))
    return text
