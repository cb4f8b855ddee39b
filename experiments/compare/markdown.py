"""The comparison as Markdown, for a pull request or a lab book."""

from collections.abc import Iterator, Sequence

from experiments.compare.report import PlainTable, Report, Row, Section


def markdown_text(report: Report) -> str:
    """Every section and small table with a heading, then the notes as a list."""
    parts = [_section(report, section) for section in report.sections]
    parts += [_plain(extra) for extra in report.extras]
    notes = "".join(f"* {_escaped(note)}\n" for note in report.notes)
    return "\n".join([*parts, notes])


def _section(report: Report, section: Section) -> str:
    title = f"### {_escaped(section.title)}\n\n" if section.title else ""
    headings = [report.first_heading, "runs", "regime", *report.headings]
    ruler = ["---", "---:", "---", *["---:"] * len(report.headings)]
    rows = [_line(headings), _line(ruler), *(_line(list(_cells(row))) for row in section.rows)]
    return title + "".join(rows)


def _plain(extra: PlainTable) -> str:
    ruler = ["---", *["---:"] * (len(extra.headings) - 1)]
    rows = [_line([_escaped(text) for text in row]) for row in extra.rows]
    lines = [_line(extra.headings), _line(ruler), *rows]
    return f"### {_escaped(extra.title)}\n\n" + "".join(lines)


def _cells(row: Row) -> Iterator[str]:
    yield _escaped(f"{row.name} ({row.role})" if row.role else row.name)
    yield str(row.num_runs)
    yield row.regime
    for cell in row.cells:
        yield "<br>".join(map(_escaped, cell.lines))


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |\n"


def _escaped(text: str) -> str:
    """Text in which nothing is markup: bars, stars, underscores and angle brackets are plain."""
    for sign in "\\|*_<>[]`":
        text = text.replace(sign, "\\" + sign)
    return text
