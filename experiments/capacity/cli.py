"""The command `flocksim-capacity`: the highest rate that a cluster sustains, per policy.

Exit codes are those of `flocksim`.
"""

import shlex
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from experiments.cli import (
    EXIT_INTERRUPTED,
    EXIT_MISTAKE,
    EXIT_OK,
    complain,
    run_interruptible,
    use_one_thread,
)

if TYPE_CHECKING:
    import argparse

HELP = """\
The highest rate of arrivals at which enough requests meet the SLO and the cluster is stable, for
one policy or several. The rate is changed by trace.rate_scale: doubled or halved until it lies
between one that is sustained and one that is not, then bisected. With --flood: how many requests
per second a policy finishes while others wait, when all of them are there at once.
"""

EXAMPLES = """\
examples:
  flocksim-capacity trace=synthetic cluster.num_instances=2
  flocksim-capacity trace=mooncake trace.path=conversation_trace.jsonl trace.limit=5000 \\
      --policies routing=round_robin,jsq,least_requests --slo-ttft 2 --slo-tpot 0.05
  flocksim-capacity --policies routing=jsq,random --policies engine.max_num_seqs=64,256 --seeds 5
  flocksim-capacity --max-rate --tolerance 0.05
  flocksim-capacity --flood --policies routing=round_robin,least_requests --seeds 3

Every point is an ordinary job directory below --dir: what lies there is not simulated again, so an
interrupted search goes on where it stopped, and flocksim-compare reads it. Under several seeds a
rate is sustained if the share counts over all of them and most of them are stable. A recording is
the same for every seed: give replications=N in place of --seeds N.
capacity.json has every point. Overrides are those of flocksim: flocksim --help lists them.
"""


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit.

    Args:
        argv: arguments without the program's name; None takes those of the process.
    """
    from experiments.streams import install_lenient_streams

    install_lenient_streams()
    use_one_thread()
    sys.exit(run_interruptible(run_command, argv))


def run_command(arguments: list[str]) -> int:
    """Run a command line and return the exit code."""
    from experiments.package_guard import foreign_package

    wrong = foreign_package()
    if wrong is not None:
        return complain(wrong)
    try:
        given = parser().parse_intermixed_args(arguments)
    except SystemExit as error:
        return EXIT_OK if error.code == 0 else EXIT_MISTAKE
    return _run(given)


def parser() -> "argparse.ArgumentParser":
    """The command line; its errors are one line."""
    import argparse

    class Parser(argparse.ArgumentParser):
        def error(self, message: str) -> NoReturn:
            raise SystemExit(complain(f"{message}; see flocksim-capacity --help"))

    made = Parser(
        prog="flocksim-capacity",
        description=HELP,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    made.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="as for flocksim")
    made.add_argument("--policies", action="append", default=[], metavar="KEY=A,B", help=_POLICIES)
    made.add_argument("--slo-ttft", type=float, metavar="S", help="time to first token, seconds")
    made.add_argument("--slo-tpot", type=float, metavar="S", help="time per output token, seconds")
    made.add_argument("--attainment", type=float, metavar="RATIO", help=_ATTAINMENT)
    what = made.add_mutually_exclusive_group()
    what.add_argument("--flood", action="store_true", help="flood throughput instead of a search")
    what.add_argument("--max-rate", action="store_true", help="any latency: stability alone counts")
    made.add_argument("--tolerance", type=float, metavar="RATIO", help=_TOLERANCE)
    made.add_argument("--seeds", type=int, default=1, metavar="N", help="runs per point (1)")
    made.add_argument("--workers", type=int, metavar="N", help="runs at a time (one per core)")
    made.add_argument("--dir", default="capacity", metavar="DIR", help="where to write (capacity)")
    return made


_POLICIES = "values to compare; given twice: every combination"
_ATTAINMENT = "share of the requests that must meet the SLO (0.99)"
_TOLERANCE = "relative width of the interval to end with (0.02)"


def _run(given: "argparse.Namespace") -> int:
    from experiments.capacity.study import run_study, study_of
    from experiments.deferred_interrupt import undisguised_interrupts
    from experiments.hydra_errors import explain
    from sim.errors import FlocksimError

    try:
        with undisguised_interrupts():
            return run_study(study_of(given))
    except KeyboardInterrupt:
        print(
            f"flocksim: interrupted; the same command with --dir {shlex.quote(given.dir)} goes on",
            file=sys.stderr,
        )
        return EXIT_INTERRUPTED
    except FlocksimError as error:
        return complain(str(error))
    except Exception as error:
        line = explain(error, given.overrides)
        if line is not None:
            line = line.replace(
                "add -m for a sweep over several values", "use --policies or --seeds"
            )
        if line is None and isinstance(error, OSError):
            line = f"{error.filename or 'output'}: {error.strerror or error}"
        if line is None:
            raise
        return complain(line)


if __name__ == "__main__":
    main()
