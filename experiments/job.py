"""One job: load, simulate, write."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.deferred_interrupt import deferred_interrupt
from experiments.deployment import Deployment, build_deployment
from experiments.policy_errors import blaming
from experiments.progress import Progress, progress_bar
from experiments.results.atomic import make_writable, remove_files, write_text
from experiments.results.directory_lock import locked
from experiments.results.documents import result_document, run_document, shown_config
from experiments.results.json_text import json_text
from experiments.results.tables import write_requests, write_steps
from experiments.results.timeline import write_timeline
from experiments.schema.job import JobConfig, read_job
from sim.records import SimulationResult
from sim.simulation import simulate
from sim.workload import Workload
from traces.build import build_workload

ShowProgress = Callable[[int, str], AbstractContextManager[Progress | None]]

DOCUMENTS = ("result.json", "run.json")
"""Removed before anything is written, written last: they never lie beside another job's files."""

OPTIONAL_FILES = ("steps.parquet", "timeline.json.gz")
"""Written on request; those of an earlier job in the same directory would mislead."""

ALL_FILES = (*DOCUMENTS, "requests.parquet", *OPTIONAL_FILES)
"""Everything that a job may write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRun:
    """A job that was simulated.

    Attributes:
        job: its configuration.
        deployment: what served.
        result: the records.
        document: content of result.json.
        wall_s: seconds of each phase.
    """

    job: JobConfig
    deployment: Deployment
    result: SimulationResult
    document: dict[str, Any]
    wall_s: dict[str, float]

    @property
    def metrics(self) -> Mapping[str, float | int | None]:
        """The metrics of result.json."""
        metrics: Mapping[str, float | int | None] = self.document["metrics"]
        return metrics

    @property
    def choices(self) -> Mapping[str, str]:
        """Chosen option of each config group."""
        choices: Mapping[str, str] = self.document["config"]["choices"]
        return choices


def load_workload(job: JobConfig) -> Workload:
    """Read or generate the trace of a job.

    Raises:
        TraceFormatError: the file breaks its format.
        ConfigError: an option is out of range, or nothing is left.
    """
    options = job.trace_options
    return build_workload(
        job.trace.build(),
        seed=job.seed,
        limit=options.limit,
        window_s=options.window_s,
        rate_scale=options.rate_scale,
    )


def simulate_job(
    config: Mapping[str, Any],
    choices: Mapping[str, str],
    show_progress: ShowProgress = progress_bar,
    announce: Callable[[Deployment], None] | None = None,
    on_simulated: Callable[[], object] | None = None,
) -> JobRun:
    """Simulate a composed configuration. Writes nothing.

    Args:
        config: the configuration in plain containers.
        choices: chosen option of each config group.
        show_progress: makes the progress callback from the number of requests and a label.
        announce: told of the deployment before anything is loaded.
        on_simulated: called when the simulation has ended, before its records are summarized.

    Raises:
        FlocksimError: the job cannot run; one line says why.
    """
    started_s = time.perf_counter()
    job = read_job(config)
    with blaming(job.plugins):
        deployment = build_deployment(job)
    if announce is not None:
        announce(deployment)
    with blaming(job.plugins):
        workload = load_workload(job)
    loaded_s = time.perf_counter()
    label = choices.get("routing", job.routing.target)
    with blaming(job.plugins), show_progress(workload.num_requests, label) as progress:
        result = simulate(workload, deployment.spec, progress=progress)
        if on_simulated is not None:
            on_simulated()
    simulated_s = time.perf_counter()
    shown = shown_config(config, choices, deployment)
    document = result_document(result, deployment, job, shown)
    wall_s = {
        "load": loaded_s - started_s,
        "simulate": simulated_s - loaded_s,
        "summarize": time.perf_counter() - simulated_s,
    }
    return JobRun(job=job, deployment=deployment, result=result, document=document, wall_s=wall_s)


def run_job(
    config: Mapping[str, Any],
    choices: Mapping[str, str],
    overrides: Sequence[str],
    directory: Path,
    announce: Callable[[Deployment], None] | None = None,
) -> JobRun:
    """Simulate a composed configuration and write its files to `directory`.

    result.json comes last: where it is, the other files are complete. Ctrl-C after the simulation
    takes effect when they are.

    Raises:
        FlocksimError: the job cannot run or its files cannot be written.
        KeyboardInterrupt: Ctrl-C came while loading, summarizing or writing.
    """
    make_writable(directory, ALL_FILES)
    with locked(directory), ExitStack() as until_written:

        def defer_interrupt() -> None:
            until_written.enter_context(deferred_interrupt())

        run = simulate_job(config, choices, announce=announce, on_simulated=defer_interrupt)
        _write(run, overrides, directory)
    return run


def _write(run: JobRun, overrides: Sequence[str], directory: Path) -> None:
    started_s = time.perf_counter()
    remove_files(directory, (*DOCUMENTS, *OPTIONAL_FILES))
    write_requests(directory / "requests.parquet", run.result)
    if run.job.output.steps:
        write_steps(directory / "steps.parquet", run.result)
    if run.job.output.timeline:
        write_timeline(directory / "timeline.json.gz", run.result)
    run.wall_s["write"] = time.perf_counter() - started_s
    write_text(directory / "run.json", json_text(run_document(overrides, run.wall_s)))
    write_text(directory / "result.json", json_text(run.document))
