"""Runs tasks on several cores: a process per core, each with one thread."""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from types import TracebackType
from typing import Any

from experiments.sweep.task import Outcome, Task, no_progress, record_failure, run_task
from experiments.sweep.worker import interrupts_held_back, watch_parent, work
from sim.errors import ConfigError

KILLED = "its process was killed, most likely because memory ran out; try fewer workers"

Report = Callable[[Outcome], object]


def num_workers(asked: int | None, key: str = "hydra.launcher.n_jobs") -> int:
    """Number of processes.

    Args:
        asked: as the user says; None or -1: one per core.
        key: where the user says it.

    Raises:
        ConfigError: neither of these, nor a number >= 1.
    """
    is_whole = isinstance(asked, int) and not isinstance(asked, bool)
    if asked is None or (is_whole and asked == -1):
        from joblib import cpu_count

        return int(cpu_count())
    if not is_whole or asked < 1:
        raise ConfigError(f"{key}={asked!r}: must be an integer >= 1, or null for one per core")
    return asked


class Pool:
    """Processes that stay between calls of `run`; end them with `close` or a `with` block.

    One worker is this process itself, which shows the progress of each job unless told not to.

    Args:
        workers: processes.
        is_silent: never show the progress of a job.
    """

    def __init__(self, workers: int, *, is_silent: bool = False) -> None:
        self._workers = workers
        self._is_silent = is_silent or workers > 1
        self._has_processes = False

    def __enter__(self) -> "Pool":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def workers(self) -> int:
        """Number of processes."""
        return self._workers

    def run(self, tasks: Sequence[Task], report: Report) -> None:
        """Run tasks; each is reported once, as they end.

        Args:
            tasks: with different numbers.
            report: told of every outcome.

        Raises:
            KeyboardInterrupt: Ctrl-C came. Jobs that were running then have written nothing, or
                with one worker what was complete.
        """
        if self._workers == 1 or (len(tasks) == 1 and not self._has_processes):
            for task in tasks:
                outcome = run_task(task, no_progress if self._is_silent else None)
                report(outcome)
                if outcome.status == "interrupted":
                    raise KeyboardInterrupt
            return
        waiting = list(tasks)
        while waiting:
            started: dict[int, Task] = {}
            try:
                for outcome in self._outcomes(waiting, started):
                    del started[outcome.task.number]
                    waiting = [t for t in waiting if t.number != outcome.task.number]
                    report(outcome)
            except BrokenProcessPool:
                # One of those that had started is to blame: each gets a process of its own.
                waiting = [task for task in waiting if task.number not in started]
                for task in started.values():
                    report(self._run_apart(task))

    def close(self) -> None:
        """End the processes."""
        if self._has_processes:
            from joblib.externals.loky import get_reusable_executor

            get_reusable_executor(reuse=True).shutdown(wait=True, kill_workers=True)
            self._has_processes = False

    def _run_apart(self, task: Task) -> Outcome:
        with suppress(BrokenProcessPool):
            (outcome,) = self._outcomes([task], {})
            return outcome
        return record_failure(task, "failed", KILLED)

    def _outcomes(self, tasks: Sequence[Task], started: dict[int, Task]) -> Iterator[Outcome]:
        """Outcomes as they come; `started` receives what was handed to the processes."""
        from joblib import Parallel, delayed, parallel_config

        def calls() -> Iterator[Any]:
            for task in tasks:
                started[task.number] = task
                yield delayed(work)(task)

        self._has_processes = True
        with parallel_config("loky", inner_max_num_threads=1), interrupts_held_back():
            parallel = Parallel(
                n_jobs=self._workers,
                return_as="generator_unordered",
                pre_dispatch=self._workers,
                batch_size=1,
                max_nbytes=None,
                initializer=watch_parent,
                initargs=(os.getpid(),),
            )
            outcomes: Iterator[Outcome] = parallel(calls())
        yield from outcomes
