"""`flocksim-calibrate compare`: where two profiles differ, and what that does to a step."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.calibrate.compared import CONSTANT, STEP, TIME, Pair, csv_text, pairs_of
from experiments.calibrate.named_kernels import NamedProfile, profile_named
from experiments.calibrate.reference_grid import STEP_TEXT
from experiments.cli import EXIT_OK
from experiments.quantities import ABSENT, duration
from experiments.results.atomic import make_writable, write_text
from experiments.summary import make_console
from hwmodels.strict_json import shown
from sim.errors import ConfigError

if TYPE_CHECKING:
    from rich.table import Table


def compare(given: argparse.Namespace) -> int:
    """Print where two profiles differ; write a CSV and a picture if asked.

    Raises:
        FlocksimError: a profile cannot be read or lacks a kernel, or a file cannot be written.
    """
    csv_path = None if given.csv is None else Path(given.csv)
    picture_path = None if given.figure is None else Path(given.figure)
    if picture_path is not None and picture_path.suffix != ".png":
        raise ConfigError(f"--figure must end in .png, found {shown(given.figure)}")
    for path in (csv_path, picture_path):
        if path is not None:
            make_writable(path.parent, [path.name])
    first, second = profile_named(given.first), profile_named(given.second)
    pairs = pairs_of(first, second)
    console = make_console()
    for table in tables(first, second, pairs):
        console.print(table)
    for line in notes(first, second, pairs):
        print(line)
    if csv_path is not None:
        write_text(csv_path, csv_text(pairs))
    if picture_path is not None:
        from experiments.calibrate.compare_figure import compare_figure
        from experiments.figures.save import write_picture

        write_picture(compare_figure(first.label, second.label, pairs), picture_path)
    return EXIT_OK


def tables(first: NamedProfile, second: NamedProfile, pairs: Sequence[Pair]) -> list["Table"]:
    """Constants that differ, kernel times, and the terms of the reference step."""
    differing = [pair for pair in pairs if pair.kind == CONSTANT and not pair.is_same]
    times = [pair for pair in pairs if pair.kind == TIME]
    steps = [pair for pair in pairs if pair.kind == STEP]
    return [
        _table("constants that differ by 1 % or more", first, second, differing),
        _table("kernel times", first, second, times),
        _table(STEP_TEXT, first, second, steps),
    ]


def notes(first: NamedProfile, second: NamedProfile, pairs: Sequence[Pair]) -> list[str]:
    """How many constants are alike, and which kernels nobody measured."""
    alike = sum(pair.kind == CONSTANT and pair.is_same for pair in pairs)
    lines = [f"{alike} constants alike"]
    for profile in (first, second):
        guessed = [name for name, one in profile.models.provenance.items() if one.is_extrapolated]
        if guessed:
            lines.append(f"{profile.label}: extrapolated: {', '.join(guessed)}")
    return lines


def _table(title: str, first: NamedProfile, second: NamedProfile, pairs: Sequence[Pair]) -> "Table":
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    table.add_column("kernel")
    table.add_column("")
    for name in (first.label, second.label, "ratio"):
        table.add_column(name, justify="right")
    for pair in pairs:
        kernel = "" if pair.kind == STEP else pair.kernel
        ratio = ABSENT if pair.ratio is None else f"{pair.ratio:.3f}"
        table.add_row(
            kernel, pair.name, _number(pair, pair.first), _number(pair, pair.second), ratio
        )
    return table


def _number(pair: Pair, value: float | None) -> str:
    if pair.kind != CONSTANT:
        return duration(value)
    return ABSENT if value is None else f"{value:.5g}"
