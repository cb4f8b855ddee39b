"""The command `flocksim`: one job, or a sweep with `-m`.

Exit codes: 0 done, 1 a defect of the simulator, 2 a mistake in the input, 130 interrupted.
"""

import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

EXIT_OK, EXIT_DEFECT, EXIT_MISTAKE, EXIT_INTERRUPTED = 0, 1, 2, 130


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit.

    Args:
        argv: arguments without the program's name; None takes those of the process.
    """
    from experiments.streams import install_lenient_streams

    install_lenient_streams()
    sys.exit(run_command(list(sys.argv[1:] if argv is None else argv)))


def run_command(arguments: list[str]) -> int:
    """Run a command line and return the exit code."""
    from experiments.package_guard import foreign_package

    wrong = foreign_package()
    if wrong is not None:
        return complain(wrong)
    if {"-h", "--help"} & set(arguments):
        from experiments.help_text import help_text

        print(help_text())
        return EXIT_OK
    if "--version" in arguments:
        from importlib.metadata import version

        print(f"flocksim {version('flocksim')}")
        return EXIT_OK
    from experiments.arguments import overrides_first

    return _run_hydra(overrides_first(arguments))


def complain(line: str) -> int:
    """One line on standard error; the exit code of a mistake."""
    text = " ".join(part.strip() for part in line.splitlines())
    print(f"flocksim: error: {text}", file=sys.stderr)
    return EXIT_MISTAKE


def _run_hydra(arguments: list[str]) -> int:
    from experiments.hydra_errors import explain
    from experiments.policy_errors import show_cause
    from sim.errors import FlocksimError

    outcomes: list[int | Exception] = []
    try:
        with _hydra_environment(arguments):
            _hydra_app(outcomes)
        for outcome in outcomes:
            if isinstance(outcome, Exception):
                raise outcome
    except KeyboardInterrupt:
        print("flocksim: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    except FlocksimError as error:
        show_cause(error)
        return complain(str(error))
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else EXIT_MISTAKE
    except Exception as error:
        line = explain(error, [item for item in arguments if not item.startswith("-")])
        if line is None and isinstance(error, FileExistsError | NotADirectoryError):
            whole = "it is" if isinstance(error, FileExistsError) else "a part of it is"
            line = f"{error.filename}: hydra.run.dir must be a directory, but {whole} a file"
        if line is None and isinstance(error, OSError):
            line = f"{error.filename or 'output'}: {error.strerror or error}"
        if line is None:
            raise
        return complain(line)
    return max((code for code in outcomes if isinstance(code, int)), default=EXIT_OK)


def _hydra_app(outcomes: list[int | Exception]) -> None:
    """Run the jobs; Hydra would comment on exceptions, so these are handed round it."""
    import hydra

    from experiments.composing import CONFIG_MODULE, CONFIG_NAME

    @hydra.main(version_base="1.3", config_path=f"pkg://{CONFIG_MODULE}", config_name=CONFIG_NAME)
    def app(config: Any) -> None:
        from experiments.hydra_job import run_hydra_job

        try:
            outcomes.append(run_hydra_job(config))
        except Exception as error:
            outcomes.append(error)

    app()


@contextmanager
def _hydra_environment(arguments: list[str]) -> Iterator[None]:
    """Hydra reads `sys.argv`, and hands us its exceptions only if asked by a variable.

    Its warnings would come before our error line; a search path that does not exist, of which it
    only warns, is an error.
    """
    old_argv, old_value = sys.argv, os.environ.get("HYDRA_FULL_ERROR")
    sys.argv = [old_argv[0] if old_argv else "flocksim", *arguments]
    os.environ["HYDRA_FULL_ERROR"] = "1"
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", category=UserWarning, module="hydra")
            warnings.filterwarnings("error", r"provider=.* is not available", UserWarning)
            yield
    finally:
        sys.argv = old_argv
        if old_value is None:
            del os.environ["HYDRA_FULL_ERROR"]
        else:
            os.environ["HYDRA_FULL_ERROR"] = old_value
