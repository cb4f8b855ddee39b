"""The command line of `flocksim-calibrate`."""

import argparse
import datetime

from experiments.one_line_parser import OneLineParser

NAME = "flocksim-calibrate"

HELP = """\
Fit the kernel models of a device to measured times, compare a profile with measurements, and guess
the kernels of a device that nobody measured.

measure   microbenchmarks of this GPU, or of a synthetic one with known constants, within a budget
          of seconds; a file of rows that a second run continues.
fit       robust least squares on log errors, per kernel; whole shapes are held out to measure the
          error; a constant with a standard error over 30 % is kept at its prior. What no table
          covers is transferred from another device and marked as extrapolated.
validate  predicted against measured per kernel: errors, the worst shapes, figures.
compare   two profiles: their constants, kernel times on a reference grid, a reference step.
transfer  kernels of another device, scaled by the ratios of the datasheets and marked as
          extrapolated: their error is unknown.
table     the measured points themselves, which stand in for the fitted form where they are; their
          error is measured on shapes that they do not hold.
against   a measured run of a real server beside its replay; the host's time per step and per
          request fitted to it, no GPU needed (flocksim-calibrate against --help).
"""

EXAMPLES = """\
examples:
  flocksim-calibrate fit --data measurements --device a100_sxm_80gb --out a100.json
  flocksim-calibrate validate --profile a100_sxm_80gb --data measurements --figures out
  flocksim-calibrate validate --profile a100.json --data measurements --json
  flocksim-calibrate measure --device cuda --budget-s 300 --out rows.jsonl
  flocksim-calibrate fit --data rows.jsonl --device my_gpu --out gpus/my_gpu.json
  flocksim-calibrate validate --profile gpus/my_gpu.json --data rows.jsonl --figures out
  flocksim-calibrate compare a100_sxm_80gb gpus/my_gpu.json --figure compare.png
  flocksim-calibrate transfer --from a100_sxm_80gb --to gpus/mine.json
  flocksim-calibrate table --data measurements --device a100_sxm_80gb --out a100.table.json
  flocksim-calibrate against run.json --model llama3_1_8b --hardware a100_sxm_80gb

The folder of measurements has the layout that docs/calibrate.md describes. A fit repeats byte for
byte for the same tables and --date. Exit codes: 0 done, 2 a mistake in the input, 130 interrupted.
"""


def parser() -> OneLineParser:
    """The command line."""
    made = OneLineParser(
        prog=NAME,
        description=HELP,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    commands = made.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_measure(commands)
    _add_compare(commands)
    fit = commands.add_parser("fit", allow_abbrev=False, help="fit a device's kernels")
    device_help = "device profile; with rows also a .json path, or a new name"
    fit.add_argument("--device", required=True, metavar="NAME", help=device_help)
    out_help = "JSON to write (NAME.json); with rows a device profile, kernels/ beside it"
    fit.add_argument("--out", metavar="FILE", help=out_help)
    date_help = "date to state (today; with rows the day of the first)"
    fit.add_argument("--date", type=_date, metavar="YYYY-MM-DD", help=date_help)
    validate = commands.add_parser("validate", allow_abbrev=False, help="check a profile")
    validate.add_argument("--profile", required=True, metavar="NAME", help="name or .json path")
    validate.add_argument("--figures", metavar="DIR", help="write figures, CSV and JSON there")
    validate.add_argument("--json", action="store_true", help="print JSON instead of a table")
    transfer = commands.add_parser("transfer", allow_abbrev=False, help="guess a device's kernels")
    source_help = "device profile that was measured"
    transfer.add_argument("--from", required=True, dest="source", metavar="NAME", help=source_help)
    target_help = "device profile that was not: name or .json path"
    transfer.add_argument("--to", required=True, dest="target", metavar="NAME", help=target_help)
    out_help = "JSON to write (NAME.json, or kernels/MINE.json beside a path)"
    transfer.add_argument("--out", metavar="FILE", help=out_help)
    transfer.add_argument("--date", type=_date, metavar="YYYY-MM-DD", help="date to state (today)")
    table = commands.add_parser("table", allow_abbrev=False, help="write a device's points")
    device_help = "device profile with kernels: name or .json path"
    table.add_argument("--device", required=True, metavar="NAME", help=device_help)
    table.add_argument("--out", metavar="FILE", help="JSON to write (NAME.table.json)")
    table.add_argument("--date", type=_date, metavar="YYYY-MM-DD", help="date to state (today)")
    # Its own parser reads what follows: overrides may stand anywhere among its options.
    commands.add_parser("against", add_help=False, help="a measured run against its replay")
    for command in (fit, validate, table):
        data_help = "folder of measurements, or rows of measure (.jsonl)"
        command.add_argument("--data", required=True, metavar="PATH", help=data_help)
    return made


def _add_measure(commands: "argparse._SubParsersAction[OneLineParser]") -> None:
    measure = commands.add_parser("measure", allow_abbrev=False, help="measure a GPU")
    measure.add_argument("--device", required=True, choices=("cuda", "synthetic"), help="which")
    measure.add_argument("--out", required=True, metavar="FILE", help="rows, .jsonl")
    measure.add_argument(
        "--budget-s", type=_seconds, default=300.0, metavar="N", help="seconds in all (300)"
    )
    plan_help = "auto, a100, hopper or generic (auto)"
    measure.add_argument("--plan", default="auto", metavar="NAME", help=plan_help)
    seed_help = "of the order of cases, and of synthetic noise (0)"
    measure.add_argument("--seed", type=_whole, default=0, metavar="N", help=seed_help)
    profile_help = "constants of a synthetic device: name or .json path (a100_sxm_80gb)"
    measure.add_argument("--profile", metavar="NAME", help=profile_help)


def _add_compare(commands: "argparse._SubParsersAction[OneLineParser]") -> None:
    compare = commands.add_parser("compare", allow_abbrev=False, help="two profiles side by side")
    for name in ("first", "second"):
        compare.add_argument(name, metavar=name.upper(), help="profile: name or .json path")
    compare.add_argument("--csv", metavar="FILE", help="write all rows as CSV")
    compare.add_argument("--figure", metavar="FILE", help="write a picture, .png")


def _seconds(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 < number < 1e6:
        raise argparse.ArgumentTypeError(f"{text!r} must be seconds above 0")
    return number


def _whole(text: str) -> int:
    if not text.isdecimal() or len(text) > 9:
        raise argparse.ArgumentTypeError(f"{text!r} must be a whole number from 0")
    return int(text)


def _date(text: str) -> str:
    try:
        return datetime.date.fromisoformat(text).isoformat()
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} must be a date YYYY-MM-DD") from None
