"""The status line of a sweep: done, running, failed, skipped, time left."""

from types import TracebackType

from experiments.sweep.task import Outcome


class StatusLine:
    """One line on standard error that follows the jobs; shown inside a `with` block.

    Args:
        num_jobs: jobs that are to come.
        workers: jobs that run at a time.
    """

    def __init__(self, num_jobs: int, workers: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        self._num_jobs = num_jobs
        self._workers = workers
        self._counts = {"ok": 0, "failed": 0, "skipped": 0}
        self._num_ended = 0
        self._bar = Progress(
            BarColumn(bar_width=12),
            TextColumn("{task.description}", markup=False),
            TextColumn("time left"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
            refresh_per_second=2,
        )
        self._task = self._bar.add_task(self._text(), total=num_jobs)
        self.is_shown = False

    def __enter__(self) -> "StatusLine":
        self._bar.start()
        self.is_shown = True
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.is_shown = False
        self._bar.stop()

    def add(self, outcome: Outcome) -> None:
        """A job ended."""
        kind = "failed" if outcome.is_bad else outcome.status
        self._counts[kind] = self._counts.get(kind, 0) + 1
        self._num_ended += 1
        self._bar.update(self._task, completed=self._num_ended, description=self._text())

    def _text(self) -> str:
        running = min(self._workers, self._num_jobs - self._num_ended)
        counts = self._counts
        text = f"{counts['ok']:,} of {self._num_jobs:,} jobs done, {running} running"
        for kind in ("failed", "skipped"):
            if counts[kind]:
                text += f", {counts[kind]:,} {kind}"
        return text
