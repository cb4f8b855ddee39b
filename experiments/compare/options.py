"""The command line of `flocksim-compare`."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from experiments.one_line_parser import OneLineParser
from experiments.stats.intervals import METHODS, check_level
from experiments.stats.per_request import CLASSES
from sim.errors import ConfigError

FORMATS = ("png", "svg", "pdf")

_DESCRIPTION = """\
Compare policies over the jobs of a sweep: one table per setting (rate, trace, cluster), one row per
policy, with intervals over seeds and replications and the difference to a baseline, paired where
both served the same requests. Jobs that failed are listed with their reason.
"""

_EXAMPLES = """\
examples:
  flocksim -m routing=round_robin,jsq trace.rate_scale=0.5,1 seed=0,1,2 hydra.sweep.dir=sweep
  flocksim-compare sweep
  flocksim-compare sweep --baseline round_robin --metric ttft_p99,goodput
  flocksim-compare sweep --by tenant --csv tenants.csv
  flocksim-compare sweep --figures figures --format svg,pdf --html report.html
  flocksim-compare monday tuesday --policy-keys engine.max_num_seqs
  flocksim-compare windows --unit-keys trace.window_s

A metric is a name of result.json, with or without its unit (ttft_p99_s or ttft_p99), a family
(ttft), or all. Intervals of n = 1 do not exist and are not shown. Runs that differ in
routing.tie_shift alone are placebos of their policy: what they change is noise. Exit codes: 0 done,
2 a mistake in the input, 130 interrupted.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareOptions:
    """What was asked for; see the help text."""

    directories: list[Path]
    baseline: str | None
    metrics: list[str] | None
    by: str | None
    policy_keys: list[str]
    unit_keys: list[str]
    interval: str
    level: float
    csv: Path | None
    markdown: Path | None
    html: Path | None
    figures: Path | None
    formats: tuple[str, ...]
    measured: list[Path]


def parse_options(arguments: Sequence[str]) -> CompareOptions:
    """Read the command line.

    Raises:
        ConfigError: it cannot be read.
        SystemExit: the help text was asked for and printed.
    """
    given = _parser().parse_args(arguments)
    formats = tuple(_split("png" if given.format is None else given.format))
    for name in formats or [given.format]:
        if name not in FORMATS:
            raise ConfigError(f"--format {name}: must be one of {', '.join(FORMATS)}")
    if given.measured and given.figures is None and given.html is None:
        raise ConfigError("--measured is drawn into figures: add --figures DIR or --html FILE")
    if given.format is not None and given.figures is None:
        raise ConfigError("--format is that of figures: add --figures DIR")
    check_level(given.level)
    return CompareOptions(
        directories=given.directories,
        baseline=given.baseline,
        metrics=_split(",".join(given.metric)) or None,
        by=given.by,
        policy_keys=_split(given.policy_keys),
        unit_keys=_split(given.unit_keys),
        interval=given.interval,
        level=given.level,
        csv=given.csv,
        markdown=given.markdown,
        html=given.html,
        figures=given.figures,
        formats=formats,
        measured=given.measured,
    )


def help_text() -> str:
    """What --help prints."""
    return _parser().format_help().rstrip()


def _parser() -> argparse.ArgumentParser:
    parser = OneLineParser(
        prog="flocksim-compare",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("directories", metavar="DIR", nargs="+", type=Path, help="searched for result.json")
    add("--baseline", metavar="POLICY", help="policy to compare with (default: the first)")
    add("--metric", metavar="NAMES", action="append", default=[], help="shown, comma-separated")
    add("--by", choices=CLASSES, help="break down by this column of the trace")
    add(
        "--policy-keys",
        metavar="KEYS",
        default="",
        help="config keys that make another policy, not another setting",
    )
    add(
        "--unit-keys",
        metavar="KEYS",
        default="",
        help="config keys whose values repeat one setting, as seeds do (trace.window_s)",
    )
    add("--interval", choices=METHODS, default="t", help="of means and paired differences")
    add("--level", metavar="L", type=float, default=0.95, help="of intervals (default: 0.95)")
    add("--csv", metavar="FILE", type=Path, help="write all metrics, one row each")
    add("--markdown", metavar="FILE", type=Path, help="write the tables as Markdown")
    add("--html", metavar="FILE", type=Path, help="write one page with tables and figures")
    add("--figures", metavar="DIR", type=Path, help="write every figure the runs allow")
    add("--format", metavar="NAMES", help="of figures: png, svg, pdf (default: png)")
    add(
        "--measured",
        metavar="FILE",
        type=Path,
        action="append",
        default=[],
        help="result of `vllm bench serve` to draw over the simulated points (repeatable)",
    )
    return parser


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
