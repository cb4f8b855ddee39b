"""The command line of `flocksim-calibrate`."""

import argparse
import datetime
from typing import NoReturn

from sim.errors import ConfigError

NAME = "flocksim-calibrate"

HELP = """\
Fit the kernel models of a device to measured times, and compare a profile with measurements.

fit       robust least squares on log errors, per kernel; whole shapes are held out to measure the
          error; a constant with a standard error over 30 % is kept at its prior. What no table
          covers is transferred from another device and marked as extrapolated.
validate  predicted against measured per kernel: errors, the worst shapes, figures.
"""

EXAMPLES = """\
examples:
  flocksim-calibrate fit --data measurements --device a100_sxm_80gb --out a100.json
  flocksim-calibrate validate --profile a100_sxm_80gb --data measurements --figures out
  flocksim-calibrate validate --profile a100.json --data measurements --json

The folder of measurements has the layout that docs/calibrate.md describes. A fit repeats byte for
byte for the same tables and --date. Exit codes: 0 done, 2 a mistake in the input, 130 interrupted.
"""


class Parser(argparse.ArgumentParser):
    """Hands mistakes to the caller, who prints one line."""

    def error(self, message: str) -> NoReturn:
        """Raise the mistake as one line."""
        raise ConfigError(f"{message}; see {NAME} --help")


def parser() -> Parser:
    """The command line."""
    made = Parser(
        prog=NAME,
        description=HELP,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    commands = made.add_subparsers(dest="command", required=True, metavar="fit | validate")
    fit = commands.add_parser("fit", allow_abbrev=False, help="fit a device's kernels")
    fit.add_argument("--device", required=True, metavar="NAME", help="device profile")
    fit.add_argument("--out", metavar="FILE", help="JSON to write (NAME.json)")
    fit.add_argument("--date", type=_date, metavar="YYYY-MM-DD", help="date to state (today)")
    validate = commands.add_parser("validate", allow_abbrev=False, help="check a profile")
    validate.add_argument("--profile", required=True, metavar="NAME", help="name or .json path")
    validate.add_argument("--figures", metavar="DIR", help="write figures, CSV and JSON there")
    validate.add_argument("--json", action="store_true", help="print JSON instead of a table")
    for command in (fit, validate):
        command.add_argument("--data", required=True, metavar="DIR", help="folder of measurements")
    return made


def _date(text: str) -> str:
    try:
        return datetime.date.fromisoformat(text).isoformat()
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} must be a date YYYY-MM-DD") from None
