"""A capacity study: checks what was asked for, runs it, prints and writes the answer."""

import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.capacity.criterion import Criterion
from experiments.capacity.floods import FloodAnswer, measure_floods
from experiments.capacity.points import Bench, Policy
from experiments.capacity.rates import RateSearch, search_rates
from experiments.capacity.recording import refuse_seeds_of_a_recording
from experiments.capacity.report import flood_document, flood_table, rate_document, rate_table
from experiments.cli import EXIT_MISTAKE, EXIT_OK, complain
from experiments.composing import compose_config
from experiments.results.atomic import make_writable, write_text
from experiments.results.json_text import json_text
from experiments.schema.checks import number, whole
from experiments.schema.job import JobConfig, read_job
from experiments.summary import make_console
from experiments.sweep.pool import Pool, num_workers
from sim.errors import ConfigError

if TYPE_CHECKING:
    import argparse

FILE_NAME = "capacity.json"

DEFAULT_ATTAINMENT = 0.99
DEFAULT_TOLERANCE = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """What was asked for.

    Attributes:
        overrides: what all jobs have in common, the SLO included.
        policies: to be compared.
        is_flood: flood throughput, no search.
        criterion: what must hold at a rate.
        tolerance: relative width of the interval to end with.
        num_seeds: jobs per point.
        workers: jobs at a time.
        directory: where to write.
        seed: the first seed.
        start: the first factor of the rate.
        slo: what a good request must not exceed, seconds.
    """

    overrides: tuple[str, ...]
    policies: tuple[Policy, ...]
    is_flood: bool
    criterion: Criterion
    tolerance: float
    num_seeds: int
    workers: int
    directory: Path
    seed: int
    start: float
    slo: dict[str, float]


def study_of(given: "argparse.Namespace") -> Study:
    """Check a command line.

    Raises:
        ConfigError: names the option, the value and what is allowed.
    """
    _refuse_unread(given)
    overrides = list(given.overrides)
    for item in overrides:
        if item.startswith("hydra"):
            raise ConfigError(f"{item}: flocksim-capacity has --dir and --workers instead")
    for option, key in (("slo_ttft", "slo.ttft_s"), ("slo_tpot", "slo.tpot_s")):
        value = getattr(given, option)
        if value is not None:
            number(above=0)(f"--{option.replace('_', '-')}", value)
            overrides.append(f"{key}={value!r}")
    policies = policies_of(given.policies)
    job = _first_job(overrides, policies)
    for name, value in (("load", job.load), ("flood", job.flood)):
        if value:
            raise ConfigError(f"trace.{name}={value}: leave it out, the search sets the rate")
    attainment = given.attainment if given.attainment is not None else DEFAULT_ATTAINMENT
    number(above=0, high=1)("--attainment", attainment)
    tolerance = given.tolerance if given.tolerance is not None else DEFAULT_TOLERANCE
    study = Study(
        overrides=tuple(overrides),
        policies=policies,
        is_flood=given.flood,
        criterion=Criterion(attainment=None if given.max_rate else attainment),
        tolerance=number(low=1e-4, high=1)("--tolerance", tolerance),
        num_seeds=whole(1, 10_000)("--seeds", given.seeds),
        workers=num_workers(given.workers, "--workers"),
        directory=Path(given.dir),
        seed=job.seed,
        start=job.trace_options.rate_scale,
        slo={"ttft_s": job.slo.ttft_s, "tpot_s": job.slo.tpot_s},
    )
    refuse_seeds_of_a_recording(job, study.num_seeds)
    return study


def _first_job(overrides: Sequence[str], policies: Sequence[Policy]) -> JobConfig:
    """The job of the first policy that can run; names that do not exist end the command here.

    Raises:
        ConfigError: no policy can run.
    """
    configs = [compose_config([*overrides, *policy.overrides])[0] for policy in policies]
    errors: list[ConfigError] = []
    for config in configs:
        try:
            return read_job(config)
        except ConfigError as error:
            errors.append(error)
    raise errors[0]


def policies_of(given: Sequence[str]) -> tuple[Policy, ...]:
    """Every combination of values, for example of ``["routing=jsq,random"]``.

    Raises:
        ConfigError: an item is no key with values.
    """
    axes: list[list[str]] = []
    for item in given:
        key, _, values = item.partition("=")
        names = [value.strip() for value in values.split(",")]
        if not key or not all(names):
            raise ConfigError(f"--policies {item}: must be like routing=jsq,random")
        axes.append([f"{key}={name}" for name in dict.fromkeys(names)])
    return tuple(Policy(combination) for combination in itertools.product(*axes))


def run_study(study: Study) -> int:
    """Run a study, print its table and write capacity.json; returns the exit code.

    Raises:
        KeyboardInterrupt: Ctrl-C came; what is complete stays.
        OutputError: the directory cannot be written to.
    """
    make_writable(study.directory, [FILE_NAME])
    with Pool(study.workers, is_silent=True) as pool, _telling() as tell:
        bench = Bench(study.overrides, study.directory, study.num_seeds, pool)
        bench.start_at_seed(study.seed)
        if study.is_flood:
            tell(f"flood: {len(study.policies)} policies")
            floods = measure_floods(bench, study.policies)
            faults = [(one.policy, one.fault) for one in floods if one.fault]
            table, document = flood_table(floods), flood_document(_settings(study), floods)
        else:
            searches = search_rates(
                bench, study.policies, study.criterion, study.start, study.tolerance, tell
            )
            faults = [(one.policy, one.fault) for one in searches if one.fault]
            table = rate_table(searches, study.criterion)
            document = rate_document(_settings(study), searches)
    write_text(study.directory / FILE_NAME, json_text(document))
    _print_line(_title(study))
    make_console().print(table)
    if study.is_flood:
        _print_flood_notes(floods)
    else:
        _print_notes(searches, study.criterion)
    _print_line(f"results: {study.directory} ({FILE_NAME} has every point)")
    for policy, fault in faults:
        complain(f"{policy.name}: {fault}")
    return EXIT_MISTAKE if faults else EXIT_OK


def _settings(study: Study) -> dict[str, Any]:
    common: dict[str, Any] = {
        "kind": "flood" if study.is_flood else "rate",
        "overrides": list(study.overrides),
        "seeds": [study.seed + k for k in range(study.num_seeds)],
    }
    if study.is_flood:
        return common
    slo = study.slo if study.criterion.attainment is not None else None
    return {
        **common,
        "slo": slo,
        "attainment_ratio": study.criterion.attainment,
        "tolerance_ratio": study.tolerance,
    }


def _title(study: Study) -> str:
    seeds = f"; {study.num_seeds} seeds" if study.num_seeds > 1 else ""
    if study.is_flood:
        return f"flood throughput: all requests at time 0{seeds}"
    share = study.criterion.attainment
    if share is None:
        return f"highest rate at which the cluster is stable, to {study.tolerance:g}{seeds}"
    slo = f"TTFT <= {study.slo['ttft_s']:g} s and TPOT <= {study.slo['tpot_s']:g} s"
    return f"highest stable rate at which {share:.4g} of the requests meet {slo}{seeds}"


def _print_flood_notes(floods: Sequence[FloodAnswer]) -> None:
    names = [one.policy.name for one in floods if any(one.does_drain_dominate)]
    if names:
        _print_line(
            f"note: {', '.join(names)}: drain dominates, too few requests finish while others "
            "wait; the rate is finished requests / makespan, a longer trace gives a higher one"
        )


def _print_notes(searches: Sequence[RateSearch], criterion: Criterion) -> None:
    for one in searches:
        if one.fault:
            continue
        if one.search.high is None:
            _print_line(f"note: {one.policy.name}: the trace is too short to find the limit")
        elif one.search.low is None:
            lowest = one.point_at(one.search.high)
            share = criterion.percent(lowest["slo_attainment_ratio"]) if lowest else "-"
            _print_line(
                f"note: {one.policy.name}: no rate is sustained; at the lowest one {share} of the "
                "requests met the SLO"
            )


def _refuse_unread(given: "argparse.Namespace") -> None:
    """An option that would decide nothing beside another one."""
    unread = ["--slo-ttft", "--slo-tpot", "--attainment"]
    if given.flood:
        unread.append("--tolerance")
    elif not given.max_rate:
        return
    for option in unread:
        if getattr(given, option.removeprefix("--").replace("-", "_")) is not None:
            kind = "--flood" if given.flood else "--max-rate"
            raise ConfigError(f"{option} has no effect with {kind}: leave one of them out")


def _print_line(line: str) -> None:
    print(line, flush=True)


@contextmanager
def _telling() -> Iterator[Callable[[str], object]]:
    """Shows what goes on in a line on standard error; silent where that is no terminal."""
    if not sys.stderr.isatty():
        yield lambda _line: None
        return
    from rich.console import Console

    with Console(stderr=True).status("") as status:
        yield lambda line: status.update(line)
