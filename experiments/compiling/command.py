"""The command `flocksim-compile`.

Exit codes: 0 done, 2 it cannot be done here or a mistake in the input, 130 interrupted.
"""

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from experiments.cli import EXIT_INTERRUPTED, EXIT_MISTAKE, EXIT_OK, complain
from experiments.compiling import builder
from experiments.compiling.builds import remove_builds
from experiments.one_line_parser import OneLineParser
from sim import compiled
from sim.errors import ConfigError

NAME = "flocksim-compile"

HELP = """\
Translate the busiest modules of the engine to machine code with mypyc (about a minute, once): the
same results, byte for byte, 1.6 to 2.9 times as fast (loading and writing aside).

The sources stay what counts. A build belongs to the sources it was made from: after an edit below
sim/ or hwmodels/ flocksim runs them as plain Python again, until this command is given anew.
Policies and traces are not compiled, so they can be edited freely.
"""

EXAMPLES = f"""\
examples:
  flocksim-compile               compile, if these sources are not yet
  flocksim-compile --status      which form runs, and why
  flocksim-compile --remove      back to plain Python, until it is compiled again
  {compiled.SWITCH}=0 flocksim ...   plain Python for one run (to debug, or to compare)

It needs a C compiler and mypy (pip install 'flocksim[compile]'). Builds lie in the environment, in
{compiled.builds_folder()}
"""


def run_command(arguments: Sequence[str], wish: str = "") -> int:
    """Run a command line and return the exit code.

    Args:
        arguments: without the program's name.
        wish: what the switch said before it was turned off for this process.
    """
    from experiments.package_guard import foreign_package

    wrong = foreign_package()
    if wrong is not None:
        return _complain(wrong)
    try:
        return _run(parser().parse_args(arguments), wish)
    except SystemExit as error:  # after --help
        return EXIT_OK if not error.code else EXIT_MISTAKE
    except KeyboardInterrupt:
        print(f"{NAME}: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    except ConfigError as error:
        return _complain(str(error))
    except OSError as error:
        return _complain(f"{error.filename or 'build'}: {error.strerror or error}")


def parser() -> argparse.ArgumentParser:
    """The parser of the command line."""
    found = OneLineParser(
        prog=NAME,
        description=HELP,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    what = found.add_mutually_exclusive_group()
    what.add_argument("--status", action="store_true", help="say which form runs, and why")
    what.add_argument("--remove", action="store_true", help="remove all builds")
    what.add_argument("--force", action="store_true", help="compile although a build is there")
    what.add_argument(
        "--if-possible",
        action="store_true",
        help="where it cannot be done, say so and exit with 0",
    )
    return found


def _run(options: argparse.Namespace, wish: str) -> int:
    if options.status:
        print(status(wish))
        return EXIT_OK
    if options.remove:
        removed = remove_builds()
        print(f"removed {len(removed)} build{'' if len(removed) == 1 else 's'}")
        return EXIT_OK
    try:
        if not options.force and _is_sound(compiled.build_folder()):
            print(f"already compiled: {compiled.build_folder()}")
        else:
            _compile()
    except (ConfigError, OSError) as error:
        if not options.if_possible:
            raise
        print(f"{NAME}: not compiled, flocksim runs as plain Python: {error}")
    return EXIT_OK


def _is_sound(folder: Path) -> bool:
    """Whether a build is there and runs; else it is made anew."""
    if not compiled.is_complete(folder):
        return False
    try:
        builder.try_out(folder)
    except ConfigError:
        return False
    return True


def _compile() -> None:
    why = builder.why_impossible()
    if why is not None:
        raise ConfigError(why)
    start_s = time.monotonic()
    with _waiting(f"compiling {len(builder.module_files())} modules of the engine"):
        folder = builder.build()
    print(f"compiled in {time.monotonic() - start_s:.0f} s: {folder}")


@contextmanager
def _waiting(what: str) -> Iterator[None]:
    """Say what goes on, with the seconds so far where somebody watches."""
    if not sys.stderr.isatty():
        print(f"{what} (about a minute)", flush=True)
        yield
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        bar.add_task(f"{what} (about a minute)", total=None)
        yield


def status(wish: str) -> str:
    """Which form of the engine runs, and why; one line.

    Args:
        wish: what the switch says.
    """
    folder = compiled.build_folder()
    if compiled.is_complete(folder):
        if wish == "0":
            return f"plain Python, because {compiled.SWITCH}=0; compiled: {folder}"
        return f"compiled: {folder}"
    are_others = compiled.has_builds()
    why = "the sources have changed since they were compiled" if are_others else "not compiled"
    return f"plain Python: {why} ({NAME})"


def _complain(line: str) -> int:
    return complain(line, NAME)
