"""The command `flocksim-trace`.

Exit codes: 0 done, 1 a trace with faults (or a defect of flocksim), 2 a mistake in the input, 130
interrupted.
"""

import sys
from collections.abc import Sequence
from typing import NoReturn

from experiments.cli import EXIT_INTERRUPTED, EXIT_MISTAKE, EXIT_OK, complain, run_interruptible
from sim.errors import FlocksimError

NAME = "flocksim-trace"


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
    if not arguments or {"-h", "--help"} & set(arguments):
        from experiments.trace_cli.arguments import COMMANDS
        from experiments.trace_cli.help_text import help_text

        print(help_text(next((word for word in arguments if word in COMMANDS), None)))
        return EXIT_OK if arguments else EXIT_MISTAKE
    if arguments == ["--version"]:
        from importlib.metadata import version

        print(f"{NAME} {version('flocksim')}")
        return EXIT_OK
    try:
        return _run(arguments)
    except KeyboardInterrupt:
        print(f"{NAME}: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    except FlocksimError as error:
        from experiments.policy_errors import show_cause

        show_cause(error)
        return _complain(str(error))
    except OSError as error:
        return _complain(f"{error.filename or 'output'}: {error.strerror or error}")


def _run(arguments: list[str]) -> int:
    from experiments.trace_cli.arguments import parse_arguments

    asked = parse_arguments(arguments)
    if asked.command == "info":
        from experiments.trace_cli.info import info as run
    elif asked.command == "validate":
        from experiments.trace_cli.validate import validate as run
    elif asked.command == "convert":
        from experiments.trace_cli.convert import convert as run
    elif asked.command == "synth":
        from experiments.trace_cli.synth import synth as run
    else:
        from experiments.trace_cli.compare import compare as run
    return run(asked)


def _complain(line: str) -> int:
    return complain(line, NAME)
