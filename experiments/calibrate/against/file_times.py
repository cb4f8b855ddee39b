"""Times that a measured file holds, checked and in seconds."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from experiments.calibrate.against.measured_run import is_number
from sim.workload import FloatArray
from traces.options import shown
from traces.readers.reading import Reading

MS_PER_S = 1e3


class FileTimes:
    """Reads times of one unit.

    Args:
        reading: names the file.
        num_in_a_second: units of the file in a second.
    """

    def __init__(self, reading: Reading, num_in_a_second: float) -> None:
        self._reading = reading
        self._num_in_a_second = num_in_a_second

    def time_s(self, line: int, where: str, name: str, value: Any) -> float:
        """A time.

        Raises:
            TraceFormatError: it is no number.
        """
        if not is_number(value):
            raise self._reading.refuse(line, f"{where}{name} {shown(value)}: must be a number")
        return float(value) / self._num_in_a_second

    def gaps_s(self, line: int, where: str, name: str, values: Any) -> FloatArray:
        """A list of gaps between tokens. Shape (k,).

        Raises:
            TraceFormatError: it is no list of numbers from 0.
        """
        if not isinstance(values, Sequence) or isinstance(values, str):
            raise self._reading.refuse(line, f"{where}{name} {shown(values)}: must be a list")
        for value in values:
            if not is_number(value) or value < 0:
                why = f"{name} has {shown(value)}: must be numbers from 0"
                raise self._reading.refuse(line, where + why)
        gaps: FloatArray = np.array(values, dtype=np.float64) / self._num_in_a_second
        return gaps
