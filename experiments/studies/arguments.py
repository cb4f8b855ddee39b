"""The command line of `flocksim-study`."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from experiments.one_line_parser import OneLineParser
from experiments.studies.base import SIZES
from sim.errors import ConfigError

NAME = "flocksim-study"

HELP = """\
Published measurements and claims, each beside what the simulator gives for it. A study runs its
jobs on all cores, prints claim, simulated value and verdict, and writes findings.csv, findings.md,
a figure and the directory of every job to --dir. What lies there already is not simulated again.
"""

EXAMPLES = """\
examples:
  flocksim-study --list
  flocksim-study validate_vllm_a100
  flocksim-study validate_vllm_a100 size=full --dir studies/a100
  flocksim-study validate_ada_cascade engine.async_scheduling=false
  flocksim-study validate_vllm_a100 hardware=from_file hardware.path=my_a100.json
  flocksim experiment=validate_vllm_a100 experiment.size=full     (the same, from flocksim)

KEY=VALUE is passed to every job, as for flocksim; a key that the study itself sets is refused. A
claim that fails is a finding, not an error: the exit code is 0.
Exit codes: 0 done, 1 a defect of flocksim, 2 a mistake in the input, 130 interrupted.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a command line asks for.

    Attributes:
        study: name of the study; None lists them.
        size: one of SIZES.
        directory: where to write.
        workers: jobs at a time; None: one per core.
        overrides: for every job.
    """

    study: str | None
    size: str
    directory: Path
    workers: int | None
    overrides: tuple[str, ...]


def parser() -> OneLineParser:
    """The command line."""
    made = OneLineParser(
        prog=NAME,
        description=HELP,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    made.add_argument("study", nargs="?", metavar="NAME", help="the study; --list shows all")
    made.add_argument(
        "overrides", nargs="*", metavar="KEY=VALUE", help="size=quick (default) or full; overrides"
    )
    made.add_argument("--list", action="store_true", help="names, questions and sizes")
    made.add_argument("--dir", metavar="DIR", help="where to write (studies/NAME)")
    made.add_argument("--workers", type=int, metavar="N", help="jobs at a time (one per core)")
    return made


def read_arguments(arguments: Sequence[str]) -> Asked:
    """Check a command line.

    Raises:
        ConfigError: names the argument and what is allowed.
        SystemExit: after --help.
    """
    given = parser().parse_intermixed_args(list(arguments))
    if given.list:
        unread = [*filter(None, [given.study, given.dir]), *given.overrides]
        if unread or given.workers is not None:
            raise ConfigError("--list stands alone")
        return Asked(study=None, size=SIZES[0], directory=Path(), workers=None, overrides=())
    if given.study is None:
        raise ConfigError(f"no study named; {NAME} --list shows all")
    if "=" in given.study:
        raise ConfigError(
            f"{given.study}: the name of a study comes first; {NAME} --list shows all"
        )
    sizes = [item.partition("=")[2] for item in given.overrides if item.startswith("size=")]
    if len(sizes) > 1:
        raise ConfigError(f"size={sizes[-1]}: the size is given twice")
    return Asked(
        study=given.study,
        size=size_named(sizes[0]) if sizes else SIZES[0],
        directory=Path(given.dir or Path("studies") / given.study),
        workers=given.workers,
        overrides=tuple(item for item in given.overrides if not item.startswith("size=")),
    )


def size_named(size: object, key: str = "size") -> str:
    """A size.

    Raises:
        ConfigError: there is none of that name.
    """
    if size not in SIZES:
        raise ConfigError(f"{key}={size}: must be one of {', '.join(SIZES)}")
    return str(size)
