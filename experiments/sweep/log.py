"""What a sweep tells: a line per job or one status line, then failures, a table and sweep.csv."""

import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from experiments.cli import EXIT_OK, complain
from experiments.sweep.spelling import override_as_typed, word_as_typed
from experiments.sweep.status import StatusLine
from experiments.sweep.table import print_table, write_csv
from experiments.sweep.task import Outcome

CSV_NAME = "sweep.csv"

_SHOW_EVERY = 20
"""Jobs between two counts; that many take about a second to compose."""


class SweepLog:
    """Collects what becomes of the jobs of a sweep.

    Args:
        is_quiet: print nothing but the status line.
    """

    def __init__(self, *, is_quiet: bool = False) -> None:
        self._is_quiet = is_quiet
        self._status: StatusLine | None = None
        self._has_counter = False
        self._outcomes: dict[int, Outcome] = {}
        self.directory: Path | None = None
        self.num_jobs: int | None = None
        """Jobs of the sweep; None if the launcher does not say."""

    @property
    def outcomes(self) -> Sequence[Outcome]:
        """What became of the jobs that ended, in the order of the sweep."""
        return [self._outcomes[number] for number in sorted(self._outcomes)]

    def note_composed(self, num_jobs: int) -> None:
        """So many jobs are composed; shown where somebody watches, for it takes a while."""
        if num_jobs % _SHOW_EVERY == 0 and sys.stderr.isatty():
            sys.stderr.write(f"\rcomposing jobs: {num_jobs:,}")
            sys.stderr.flush()
            self._has_counter = True

    def begin(self, directory: Path, num_jobs: int, workers: int) -> None:
        """A batch of jobs starts.

        Args:
            directory: that of the sweep.
            num_jobs: jobs of the batch.
            workers: processes.
        """
        if self._has_counter:
            sys.stderr.write("\r\033[K")
        is_first = self.directory is None
        self.directory = directory
        self.num_jobs = (self.num_jobs or 0) + num_jobs
        if is_first and not self._is_quiet:
            how = f"{workers} at a time" if workers > 1 else "one after the other"
            print(
                f"sweep of {_jobs(num_jobs)}, {how}, in {directory}\n"
                f"if it stops, the same command with {_resuming(directory)} goes on",
                flush=True,
            )

    def watch(self, num_jobs: int, workers: int) -> AbstractContextManager[object]:
        """A status line for the duration of a `with` block, where somebody watches.

        Args:
            num_jobs: jobs that are to come.
            workers: processes; with one, the job shows its own progress instead.
        """
        if workers == 1 or not sys.stderr.isatty():
            return nullcontext()
        self._status = StatusLine(num_jobs, workers)
        return self._status

    def add(self, outcome: Outcome) -> None:
        """A job ended."""
        self._outcomes[outcome.task.number] = outcome
        if self._status is not None and self._status.is_shown:
            self._status.add(outcome)
        elif not self._is_quiet:
            word = outcome.status if outcome.is_bad else outcome.line
            print(f"{outcome.task.name}: {word}", flush=True)

    def close(self) -> int:
        """Report what failed and what came out; the exit code of the command."""
        if self.directory is None:
            return EXIT_OK
        outcomes = self.outcomes
        write_csv(self.directory / CSV_NAME, outcomes, self.directory)
        if not self._is_quiet:
            for outcome in outcomes:
                if outcome.is_bad:
                    sys.stderr.write(outcome.details)
                    complain(f"{outcome.task.name}: {outcome.line}")
            print_table(outcomes)
            self._note_others(self.directory)
            print(f"results: {self.directory} ({CSV_NAME} has all figures)")
            print(f"compare: flocksim-compare {word_as_typed(self.directory)}")
        return max((outcome.exit_code for outcome in outcomes), default=EXIT_OK)

    def _note_others(self, directory: Path) -> None:
        """Say which results below the directory are no job of this sweep."""
        ours = {outcome.task.directory.resolve() for outcome in self.outcomes}
        there = (path.parent for path in sorted(directory.rglob("result.json")))
        others = [path for path in there if path.resolve() not in ours]
        if others and self.num_jobs:
            names = ", ".join(path.relative_to(directory).as_posix() for path in others[:5])
            more = f" and {len(others) - 5:,} more" if len(others) > 5 else ""
            print(f"note: of another sweep, left as they were: {names}{more}")

    def interrupted_line(self) -> str:
        """What to say when the user stopped the sweep."""
        if self.directory is None:
            return "interrupted"
        done = sum(outcome.status in ("ok", "skipped") for outcome in self.outcomes)
        total = f" of {_jobs(self.num_jobs)}" if self.num_jobs else ""
        return (
            f"interrupted; {done:,}{total} complete; "
            f"the same command with {_resuming(self.directory)} goes on"
        )


def _resuming(directory: Path) -> str:
    return override_as_typed("hydra.sweep.dir", directory)


def _jobs(number: int) -> str:
    return f"{number:,} job" + ("" if number == 1 else "s")
