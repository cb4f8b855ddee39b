"""One row per job of a sweep: compact on the terminal, complete in sweep.csv."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.quantities import ABSENT, digits, duration, percent
from experiments.results.atomic import write_text
from experiments.sweep.task import Outcome

if TYPE_CHECKING:
    from rich.table import Table

MAX_ROWS = 200
"""Rows that are printed; sweep.csv has all of them."""

WIDEST = 1000
"""Columns of a table that goes to a file or another program, which wraps nothing."""

_FIGURES = (
    ("requests/s", "request_rate_per_s", digits),
    ("TTFT p50", "ttft_p50_s", duration),
    ("TTFT p99", "ttft_p99_s", duration),
    ("TPOT p50", "tpot_p50_s", duration),
    ("E2E mean", "e2e_mean_s", duration),
    ("goodput/s", "goodput_per_s", digits),
    ("SLO met", "slo_attainment_ratio", percent),
    ("prefix hits", "prefix_hit_ratio", percent),
)


def print_table(outcomes: Sequence[Outcome]) -> None:
    """Print the main figures of every job, as many of them as the terminal has columns for."""
    from rich.measure import Measurement

    from experiments.summary import make_console

    if not outcomes:
        return
    console = make_console()
    width = console.width if console.is_terminal else WIDEST
    console.width = WIDEST
    num_figures = len(_FIGURES)
    table = _table_of(outcomes, num_figures)
    while num_figures > 3 and Measurement.get(console, console.options, table).maximum > width:
        num_figures -= 1
        table = _table_of(outcomes, num_figures)
    console.print(table)
    if len(outcomes) > MAX_ROWS:
        print(f"... and {len(outcomes) - MAX_ROWS:,} more rows in sweep.csv")


def _table_of(outcomes: Sequence[Outcome], num_figures: int) -> "Table":
    from rich.table import Table

    keys = varying_keys(outcomes)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("job", justify="right")
    for title in (*keys, "regime"):
        table.add_column(title)
    for title, _, _ in _FIGURES[:num_figures]:
        table.add_column(title, justify="right")
    for outcome in outcomes[:MAX_ROWS]:
        document = document_of(outcome)
        metrics = document.get("metrics") or {}
        given = overrides_of(outcome)
        table.add_row(
            str(outcome.task.number),
            *(given.get(key, ABSENT) for key in keys),
            document.get("regime") or (outcome.status if outcome.is_bad else ABSENT),
            *(show(metrics.get(name)) for _, name, show in _FIGURES[:num_figures]),
        )
    return table


def write_csv(path: Path, outcomes: Sequence[Outcome], directory: Path) -> None:
    """Write all figures, a row per job in the order of the sweep; empty where there is none.

    Args:
        path: the file.
        outcomes: the jobs.
        directory: that of the sweep; the column `directory` is relative to it.
    """
    documents = [document_of(outcome) for outcome in outcomes]
    metrics = list(dict.fromkeys(name for one in documents for name in one.get("metrics") or {}))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    head = ("job", "directory", "status", "regime", "seed", "replications")
    keys = [key for key in varying_keys(outcomes) if key not in head]
    writer.writerow([*head, *keys, *metrics, "error"])
    for outcome, document in zip(outcomes, documents, strict=True):
        given = overrides_of(outcome)
        values = document.get("metrics") or {}
        writer.writerow(
            [
                outcome.task.number,
                _relative(outcome.task.directory, directory),
                document.get("status", outcome.status),
                document.get("regime"),
                document.get("seed"),
                len(document.get("replications") or [None]) if values else None,
                *(given.get(key) for key in keys),
                *(values.get(name) for name in metrics),
                document.get("error"),
            ]
        )
    write_text(path, text.getvalue())


def varying_keys(outcomes: Sequence[Outcome]) -> list[str]:
    """Keys of the command line whose values differ between jobs, in its order."""
    rows = [overrides_of(outcome) for outcome in outcomes]
    keys = dict.fromkeys(key for row in rows for key in row)
    return [key for key in keys if len({row.get(key) for row in rows}) > 1]


def overrides_of(outcome: Outcome) -> Mapping[str, str]:
    """Keys and values of the job's command line."""
    pairs = (item.partition("=") for item in outcome.task.overrides)
    return {key.lstrip("+"): value for key, _, value in pairs}


def document_of(outcome: Outcome) -> dict[str, Any]:
    """result.json of a job; empty if it is not there."""
    try:
        text = (outcome.task.directory / "result.json").read_text(encoding="utf-8")
        document: dict[str, Any] = json.loads(text)
    except (OSError, ValueError):
        return {}
    return document if outcome.status != "busy" else {}


def _relative(directory: Path, parent: Path) -> str:
    if directory.is_relative_to(parent):
        return directory.relative_to(parent).as_posix()
    return directory.as_posix()
