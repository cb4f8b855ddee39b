"""Jobs of a capacity search: where they lie, how they run, what they gave."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.composing import CONFIG_MODULE, CONFIG_NAME, chosen_options, resolved
from experiments.results.load import load_run
from experiments.results.metrics_frame import offered_rates
from experiments.sweep.pool import Pool
from experiments.sweep.reuse import reuse_results
from experiments.sweep.task import Outcome, Task

_UNSAFE = re.compile(r"[^\w.,=+-]+")


@dataclass(frozen=True, slots=True)
class Policy:
    """One of the policies that are compared.

    Attributes:
        overrides: what chooses it, for example ``("routing=jsq",)``.
    """

    overrides: tuple[str, ...]

    @property
    def name(self) -> str:
        """How it is called."""
        names = [item.partition("=")[2] for item in self.overrides]
        return " + ".join(names) or "as given"

    @property
    def folder(self) -> str:
        """Name of its directory."""
        return _UNSAFE.sub("_", ",".join(self.overrides)) or "as_given"


@dataclass(frozen=True, slots=True)
class Point:
    """A policy at a rate.

    Attributes:
        policy: the policy.
        key: what sets the rate: ``trace.rate_scale`` or ``trace.flood``.
        value: to what.
    """

    policy: Policy
    key: str
    value: float | bool

    @property
    def override(self) -> str:
        """As on a command line."""
        value = str(self.value).lower() if isinstance(self.value, bool) else repr(self.value)
        return f"{self.key}={value}"


@dataclass(frozen=True, slots=True)
class Answer:
    """What the jobs of a point gave.

    Attributes:
        documents: result.json of each, in order of seed; empty if one could not run.
        directories: where they lie.
        fault: why one could not run, empty if all did.
    """

    documents: list[dict[str, Any]]
    directories: list[Path]
    fault: str = ""


class Bench:
    """Runs points, each under several seeds; results that lie in its directory are not run again.

    Args:
        overrides: what all jobs have in common.
        directory: where their directories go.
        num_seeds: jobs per point; the seeds follow on from that of the overrides.
        pool: the processes.
    """

    def __init__(
        self, overrides: Sequence[str], directory: Path, num_seeds: int, pool: Pool
    ) -> None:
        self._overrides = list(overrides)
        self._directory = directory
        self._pool = pool
        self._num_seeds = num_seeds
        self._first_seed = 0
        self._composed: dict[Policy, Any] = {}
        self.num_jobs = 0
        """Jobs asked for so far."""

    def start_at_seed(self, seed: int) -> None:
        """The first seed of every point."""
        self._first_seed = seed

    def ask(self, points: Sequence[Point]) -> list[Answer]:
        """Run points and return what they gave, in the same order.

        Raises:
            KeyboardInterrupt: Ctrl-C came; what is complete stays.
            OutputError: the directory cannot be written to.
        """
        tasks = [
            self._task(point, seed, self.num_jobs + index * self._num_seeds + seed)
            for index, point in enumerate(points)
            for seed in range(self._num_seeds)
        ]
        self.num_jobs += len(tasks)
        self._directory.mkdir(parents=True, exist_ok=True)
        done = reuse_results(tasks, self._directory)
        faults: dict[int, Outcome] = {}

        def note(outcome: Outcome) -> None:
            if outcome.is_bad:
                faults[outcome.task.number] = outcome

        self._pool.run([task for task in tasks if task.number not in done], note)
        return [
            _answer(tasks[first : first + self._num_seeds], faults)
            for first in range(0, len(tasks), self._num_seeds)
        ]

    def _task(self, point: Point, seed: int, number: int) -> Task:
        from omegaconf import OmegaConf

        composed = self._composed_for(point.policy).copy()
        choices = chosen_options(composed.hydra.runtime.choices)
        OmegaConf.update(composed, point.key, point.value)
        OmegaConf.update(composed, "seed", self._first_seed + seed)
        rest = [point.override, f"seed={self._first_seed + seed}"]
        return Task(
            number=number,
            config=resolved(composed),
            choices=choices,
            overrides=[*self._overrides, *point.policy.overrides, *rest],
            directory=self._directory.joinpath(point.policy.folder, *rest),
        )

    def _composed_for(self, policy: Policy) -> Any:
        """Composed once per policy: all its points differ in two values only."""
        from hydra import compose, initialize_config_module

        if policy not in self._composed:
            given = [*self._overrides, *policy.overrides]
            with initialize_config_module(CONFIG_MODULE, version_base="1.3"):
                config = compose(CONFIG_NAME, given, return_hydra_config=True)
            self._composed[policy] = config
        return self._composed[policy]


def _answer(tasks: Sequence[Task], faults: dict[int, Outcome]) -> Answer:
    directories = [task.directory for task in tasks]
    for task in tasks:
        if task.number in faults:
            return Answer([], directories, faults[task.number].line)
    texts = [(path / "result.json").read_text(encoding="utf-8") for path in directories]
    return Answer([json.loads(text) for text in texts], directories)


def offered_rate_per_s(directory: Path) -> float | None:
    """Arrivals / span of the arrivals of a job, as `flocksim-compare` counts; None if at once."""
    rates = offered_rates(load_run(directory)).values()
    return float(sum(rates)) / len(rates) if rates else None
