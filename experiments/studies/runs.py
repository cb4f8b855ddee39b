"""Jobs of a study: composed, run on all cores, read back; what is done is not run again."""

import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from experiments.composing import compose_config
from experiments.schema.job import JobConfig, read_job
from experiments.stats.intervals import Interval, mean_interval
from experiments.sweep.pool import Pool
from experiments.sweep.reuse import reuse_results
from experiments.sweep.task import Outcome, Task
from sim.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Case:
    """A job of a study.

    Attributes:
        folder: its directory below that of the study's jobs, unique in the study.
        overrides: what chooses it, as on a command line; those of the user come after.
        last: overrides that come after those of the user, in place of theirs.
    """

    folder: str
    overrides: tuple[str, ...]
    last: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Simulated:
    """Figures of a job.

    Attributes:
        metrics: metrics of each replication, in the order of the seeds.
        regime: as in result.json.
    """

    metrics: tuple[Mapping[str, Any], ...]
    regime: str | None

    def values(self, metric: str) -> list[float]:
        """A metric of each replication; NaN where it has none."""
        found = [one.get(metric) for one in self.metrics]
        return [float("nan") if value is None else float(value) for value in found]

    def mean(self, metric: str) -> float:
        """Mean over the replications."""
        return float(np.mean(self.values(metric)))

    def interval(self, metric: str, factor: float = 1.0) -> Interval:
        """Mean and 95 % interval over the replications, times a factor (of the unit)."""
        return mean_interval([factor * value for value in self.values(metric)])


class Runner:
    """Runs cases.

    Args:
        directory: where the directories of the jobs go.
        common: overrides that the user gave, for every job.
        pool: the processes.
    """

    def __init__(self, directory: Path, common: Sequence[str], pool: Pool) -> None:
        self._directory = directory
        self._common = tuple(common)
        self._pool = pool
        self._num_jobs = 0

    @property
    def common(self) -> tuple[str, ...]:
        """Overrides that the user gave."""
        return self._common

    def job(self, case: Case) -> JobConfig:
        """The checked configuration of a case.

        Raises:
            FlocksimError: it cannot be.
        """
        return read_job(compose_config(merged(case, self._common))[0])

    def run(self, cases: Sequence[Case]) -> list[Simulated]:
        """Run cases and return their figures in the same order.

        Raises:
            ConfigError: a job cannot run; the line names it and says why.
            OutputError: the directory cannot be written to.
            KeyboardInterrupt: Ctrl-C came; what is complete stays.
        """
        tasks = [self._task(case, self._num_jobs + k) for k, case in enumerate(cases)]
        self._num_jobs += len(tasks)
        self._directory.mkdir(parents=True, exist_ok=True)
        done = reuse_results(tasks, self._directory)
        coming = [task for task in tasks if task.number not in done]
        faults: list[Outcome] = []
        with self._watch(len(coming)) as status:

            def note(outcome: Outcome) -> None:
                if outcome.is_bad:
                    faults.append(outcome)
                if status is not None:
                    status.add(outcome)

            self._pool.run(coming, note)
        if faults:
            first = min(faults, key=lambda outcome: outcome.task.number)
            raise ConfigError(f"job {first.task.directory.name}: {first.line}")
        return [read_result(task.directory) for task in tasks]

    def _task(self, case: Case, number: int) -> Task:
        overrides = merged(case, self._common)
        config, choices = compose_config(overrides)
        return Task(
            number=number,
            config=config,
            choices=choices,
            overrides=overrides,
            directory=self._directory / case.folder,
        )

    def _watch(self, num_jobs: int) -> Any:
        """A status line where somebody watches; with one worker each job shows its own."""
        if self._pool.workers == 1 or num_jobs == 0 or not sys.stderr.isatty():
            return nullcontext()
        from experiments.sweep.status import StatusLine

        return StatusLine(num_jobs, self._pool.workers)


def read_result(directory: Path) -> Simulated:
    """Figures of the job in a directory."""
    document = json.loads((directory / "result.json").read_text(encoding="utf-8"))
    runs = document["replications"]
    metrics = [document["metrics"]] if runs is None else [one["metrics"] for one in runs]
    return Simulated(tuple(metrics), document["regime"])


def merged(case: Case, common: Sequence[str]) -> list[str]:
    """Overrides of a job: of the case, of the user, those that come last; later ones replace.

    An option of a group that comes last replaces all that the user says of that group.
    """
    last = {key_of(item) for item in case.last}
    given = [item for item in common if not last & {key_of(item), key_of(item).partition(".")[0]}]
    later = last | {key_of(item) for item in given}
    return [*(item for item in case.overrides if key_of(item) not in later), *given, *case.last]


def key_of(override: str) -> str:
    """Key of an override, without Hydra's signs of adding and removing."""
    return override.partition("=")[0].lstrip("+~")
