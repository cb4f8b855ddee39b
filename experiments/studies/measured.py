"""What a job of a study measured, seed by seed."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from experiments.stats.intervals import Interval, mean_interval

CellT = TypeVar("CellT")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How much a size of a study runs.

    Attributes:
        num_requests: requests of a job.
        num_seeds: replications of a job.
    """

    num_requests: int
    num_seeds: int


@dataclass(frozen=True, slots=True)
class Measure:
    """A quantity.

    Attributes:
        key: its name among the values of a run.
        title: in tables.
        unit: in tables.
        factor: from the value of a run to that unit.
    """

    key: str
    title: str
    unit: str
    factor: float = 1.0


@dataclass(frozen=True)
class Measured(Generic[CellT]):
    """What a job measured.

    Attributes:
        cell: the job.
        values: of each seed, by the keys of `Measure`.
    """

    cell: CellT
    values: tuple[Mapping[str, float], ...]

    def samples(self, measure: Measure) -> list[float]:
        """A measure of each seed, in its unit; NaN where a run has none."""
        return [measure.factor * one.get(measure.key, float("nan")) for one in self.values]

    def interval(self, measure: Measure) -> Interval:
        """Mean over the seeds and its 95 % interval, in the unit of the measure."""
        return mean_interval(self.samples(measure))

    def ratio(self, other: "Measured[CellT]", measure: Measure) -> Interval:
        """Of this to another one, seed by seed on the same draws."""
        pairs = zip(self.samples(measure), other.samples(measure), strict=True)
        return mean_interval([mine / yours if yours else float("nan") for mine, yours in pairs])
