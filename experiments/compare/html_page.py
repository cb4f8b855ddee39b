"""The comparison as one HTML file that needs no other: tables, figures, notes."""

import base64
from collections.abc import Sequence
from html import escape
from pathlib import Path

from experiments.compare.report import ALARM, Cell, PlainTable, Report, Row, Section

_STYLE = """
body { font: 14px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 85rem; padding: 0 1rem;
  color: #1a1a1a; background: #fff; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .6rem; text-align: right; vertical-align: top; white-space: nowrap;
  border-bottom: 1px solid #ddd; }
th { border-bottom: 2px solid #888; vertical-align: bottom; }
th:first-child, td:first-child, th:nth-child(3), td:nth-child(3) { text-align: left; }
.plain th:nth-child(3), .plain td:nth-child(3) { text-align: right; }
td small { display: block; color: #555; }
.better { color: #00664b; font-weight: 600; } .worse { color: #a33c00; font-weight: 600; }
.alarm { color: #a33c00; font-weight: 600; }
figure { margin: 1.5rem 0; } figure img { max-width: 100%; height: auto; }
figcaption { color: #555; }
li { margin: .2rem 0; }
"""

_MEDIA = {".svg": "image/svg+xml", ".png": "image/png"}


def html_text(report: Report, title: str, figures: Sequence[Path] = ()) -> str:
    """The page.

    Args:
        report: what to show.
        title: heading of the page.
        figures: image files (SVG, PNG) to put into it.
    """
    sections = "".join(_section(report, section) for section in report.sections)
    sections += "".join(map(_plain, report.extras))
    images = "".join(map(_figure, figures))
    notes = "".join(f"<li>{escape(note)}</li>\n" for note in report.notes)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f"<h1>{escape(title)}</h1>\n{sections}"
        f"<h2>How to read it</h2>\n<ul>\n{notes}</ul>\n"
        f"{'<h2>Figures</h2>' if images else ''}\n{images}</body>\n</html>\n"
    )


def _section(report: Report, section: Section) -> str:
    headings = [report.first_heading, "runs", "regime", *report.headings]
    head = "".join(f"<th>{escape(heading).replace(' (', '<br>(')}</th>" for heading in headings)
    rows = "".join(map(_row, section.rows))
    title = f"<h2>{escape(section.title)}</h2>\n" if section.title else ""
    return f'{title}<div class="wide"><table>\n<tr>{head}</tr>\n{rows}</table></div>\n'


def _plain(extra: PlainTable) -> str:
    head = "".join(f"<th>{escape(text).replace(' (', '<br>(')}</th>" for text in extra.headings)
    rows = "".join(
        f"<tr>{''.join(f'<td>{escape(text)}</td>' for text in row)}</tr>\n" for row in extra.rows
    )
    title = f"<h2>{escape(extra.title)}</h2>\n"
    return (
        f'{title}<div class="wide"><table class="plain">\n<tr>{head}</tr>\n{rows}</table></div>\n'
    )


def _row(row: Row) -> str:
    role = f"<small>{escape(row.role)}</small>" if row.role else ""
    alarm = ' class="alarm"' if row.regime.startswith(ALARM) else ""
    cells = "".join(map(_cell, row.cells))
    return (
        f"<tr><td>{escape(row.name)}{role}</td><td>{row.num_runs}</td>"
        f"<td{alarm}>{escape(row.regime)}</td>{cells}</tr>\n"
    )


def _cell(cell: Cell) -> str:
    mean, *others = map(escape, cell.lines)
    lines = [f"<small>{line}</small>" for line in others]
    if cell.verdict in ("better", "worse"):
        lines[-1] = f'<small class="{cell.verdict}">{others[-1]}</small>'
    return f"<td>{mean}{''.join(lines)}</td>"


def _figure(path: Path) -> str:
    data = base64.b64encode(path.read_bytes()).decode()
    name = path.stem.replace("_", " ").capitalize()
    source = f"data:{_MEDIA[path.suffix]};base64,{data}"
    return (
        f'<figure><img src="{source}" alt="{escape(name)}">'
        f"<figcaption>{escape(name)}</figcaption></figure>\n"
    )
