"""A job among many: one that cannot run is written down and does not stop the others."""

import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from experiments.cli import EXIT_DEFECT, EXIT_INTERRUPTED, EXIT_MISTAKE, EXIT_OK
from experiments.hydra_errors import explain
from experiments.job import ALL_FILES, JobRun, ShowProgress, run_job
from experiments.policy_errors import show_cause
from experiments.progress import Progress
from experiments.quantities import duration, percent, rate
from experiments.results.atomic import make_writable, remove_files, write_text
from experiments.results.directory_lock import DirectoryBusyError, locked
from experiments.results.documents import failure_document, shown_config
from experiments.results.json_text import json_text
from sim.errors import FlocksimError


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A job to run.

    Attributes:
        number: its place in the sweep, from 0.
        config: the configuration in plain containers.
        choices: chosen option of each config group.
        overrides: its command line.
        directory: where its files go.
        fault: why the configuration cannot be resolved, None if it can.
    """

    number: int
    config: Mapping[str, Any]
    choices: Mapping[str, str]
    overrides: Sequence[str]
    directory: Path
    fault: Exception | None = None

    @property
    def name(self) -> str:
        """How it is called in messages."""
        return " ".join([f"#{self.number}", *self.overrides])


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a task.

    Attributes:
        task: the task; without its configuration, which nobody needs any more.
        status: ok, skipped (its result was there), interrupted, infeasible, failed or busy
            (somebody else writes to its directory).
        line: its figures, or why there are none.
        details: traceback of a defect, else empty.
    """

    task: Task
    status: str
    line: str
    details: str = field(default="", repr=False)

    @property
    def is_bad(self) -> bool:
        """Whether there is a reason to report."""
        return self.status in ("infeasible", "failed", "busy")

    @property
    def exit_code(self) -> int:
        """Exit code of the command if this was its only job."""
        codes = {"ok": EXIT_OK, "skipped": EXIT_OK, "interrupted": EXIT_INTERRUPTED}
        return codes.get(self.status, EXIT_DEFECT if self.status == "failed" else EXIT_MISTAKE)


def run_task(task: Task, show_progress: ShowProgress | None = None) -> Outcome:
    """Run a task and write its files, whatever happens.

    Args:
        task: the job.
        show_progress: as for `run_job`.

    Raises:
        KeyboardInterrupt: Ctrl-C came before there was anything to write.
        OutputError: not even a failure can be written to its directory.
    """
    try:
        if task.fault is not None:
            raise task.fault
        run = run_job(
            task.config,
            task.choices,
            task.overrides,
            task.directory,
            show_progress=show_progress,
        )
    except DirectoryBusyError as error:
        return outcome_of(task, "busy", str(error))
    except Exception as error:
        return _record(task, error)
    return outcome_of(task, "interrupted" if run.is_interrupted else "ok", figures_line(run))


def outcome_of(task: Task, status: str, line: str, details: str = "") -> Outcome:
    """The outcome of a task."""
    light = Task(
        number=task.number,
        config={},
        choices=task.choices,
        overrides=task.overrides,
        directory=task.directory,
    )
    return Outcome(task=light, status=status, line=line, details=details)


def record_failure(task: Task, status: str, line: str, details: str = "") -> Outcome:
    """Write result.json of a job that could not run, in place of all that lies there."""
    shown = shown_config(task.config, task.choices, None)
    make_writable(task.directory)
    with locked(task.directory):
        remove_files(task.directory, ALL_FILES)
        text = json_text(failure_document(status, line, shown))
        write_text(task.directory / "result.json", text)
    return outcome_of(task, status, line, details)


def _record(task: Task, error: Exception) -> Outcome:
    line = str(error) if isinstance(error, FlocksimError) else explain(error, task.overrides)
    show_cause(error)
    if line is not None:
        return record_failure(task, "infeasible", line)
    details = "".join(traceback.format_exception(error))
    line = f"{type(error).__name__}: {' '.join(str(error).split())}"
    return record_failure(task, "failed", line, details)


@contextmanager
def no_progress(_num_requests: int, _label: str) -> Iterator[Progress | None]:
    """Shows nothing: several jobs at a time share one terminal."""
    yield None


def figures_line(run: JobRun) -> str:
    """The figures of a run in one line."""
    m = run.metrics
    return (
        f"{run.document['regime'] or _why_no_regime(run)}, "
        f"{rate(m['request_rate_per_s'], 'requests')}, TTFT p50 {duration(m['ttft_p50_s'])} "
        f"p99 {duration(m['ttft_p99_s'])}, TPOT p50 {duration(m['tpot_p50_s'])}, "
        f"prefix hits {percent(m['prefix_hit_ratio'])}, "
        f"{run.deployment.spec.num_gpu_blocks:,} KV blocks, "
        f"simulated in {duration(run.wall_s['simulate'])}"
    )


def _why_no_regime(run: JobRun) -> str:
    return "interrupted" if run.is_interrupted else "no request finished"
