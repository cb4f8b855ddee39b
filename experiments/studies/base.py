"""What every study answers: its question, its sizes, its jobs, its findings and its picture."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from experiments.studies.findings import Findings
from experiments.studies.runs import Runner

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIZES = ("quick", "full")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """Where a study works.

    Attributes:
        size: one of SIZES.
        runner: runs its jobs.
        directory: for files of its own.
    """

    size: str
    runner: Runner
    directory: Path


class Study(Protocol):
    """A study.

    Attributes:
        name: as on the command line.
        question: what it asks, one sentence.
        sizes: what each of SIZES runs, one line each.
        decides: keys that the study sets itself, so that no override may: ``trace`` stands for
            all keys of that section.
    """

    name: str
    question: str
    sizes: Mapping[str, str]
    decides: tuple[str, ...]

    @abstractmethod
    def run(self, bench: Bench) -> Findings:
        """Run the jobs and compare.

        Raises:
            FlocksimError: a job cannot run.
            KeyboardInterrupt: Ctrl-C came; jobs that are complete stay.
        """

    @abstractmethod
    def pictures(self, findings: Findings) -> "Mapping[str, Figure]":
        """Figures by file name without suffix."""
