"""Numbers noted for every step of an instance, whose steps may be planned and then cut."""

from array import array
from typing import TYPE_CHECKING

import numpy as np

from sim.interfaces import FloatArray, RunTable

if TYPE_CHECKING:
    from sim.instance import Instance


class StepNotes:
    """Columns of numbers, a row per step.

    Args:
        instance: whose steps they are.
        names: of the columns.
    """

    def __init__(self, instance: "Instance", *names: str) -> None:
        self._batch = instance.batch
        self._columns = {name: array("d") for name in names}

    def forget_cut_steps(self) -> None:
        """Drop rows of steps that were priced and never executed."""
        step = self._batch.step
        for column in self._columns.values():
            del column[step:]

    def add(self, **values: float) -> None:
        """Note the next step; every column is named."""
        for name, value in values.items():
            self._columns[name].append(value)

    def add_run(self, **values: FloatArray) -> None:
        """Note the next steps; every column is named, all of one length."""
        for name, column in values.items():
            self._columns[name].frombytes(np.ascontiguousarray(column).tobytes())

    def last(self, name: str, default: float) -> float:
        """Value of the latest step; `default` before the first one."""
        column = self._columns[name]
        return column[-1] if column else default

    def of_steps(self, name: str, num_steps: int) -> FloatArray:
        """A column of the first steps. Shape (num_steps,)."""
        return np.array(self._columns[name][:num_steps])

    def of_runs(self, name: str, runs: RunTable) -> FloatArray:
        """Sum of a column over the steps of each of `runs`, the first ones. Shape (runs,)."""
        if not len(runs):
            return np.zeros(0)
        values = self.of_steps(name, num_steps_of(runs))
        sums: FloatArray = np.add.reduceat(values, runs["first_step"])
        return sums


def num_steps_of(runs: RunTable) -> int:
    """Steps in the first runs of an instance."""
    return int(runs[-1]["first_step"] + runs[-1]["num_steps"]) if len(runs) else 0
