"""Reads and triads over one data set."""

import torch

from hwmodels.microbench.errors import UnmeasurableError
from hwmodels.microbench.kernels import stream
from hwmodels.microbench.machine_cases import StreamCase
from hwmodels.microbench.problems.problem import Problem
from hwmodels.microbench.problems.workspace import Workspace

_LAUNCH_BYTES = 2 << 30
"""Bytes that one launch moves at least, in several passes: its own cost is under a hundredth."""
_LARGEST_ELEMENTS = 1 << 31
_SCALE = 0.5


class StreamProblem(Problem):
    """Passes over one to three arrays of float32; only the first pass of all is cold."""

    is_cold = False
    tolerance = 1e-5

    def __init__(self, workspace: Workspace, case: StreamCase) -> None:
        num_arrays = 1 if case.op == "read" else 3
        num_elements = stream.num_elements(case.data_set_bytes // num_arrays)
        if num_elements >= _LARGEST_ELEMENTS:
            raise UnmeasurableError(f"an array of {num_elements} elements: at most 2^31 - 1")
        self._arrays = [
            torch.rand(num_elements, dtype=torch.float32, device=workspace.device) + 0.5
            for _ in range(num_arrays)
        ]
        on_cpu = workspace.device.type == "cpu"
        self.runs_per_launch = 2 if on_cpu else max(1, _LAUNCH_BYTES // case.data_set_bytes)
        self._sums = workspace.empty(stream.num_programs(workspace.num_sms), dtype=torch.float32)

    def run(self) -> None:
        """All passes of one launch."""
        self._pass(self.runs_per_launch)

    def _pass(self, num_passes: int) -> None:
        if len(self._arrays) == 1:
            stream.read(self._arrays[0], self._sums, num_passes)
        else:
            result, left, right = self._arrays
            stream.triad(result, left, right, _SCALE, self._sums.numel(), num_passes)

    def max_error(self) -> float:
        """Error of the sum of one pass, or of the largest element."""
        self._pass(1)
        if len(self._arrays) == 1:
            expected = self._arrays[0].sum(dtype=torch.float64)
            return float((self._sums.sum(dtype=torch.float64) - expected).abs() / expected)
        result, left, right = self._arrays
        expected = left + _SCALE * right
        return float((result - expected).abs().max() / expected.abs().max())
