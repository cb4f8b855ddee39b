"""The command line of `flocksim-calibrate against`, and the job that it describes."""

import argparse
import datetime
import re
from dataclasses import dataclass
from pathlib import Path

from experiments.calibrate.against.read_run import FORMATS
from experiments.one_line_parser import OneLineParser
from experiments.schema.job import JobConfig, read_job
from experiments.sweep.spelling import as_value
from hwmodels.strict_json import looks_like_path
from sim.errors import ConfigError

NAME = "flocksim-calibrate against"

HELP = """\
Replay a measured run of a real server in the simulator, at the recorded times: latencies and
throughput, measured beside simulated. Then fit what cannot be profiled (host time per step and per
request, time before the engine) to half of the requests, and write it as an overlay profile with
its error on the other half. RUN is a result of vLLM's serving benchmark (--save-detailed), a report
of GuideLLM, records of AIPerf, or a CSV file (docs/against.md).
"""

EXAMPLES = """\
examples:
  vllm bench serve --model meta-llama/Llama-3.1-8B --dataset-name random --request-rate 4 \\
      --num-prompts 500 --save-result --save-detailed --result-filename run.json
  flocksim-calibrate against run.json --model llama3_1_8b --hardware a100_sxm_80gb
  flocksim-calibrate against run.json --model llama3_70b --hardware h100_sxm --tensor-parallel 4 \\
      --instances 2 routing=least_requests engine.max_num_seqs=256 --out mine
  flocksim hardware=from_file hardware.path=mine/overlay.json model=llama3_70b

KEY=VALUE are those of flocksim (flocksim --help lists them): describe the server as it ran.
"""

WITHOUT_EFFECT = ("trace", "slo", "output", "replications", "hydra")
"""Sections of the configuration that decide nothing here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What was asked for.

    Attributes:
        path: the measured run.
        format: kind of file; None tells it from the content.
        run: which of several runs in the file; None if there is one.
        overrides: of the configuration, those of the options included.
        directory: where to write.
        is_fitting: whether constants are fitted.
        date: to state in the overlay, ISO 8601.
        is_json: whether to print JSON.
    """

    path: str
    format: str | None
    run: int | None
    overrides: tuple[str, ...]
    directory: Path
    is_fitting: bool
    date: str
    is_json: bool


def parser() -> OneLineParser:
    """The command line."""
    made = OneLineParser(
        prog=NAME,
        description=HELP,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    made.help_of = NAME
    made.add_argument("path", metavar="RUN", help="the measured run")
    made.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="as for flocksim")
    made.add_argument("--model", required=True, metavar="NAME", help="name or path of config.json")
    made.add_argument("--hardware", required=True, metavar="NAME", help="name or path of .json")
    made.add_argument("--tensor-parallel", type=int, metavar="N", help="GPUs per instance (1)")
    made.add_argument("--instances", type=int, metavar="N", help="replicas served (1)")
    made.add_argument("--format", choices=FORMATS, help="kind of file (told from its content)")
    made.add_argument("--run", type=int, metavar="N", help="which of several runs in it, from 1")
    made.add_argument("--out", default="against", metavar="DIR", help="where to write (against)")
    made.add_argument("--no-fit", action="store_true", help="compare only")
    made.add_argument("--date", type=_date, metavar="YYYY-MM-DD", help="date to state (today)")
    made.add_argument("--json", action="store_true", help="print JSON instead of tables")
    return made


def question_of(given: argparse.Namespace, today: str) -> Question:
    """Check a command line.

    Args:
        given: the parsed arguments.
        today: date to state by default, ISO 8601.

    Raises:
        ConfigError: an option or override has no effect here.
    """
    if given.no_fit and given.date is not None:
        raise ConfigError(f"--date {given.date} has no effect with --no-fit, which writes none")
    if given.run is not None and given.run < 1:
        raise ConfigError(f"--run {given.run}: must be an integer from 1")
    for item in given.overrides:
        _check_override(item)
    chosen = [
        *_choice("model", "hf", given.model),
        *_choice("hardware", "from_file", given.hardware),
        *_size("cluster.tensor_parallel", "--tensor-parallel", given.tensor_parallel, given),
        *_size("cluster.num_instances", "--instances", given.instances, given),
    ]
    return Question(
        path=given.path,
        format=given.format,
        run=given.run,
        overrides=(*chosen, *given.overrides),
        directory=Path(given.out),
        is_fitting=not given.no_fit,
        date=given.date or today,
        is_json=given.json,
    )


def job_of(question: Question) -> JobConfig:
    """The configuration of the replay.

    Raises:
        ConfigError: a key or value is not allowed.
    """
    from experiments import api

    try:
        return read_job(api.compose(*question.overrides))
    except ConfigError as error:
        raise ConfigError(str(error).replace(_SWEEP, "one value at a time")) from error


_SWEEP = "use sweep() over several values"


def _check_override(item: str) -> None:
    """Refuse what is none, and what would decide nothing or what an option decides."""
    if "=" not in item and not item.startswith("~"):
        raise ConfigError(f"{item}: is no override KEY=VALUE; one RUN is read at a time")
    key = item.lstrip("+~").partition("=")[0]
    if re.split(r"[@./]", key)[0] in WITHOUT_EFFECT:
        raise ConfigError(f"{item}: has no effect, the measured run is replayed as it is")
    if key in ("model", "hardware"):
        raise ConfigError(f"{item}: say --{key} instead, which takes names and paths")


def _size(key: str, option: str, value: int | None, given: argparse.Namespace) -> list[str]:
    """The override of a size of the cluster: 1, unless the option or an override says more."""
    override = next((item for item in given.overrides if item.startswith(f"{key}=")), None)
    if override is None:
        return [f"{key}={1 if value is None else value}"]
    if value is not None:
        raise ConfigError(f"{override}: cannot be given together with {option} {value}")
    return []


def _choice(group: str, of_file: str, value: str) -> list[str]:
    """The option of a group that a name or a path means."""
    if looks_like_path(value):
        return [f"{group}={of_file}", f"{group}.path={as_value(value)}"]
    return [f"{group}={value}"]


def _date(text: str) -> str:
    try:
        return datetime.date.fromisoformat(text).isoformat()
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} must be a date YYYY-MM-DD") from None
