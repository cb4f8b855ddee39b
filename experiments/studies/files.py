"""Findings as files: CSV for programs, Markdown for a report, figures."""

import csv
import io
import math
from collections.abc import Sequence
from pathlib import Path

from experiments.results.atomic import write_text
from experiments.studies.base import Study
from experiments.studies.findings import Findings
from experiments.studies.wording import HEADINGS, VERDICT_HEADINGS, cells, verdict_cells

CSV_NAME, MARKDOWN_NAME = "findings.csv", "findings.md"

CSV_HEADER = (
    "study",
    "size",
    "section",
    "setting",
    "at",
    "quantity",
    "unit",
    "claim_low",
    "claim_high",
    "simulated",
    "interval_low",
    "interval_high",
    "num_runs",
    "error_ratio",
    "limit_ratio",
    "role",
    "verdict",
)


def write_findings(study: Study, size: str, findings: Findings, directory: Path) -> list[Path]:
    """Write all files of a study; returns their paths.

    Raises:
        OutputError: the disk or the directory refuses.
    """
    from experiments.figures.save import write_picture

    written = [directory / CSV_NAME, directory / MARKDOWN_NAME]
    write_text(written[0], csv_text(study, size, findings))
    write_text(written[1], markdown_text(study, size, findings))
    for name, figure in study.pictures(findings).items():
        written.append(directory / f"{name}.png")
        write_picture(figure, written[-1])
    return written


def csv_text(study: Study, size: str, findings: Findings) -> str:
    """Every row, then every promise with its ratio as `simulated`; columns are CSV_HEADER."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(CSV_HEADER)
    for section in findings.sections:
        for row in section.rows:
            low, high = row.claim or (None, None)
            value = row.simulated
            numbers = (low, high, value.mean, value.low, value.high, value.num_values)
            writer.writerow(
                [
                    *(study.name, size, section.title, row.setting, _plain(row.at)),
                    *(row.quantity, row.unit),
                    *map(_plain, (*numbers, row.error_ratio, row.limit_ratio)),
                    *(row.role, row.verdict),
                ]
            )
    for verdict in findings.verdicts:
        found, limit = _plain(verdict.value_ratio), _plain(verdict.limit_ratio)
        writer.writerow(
            [
                *(study.name, size, "verdicts", verdict.text, "", "error", "ratio", "", ""),
                *(found, "", "", "", "", limit, "", verdict.word),
            ]
        )
    return text.getvalue()


def markdown_text(study: Study, size: str, findings: Findings) -> str:
    """The tables and the notes, as they are printed."""
    parts = [f"# {study.name} (size={size})\n\n{study.question}\n"]
    for section in findings.printed:
        rows = [cells(row) for row in section.rows]
        parts.append(f"## {section.title}\n\n{_table(HEADINGS, rows, range(2, 6))}")
    if findings.verdicts:
        rows = [verdict_cells(verdict) for verdict in findings.verdicts]
        parts.append(f"## Verdicts\n\n{_table(VERDICT_HEADINGS, rows, range(1, 3))}")
    parts.append("".join(f"* {note}\n" for note in findings.notes))
    return "\n".join(parts)


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]], numbers: range) -> str:
    ruler = ["---:" if column in numbers else "---" for column in range(len(headings))]
    lines = [headings, ruler, *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _plain(value: float | int | None) -> str:
    if value is None or math.isnan(value):
        return ""
    return f"{value:.6g}"
