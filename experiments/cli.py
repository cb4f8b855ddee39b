"""The command `flocksim`: one job, or a sweep with `-m`.

Exit codes: 0 done, 1 a defect of the simulator, 2 a mistake in the input, 130 interrupted.
"""

import os
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from experiments.sweep.log import SweepLog

EXIT_OK, EXIT_DEFECT, EXIT_MISTAKE, EXIT_INTERRUPTED = 0, 1, 2, 130


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit.

    Args:
        argv: arguments without the program's name; None takes those of the process.
    """
    from experiments.streams import install_lenient_streams

    install_lenient_streams()
    use_one_thread()
    sys.exit(run_interruptible(run_command, argv))


def run_interruptible(
    command: Callable[[list[str]], int], argv: Sequence[str] | None, name: str = "flocksim"
) -> int:
    """Run a command line and return the exit code, also if Ctrl-C comes while modules are imported.

    Args:
        command: takes the arguments, returns the exit code.
        argv: arguments without the program's name; None takes those of the process.
        name: the program's name.
    """
    try:
        return command(list(sys.argv[1:] if argv is None else argv))
    except KeyboardInterrupt:
        print(f"{name}: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED


def use_one_thread() -> None:
    """Let NumPy's linear algebra use one thread; to be called before NumPy is imported.

    Long dot products depend on the number of threads in their last digit, and so on the machine.
    """
    for library in ("OMP", "OPENBLAS", "MKL"):
        os.environ[f"{library}_NUM_THREADS"] = "1"


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


def complain(line: str, name: str = "flocksim") -> int:
    """One line on standard error; the exit code of a mistake.

    Args:
        line: what is wrong.
        name: the program's name.
    """
    text = " ".join(part.strip() for part in line.splitlines())
    print(f"{name}: error: {text}", file=sys.stderr)
    return EXIT_MISTAKE


def _run_hydra(arguments: list[str]) -> int:
    from experiments.deferred_interrupt import undisguised_interrupts
    from experiments.hydra_errors import explain
    from experiments.policy_errors import show_cause
    from experiments.sweep.log import SweepLog
    from sim.errors import FlocksimError

    log = SweepLog()
    outcomes: list[int | Exception] = []
    try:
        with undisguised_interrupts(), _hydra_environment(arguments):
            _hydra_app(outcomes, log)
        for outcome in outcomes:
            if isinstance(outcome, Exception):
                raise outcome
        return max([log.close(), *(code for code in outcomes if isinstance(code, int))])
    except KeyboardInterrupt:
        print(f"flocksim: {log.interrupted_line()}", file=sys.stderr)
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
            key = "sweep" if {"-m", "--multirun"} & set(arguments) else "run"
            line = f"{error.filename}: hydra.{key}.dir must be a directory, but {whole} a file"
        if line is None and isinstance(error, OSError):
            line = f"{error.filename or 'output'}: {error.strerror or error}"
        if line is None:
            raise
        return complain(line)


def _hydra_app(outcomes: list[int | Exception], log: "SweepLog") -> None:
    """Run the jobs; Hydra would comment on exceptions, so these are handed round it."""
    import hydra

    from experiments.composing import CONFIG_MODULE, CONFIG_NAME
    from experiments.sweep.launcher import register_launcher

    register_launcher()

    def app(config: Any) -> None:
        from experiments.hydra_job import run_hydra_job

        try:
            outcomes.append(run_hydra_job(config, log))
        except Exception as error:
            outcomes.append(error)

    app.log = log  # type: ignore[attr-defined]  # the launcher's only way to it
    settings = {"config_path": f"pkg://{CONFIG_MODULE}", "config_name": CONFIG_NAME}
    hydra.main(version_base="1.3", **settings)(app)()


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
