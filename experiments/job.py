"""One job: load, simulate, write."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from experiments.capacity.offered_load import OfferedLoad, offered_load
from experiments.deferred_interrupt import deferred_interrupt
from experiments.deployment import Deployment, build_deployment
from experiments.policy_errors import blaming
from experiments.progress import Progress, progress_bar
from experiments.results.atomic import make_writable, remove_files, remove_leftovers, write_text
from experiments.results.directory_lock import locked
from experiments.results.documents import Identity, result_document, run_document, shown_config
from experiments.results.job_key import job_key
from experiments.results.json_text import json_text
from experiments.results.replications import Replication, pooled_gaps, replication_of
from experiments.results.tables import (
    write_decisions,
    write_distributions,
    write_requests,
    write_steps,
)
from experiments.results.timeline import write_timeline
from experiments.results.warmup import refuse_endless_warmup
from experiments.schema.job import JobConfig, read_job
from experiments.sweep.replication import load_workload, replicated
from sim.records import SimulationResult
from sim.simulation import simulate

__all__ = ["ALL_FILES", "JobRun", "load_workload", "run_job", "simulate_job"]

ShowProgress = Callable[[int, str], AbstractContextManager[Progress | None]]

DOCUMENTS = ("result.json", "run.json")
"""Removed before anything is written, written last: they never lie beside another job's files."""

OPTIONAL_FILES = ("steps.parquet", "timeline.json.gz", "decisions.parquet")
"""Written on request; those of an earlier job in the same directory would mislead."""

ALL_FILES = (*DOCUMENTS, "requests.parquet", "distributions.parquet", *OPTIONAL_FILES)
"""Everything that a job may write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRun:
    """A job that was simulated.

    Attributes:
        job: its configuration.
        deployment: what served.
        result: the records of the first replication.
        replications: figures and tables of every replication.
        document: content of result.json.
        wall_s: seconds of each phase.
    """

    job: JobConfig
    deployment: Deployment
    result: SimulationResult
    replications: Sequence[Replication]
    document: dict[str, Any]
    wall_s: dict[str, float]

    @property
    def metrics(self) -> Mapping[str, float | int | None]:
        """The metrics of result.json."""
        metrics: Mapping[str, float | int | None] = self.document["metrics"]
        return metrics

    @property
    def is_interrupted(self) -> bool:
        """Whether the user stopped it."""
        return any(one.is_interrupted for one in self.replications)

    @property
    def choices(self) -> Mapping[str, str]:
        """Chosen option of each config group."""
        choices: Mapping[str, str] = self.document["config"]["choices"]
        return choices


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
        announce: told of the deployment when the trace is loaded and nothing is wrong with it.
        on_simulated: called when the simulation has ended, before its records are summarized.

    Raises:
        FlocksimError: the job cannot run; one line says why.
    """
    watch = _Watch()
    job = read_job(config)
    with blaming(job.plugins):
        deployment = build_deployment(job)
    shown = shown_config(config, choices, deployment)
    key = job_key(job, deployment, shown)  # before the trace is read, as a sweep that resumes does
    load: OfferedLoad | None = None
    if job.load is not None:
        with blaming(job.plugins):
            load = offered_load(job, config, show_progress)
        options = replace(job.trace_options, rate_scale=load.rate_scale)
        job = replace(job, trace_options=options)
    watch.note("load")
    replications: list[Replication] = []
    first: SimulationResult | None = None
    for number in range(job.replications):
        this = replicated(job, number)
        with blaming(job.plugins):
            serving = deployment if number == 0 else build_deployment(this)
            workload = load_workload(this, number)
        refuse_endless_warmup(workload, job.warmup_s, job.warmup_requests)
        if number == 0 and announce is not None:
            announce(deployment)
        watch.note("load")
        label = _label(choices.get("routing", job.routing.target), number, job.replications)
        with blaming(job.plugins), show_progress(workload.num_requests, label) as progress:
            result = simulate(workload, serving.spec, progress=progress)
            is_last = result.is_interrupted or number == job.replications - 1
            if on_simulated is not None and is_last:
                on_simulated()
        watch.note("simulate")
        replications.append(replication_of(number, this, serving, result))
        first = first or result
        watch.note("summarize")
        if is_last:
            break
    assert first is not None
    provenance = {**first.workload.provenance, "num_requests": first.workload.num_requests}
    identity = Identity(
        job=job,
        shown=shown,
        job_key=key or job_key(job, deployment, shown, provenance) or "",
        trace=provenance,
        offered_load=None if load is None else asdict(load),
    )
    document = result_document(identity, deployment, replications)
    watch.note("summarize")
    return JobRun(
        job=job,
        deployment=deployment,
        result=first,
        replications=replications,
        document=document,
        wall_s=watch.wall_s,
    )


def _label(policy: str, number: int, replications: int) -> str:
    return policy if replications == 1 else f"{policy}, replication {number + 1} of {replications}"


@dataclass(slots=True)
class _Watch:
    """Wall time per phase, seconds; a phase may come more than once."""

    wall_s: dict[str, float] = field(default_factory=dict)
    _last_s: float = field(default_factory=time.perf_counter)

    def note(self, phase: str) -> None:
        """Add the time since the last note to a phase."""
        now_s = time.perf_counter()
        self.wall_s[phase] = self.wall_s.get(phase, 0.0) + now_s - self._last_s
        self._last_s = now_s


def run_job(
    config: Mapping[str, Any],
    choices: Mapping[str, str],
    overrides: Sequence[str],
    directory: Path,
    announce: Callable[[Deployment], None] | None = None,
    show_progress: ShowProgress | None = None,
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
        remove_leftovers(directory, ALL_FILES)

        def defer_interrupt() -> None:
            until_written.enter_context(deferred_interrupt())

        more: dict[str, Any] = {} if show_progress is None else {"show_progress": show_progress}
        run = simulate_job(config, choices, announce=announce, on_simulated=defer_interrupt, **more)
        _write(run, overrides, directory)
    return run


def _write(run: JobRun, overrides: Sequence[str], directory: Path) -> None:
    started_s = time.perf_counter()
    remove_files(directory, (*DOCUMENTS, "distributions.parquet", *OPTIONAL_FILES))
    runs = run.replications
    write_requests(directory / "requests.parquet", [one.requests for one in runs])
    write_distributions(directory / "distributions.parquet", *pooled_gaps(runs))
    if run.job.output.steps:
        write_steps(directory / "steps.parquet", [one.steps for one in runs])
    if run.job.output.decisions:
        write_decisions(directory / "decisions.parquet", [one.decisions for one in runs])
    if run.job.output.timeline:
        write_timeline(directory / "timeline.json.gz", run.result)
    run.wall_s["write"] = time.perf_counter() - started_s
    write_text(directory / "run.json", json_text(run_document(overrides, run.wall_s)))
    write_text(directory / "result.json", json_text(run.document))
