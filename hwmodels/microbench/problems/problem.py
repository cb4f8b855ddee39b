"""A case made ready to run: data in place, kernels to launch, results to check."""

from abc import ABC, abstractmethod
from typing import ClassVar, Literal

How = Literal["graph", "direct"]

HALF_TOLERANCE = 0.02
"""Largest error of 16-bit results over the largest of them: a few roundings of bf16 (0.4 %)."""


class Problem(ABC):
    """One case on one device.

    Attributes:
        how: graph, its launches are replayed as a CUDA graph, as an engine does; direct, the host's
            part of the time counts.
        is_cold: whether the L2 cache must hold none of its data when a run starts.
        runs_per_launch: runs of the case that one `run` makes.
        tolerance: largest `max_error` of right results; None where nothing is computed.
    """

    how: ClassVar[How] = "graph"
    is_cold: bool = True
    runs_per_launch: int = 1
    tolerance: float | None = HALF_TOLERANCE

    @abstractmethod
    def run(self) -> None:
        """Launch the work once; does not wait for it."""

    @abstractmethod
    def max_error(self) -> float | None:
        """Run once and compare with the float64 reference; None where nothing is computed."""
