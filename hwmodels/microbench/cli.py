"""The command `python -m hwmodels.microbench`.

Exit codes: 0 done or out of time, 1 no case could be measured, 2 a mistake of the user, 130
interrupted. Rows are kept in every case.
"""

import argparse
import math
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import NoReturn

from hwmodels.microbench.errors import MicrobenchError
from hwmodels.microbench.harness import Device
from hwmodels.microbench.plans import PLANS
from hwmodels.microbench.run import run_plan

NAME = "microbench"
EXIT_OK, EXIT_NOTHING, EXIT_MISTAKE, EXIT_INTERRUPTED = 0, 1, 2, 130

_DESCRIPTION = """\
Measures the GPU for the cost models: memory and L2, matrix products, attention over shared
prefixes, launches, copies. Needs torch, triton and numpy, and nothing else of flocksim. The most
informative cases come first; a second run with the same --out measures those that are left.
Clocks and other settings of the device stay as they are."""


class _Parser(argparse.ArgumentParser):
    """Tells a mistake in one line."""

    def error(self, message: str) -> NoReturn:
        raise MicrobenchError(f"{message}; see --help")


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit.

    Args:
        argv: arguments without the program's name; None takes those of the process.
    """
    signal.signal(signal.SIGTERM, _interrupt)
    sys.exit(run_command(sys.argv[1:] if argv is None else argv))


def run_command(arguments: Sequence[str]) -> int:
    """Run a command line and return the exit code."""
    started_s = time.monotonic()
    try:
        given = _parser().parse_args(arguments)
        device = _open(given.seed)
        outcome = run_plan(
            device,
            given.out,
            plan_name=given.plan,
            seed=given.seed,
            deadline_s=started_s + given.budget_s,
            say=_say,
        )
    except MicrobenchError as error:
        print(f"{NAME}: error: {' '.join(str(error).split())}", file=sys.stderr)
        return EXIT_MISTAKE
    except SystemExit as error:  # after --help
        return EXIT_OK if not error.code else EXIT_MISTAKE
    except KeyboardInterrupt:
        print(f"{NAME}: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    if outcome.is_interrupted:
        print(f"{NAME}: interrupted; rows are kept in {given.out}", file=sys.stderr)
        return EXIT_INTERRUPTED
    if outcome.num_failed and not outcome.num_measured + outcome.num_there:
        print(f"{NAME}: error: no case could be measured", file=sys.stderr)
        return EXIT_NOTHING
    return EXIT_OK


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="python -m hwmodels.microbench",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--out", type=Path, required=True, metavar="ROWS", help="JSONL of rows")
    parser.add_argument(
        "--budget-s",
        type=_seconds,
        default=300.0,
        metavar="S",
        help="seconds in all, loading of torch and compilation included; default 300",
    )
    parser.add_argument(
        "--plan",
        choices=["auto", *PLANS],
        default="auto",
        help="which cases; auto takes the one made for this GPU",
    )
    parser.add_argument(
        "--seed", type=_seed, default=0, metavar="N", help="of data and order; default 0"
    )
    return parser


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"must be a number of seconds above 0, found {text!r}")
    return value


def _seed(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise argparse.ArgumentTypeError(f"must be a whole number below 10^9, found {text!r}")
    return int(text)


def _open(seed: int) -> Device:
    """The CUDA device.

    Raises:
        MicrobenchError: a package is missing, or no device is usable.
    """
    try:
        from hwmodels.microbench.cuda_device import open_cuda_device
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in ("torch", "triton", "numpy"):
            raise
        raise MicrobenchError(
            f"{package} is not installed: pip install torch triton numpy"
        ) from None
    return open_cuda_device(seed)


def _say(text: str) -> None:
    print(text, flush=True)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
