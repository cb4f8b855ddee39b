"""The command `flocksim-calibrate`.

Exit codes: 0 done, 1 a defect of flocksim, 2 a mistake in the input, 130 interrupted.
"""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from experiments.cli import EXIT_INTERRUPTED, EXIT_MISTAKE, EXIT_OK, complain, use_one_thread

if TYPE_CHECKING:
    import argparse


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit.

    Args:
        argv: arguments without the program's name; None takes those of the process.
    """
    from experiments.streams import install_lenient_streams

    install_lenient_streams()
    use_one_thread()
    sys.exit(run_command(list(sys.argv[1:] if argv is None else argv)))


def run_command(arguments: list[str]) -> int:
    """Run a command line and return the exit code."""
    from experiments.calibrate.arguments import NAME, parser
    from experiments.package_guard import foreign_package
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
    try:
        if arguments[0] == "against":
            from experiments.calibrate.against.command import against

            return against(arguments[1:])
        return _run(parser().parse_args(arguments))
    except SystemExit as error:  # after --help
        return EXIT_OK if not error.code else EXIT_MISTAKE
    except KeyboardInterrupt:
        print(f"{NAME}: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    except FlocksimError as error:
        return _complain(str(error))
    except OSError as error:
        return _complain(f"{error.filename or 'output'}: {error.strerror or error}")


def _run(given: "argparse.Namespace") -> int:
    if given.command == "fit":
        from experiments.calibrate.fit import fit

        return fit(given)
    if given.command == "measure":
        from experiments.calibrate.measure import measure

        return measure(given)
    if given.command == "compare":
        from experiments.calibrate.compare import compare

        return compare(given)
    if given.command == "transfer":
        from experiments.calibrate.transfer import transfer

        return transfer(given)
    if given.command == "table":
        from experiments.calibrate.table import table

        return table(given)
    from experiments.calibrate.validate import validate

    return validate(given)


def _complain(line: str) -> int:
    from experiments.calibrate.arguments import NAME

    return complain(line, NAME)
