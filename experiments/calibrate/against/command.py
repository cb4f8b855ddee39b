"""`flocksim-calibrate against`: a measured run beside its replay."""

import datetime
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from experiments.calibrate.against.options import Question, job_of, parser, question_of
from experiments.calibrate.against.read_run import read_run
from experiments.calibrate.against.replay import OVERLAY_FILE
from experiments.calibrate.against.report import document_of, notes_of, written_overlay
from experiments.calibrate.against.study import Study, study_of
from experiments.calibrate.against.tables import (
    constant_lines,
    error_line,
    figures_table,
    heldout_table,
)
from experiments.cli import EXIT_OK
from experiments.progress import progress_bar
from experiments.results.atomic import make_writable, remove_files, write_text
from experiments.results.json_text import json_text
from experiments.summary import make_console

DOCUMENT, FIGURE = "against.json", "against.png"

FILES = (DOCUMENT, FIGURE, OVERLAY_FILE)


def against(arguments: Sequence[str]) -> int:
    """Run the command line and return the exit code.

    Args:
        arguments: those after `against`.

    Raises:
        FlocksimError: the run or the configuration is at fault, or a file cannot be written.
        SystemExit: after --help.
    """
    given = parser().parse_intermixed_args(list(arguments))
    question = question_of(given, datetime.date.today().isoformat())
    job = job_of(question)
    measured = read_run(question.path, question.format, question.run)
    make_writable(question.directory, FILES)
    with _telling() as tell:
        study = study_of(measured, job, question.is_fitting, progress_bar, tell)
    document = document_of(study, question, job)
    overlay = written_overlay(study, question, job)
    profile = None if overlay is None else json_text(overlay.to_json())
    _write(question, study, json_text(document), profile)
    if question.is_json:
        sys.stdout.write(json_text(document))
    else:
        _print(question, study, document["overrides_with_fit"])
    return EXIT_OK


def _write(question: Question, study: Study, document: str, overlay: str | None) -> None:
    from experiments.calibrate.against.picture import distributions_figure
    from experiments.figures.save import write_picture

    remove_files(question.directory, FILES)
    write_picture(distributions_figure(study), question.directory / FIGURE)
    if overlay is not None:
        write_text(question.directory / OVERLAY_FILE, overlay)
    write_text(question.directory / DOCUMENT, document)


def _print(question: Question, study: Study, overrides: Sequence[str]) -> None:
    console = make_console()
    console.print(figures_table(study))
    if study.fitted is not None:
        console.print(heldout_table(study, study.fitted))
        for line in [*constant_lines(study.fitted), error_line(study, study.fitted)]:
            print(line)
    for note in notes_of(study):
        print(f"note: {note}")
    print(f"results: {question.directory}")
    if overrides:
        print(f"to simulate with the fitted constants: {' '.join(overrides)}")


@contextmanager
def _telling() -> Iterator[Callable[[str], object]]:
    """Shows what goes on in a line on standard error; silent where that is no terminal."""
    if not sys.stderr.isatty():
        yield lambda _line: None
        return
    width = 0

    def tell(line: str) -> None:
        nonlocal width
        sys.stderr.write(f"\r{line.ljust(width)}")
        sys.stderr.flush()
        width = len(line)

    try:
        yield tell
    finally:
        sys.stderr.write(f"\r{' ' * width}\r")
        sys.stderr.flush()
