"""The command `flocksim-compare`.

Exit codes: 0 done, 1 a defect, 2 a mistake in the input, 130 interrupted.
"""

import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from experiments.cli import EXIT_INTERRUPTED, EXIT_OK, complain, run_interruptible
from experiments.compare.options import CompareOptions, help_text, parse_options
from sim.errors import FlocksimError

if TYPE_CHECKING:
    import pandas as pd

    from experiments.compare.report import Report
    from experiments.results.load import Run

NAME = "flocksim-compare"


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit.

    Args:
        argv: arguments without the program's name; None takes those of the process.
    """
    from experiments.streams import install_lenient_streams

    install_lenient_streams()
    sys.exit(run_interruptible(run_command, argv, NAME))


def run_command(arguments: list[str]) -> int:
    """Run a command line and return the exit code."""
    from experiments.package_guard import foreign_package

    wrong = foreign_package()
    if wrong is not None:
        return _complain(wrong)
    if {"-h", "--help"} & set(arguments):
        print(help_text())
        return EXIT_OK
    from experiments.deferred_interrupt import undisguised_interrupts

    try:
        with undisguised_interrupts():
            _compare(parse_options(arguments))
    except FlocksimError as error:
        return _complain(str(error))
    except OSError as error:
        return _complain(f"{error.filename or 'output'}: {error.strerror or error}")
    except KeyboardInterrupt:
        print(f"{NAME}: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    return EXIT_OK


def _complain(line: str) -> int:
    return complain(line, NAME)


def _compare(options: CompareOptions) -> None:
    from experiments.compare.build import compare_runs
    from experiments.compare.terminal import print_report
    from experiments.results.load import load_runs, without_copies
    from experiments.summary import make_console

    _check_places(options)
    _check_measured(options.measured)
    with _status("reading"):
        runs, copies = without_copies(load_runs(options.directories))
    with _status(f"comparing {len(runs)} jobs"):
        table, report = compare_runs(
            runs,
            copies,
            baseline=options.baseline,
            metrics=options.metrics,
            by=options.by,
            policy_keys=options.policy_keys,
            unit_keys=options.unit_keys,
            level=options.level,
            interval=options.interval,
        )
    print_report(report, make_console())
    for path in _written(options, runs, table, report):
        print(f"written: {path}")


def _check_places(options: CompareOptions) -> None:
    """Refuse what cannot be written before anything is computed."""
    from experiments.results.atomic import make_writable

    for path in (options.csv, options.markdown, options.html):
        if path is not None:
            make_writable(path.parent, [path.name])
    if options.figures is not None:
        make_writable(options.figures)


def _check_measured(files: Sequence[Path]) -> None:
    """Refuse a bad file before anything is computed."""
    if files:
        from experiments.figures.measured import measured_runs

        measured_runs(files)


def _written(
    options: CompareOptions, runs: "Sequence[Run]", table: "pd.DataFrame", report: "Report"
) -> Iterator[Path]:
    """Write what was asked for; yields what there is."""
    from experiments.compare.html_page import html_text
    from experiments.compare.markdown import markdown_text
    from experiments.results.atomic import write_text

    if options.csv is not None:
        write_text(options.csv, table.to_csv(index=False, lineterminator="\n"))
        yield options.csv
    if options.markdown is not None:
        write_text(options.markdown, markdown_text(report))
        yield options.markdown
    if options.figures is not None:
        yield from _figures(runs, options, options.figures, options.formats)
    if options.html is not None:
        with tempfile.TemporaryDirectory() as folder:
            is_told = options.figures is not None
            figures = _figures(runs, options, Path(folder), ("svg",), is_told)
            title = f"Comparison of {len(runs)} jobs"
            write_text(options.html, html_text(report, title, figures))
        yield options.html


def _figures(
    runs: "Sequence[Run]",
    options: CompareOptions,
    directory: Path,
    formats: Sequence[str],
    is_quiet: bool = False,
) -> list[Path]:
    """Draw; which figures are left out goes to standard error, once."""
    from experiments.figures import save_all

    say = (lambda _: None) if is_quiet else None
    with _status("drawing"):
        return save_all(
            runs,
            directory,
            formats=formats,
            measured=options.measured or None,
            say=say,
            baseline=options.baseline,
            policy_keys=options.policy_keys,
            unit_keys=options.unit_keys,
        )


@contextmanager
def _status(what: str) -> Iterator[None]:
    """A line on standard error while it takes; nothing where that is no terminal."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(f"{what} ..."):
        yield
