"""The command `flocksim-study`.

Exit codes: 0 done, 1 a defect of flocksim, 2 a mistake in the input, 130 interrupted.
"""

import sys
from collections.abc import Sequence
from typing import NoReturn

from experiments.cli import (
    EXIT_INTERRUPTED,
    EXIT_MISTAKE,
    EXIT_OK,
    complain,
    run_interruptible,
    use_one_thread,
)


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit.

    Args:
        argv: arguments without the program's name; None takes those of the process.
    """
    from experiments.streams import install_lenient_streams

    install_lenient_streams()
    use_one_thread()
    sys.exit(run_interruptible(run_command, argv, "flocksim-study"))


def run_command(arguments: list[str]) -> int:
    """Run a command line and return the exit code."""
    from experiments.deferred_interrupt import undisguised_interrupts
    from experiments.hydra_errors import explain
    from experiments.package_guard import foreign_package
    from experiments.studies.arguments import NAME, parser, read_arguments
    from sim.errors import FlocksimError

    wrong = foreign_package()
    if wrong is not None:
        return _complain(wrong)
    if arguments == ["--version"]:
        from importlib.metadata import version

        print(f"{NAME} {version('flocksim')}")
        return EXIT_OK
    if not arguments:
        parser().print_help()
        return EXIT_MISTAKE
    overrides = [item for item in arguments if not item.startswith("-")]
    try:
        asked = read_arguments(arguments)
        from experiments.studies.conduct import conduct, print_list
        from experiments.studies.registry import study_named

        if asked.study is None:
            print_list()
            return EXIT_OK
        study = study_named(asked.study)
        with undisguised_interrupts():
            conduct(study, asked.size, asked.directory, asked.workers, asked.overrides)
        return EXIT_OK
    except SystemExit as error:  # after --help
        return EXIT_OK if not error.code else EXIT_MISTAKE
    except KeyboardInterrupt:
        print(f"{NAME}: interrupted; the same command goes on", file=sys.stderr)
        return EXIT_INTERRUPTED
    except FlocksimError as error:
        return _complain(str(error))
    except Exception as error:
        line = explain(error, overrides)
        if line is None and isinstance(error, OSError):
            line = f"{error.filename or 'output'}: {error.strerror or error}"
        if line is None:
            raise
        return _complain(line.replace("add -m for a sweep over several values", "give one value"))


def _complain(line: str) -> int:
    from experiments.studies.arguments import NAME

    return complain(line, NAME)
