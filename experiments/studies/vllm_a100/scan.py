"""Simulates points at several hit shares and keeps what came out."""

from collections.abc import Sequence
from dataclasses import replace

from experiments.studies.runs import Runner, Simulated
from experiments.studies.vllm_a100.hit_share import ITL, relative_error
from experiments.studies.vllm_a100.points import POINTS, Point, Run

Found = dict[int, dict[str, Simulated]]
"""Figures by number of cached blocks, then by label of the point."""

FITTED = [point for point in POINTS if point.is_fitted]


class Scan:
    """Points at several numbers of cached blocks.

    Args:
        runner: runs the jobs.
        base: how they are simulated, but for the number of blocks.
    """

    def __init__(self, runner: Runner, base: Run) -> None:
        self._runner = runner
        self._base = base
        self.found: Found = {}
        """Everything simulated so far."""

    def simulate(self, numbers: Sequence[int], points: Sequence[Point]) -> None:
        """Simulate points at each of these numbers of blocks.

        Raises:
            FlocksimError: a job cannot run.
        """
        pairs = [(blocks, point) for blocks in numbers for point in points]
        cases = [replace(self._base, blocks=blocks).case(point) for blocks, point in pairs]
        for (blocks, point), one in zip(pairs, self._runner.run(cases), strict=True):
            self.found.setdefault(blocks, {})[point.label] = one

    def errors_at(self, numbers: Sequence[int]) -> dict[int, tuple[float, ...]]:
        """Signed relative ITL errors of the fitted points at each of these numbers of blocks."""
        self.simulate(numbers, FITTED)
        return {
            blocks: tuple(
                relative_error(point, self.found[blocks][point.label].mean(ITL)) for point in FITTED
            )
            for blocks in numbers
        }
