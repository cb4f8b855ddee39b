"""Sums over several devices, by the library."""

import torch

from hwmodels.microbench.errors import UnmeasurableError
from hwmodels.microbench.machine_cases import AllReduceCase
from hwmodels.microbench.problems.problem import HALF_TOLERANCE, Problem
from hwmodels.microbench.problems.workspace import Workspace


class AllReduceProblem(Problem):
    """One call of NCCL from one process for all devices."""

    how = "direct"
    is_cold = False
    tolerance = HALF_TOLERANCE

    def __init__(self, workspace: Workspace, case: AllReduceCase) -> None:
        if torch.cuda.device_count() < case.num_gpus or workspace.device.type != "cuda":
            raise UnmeasurableError(f"there are no {case.num_gpus} GPUs")
        num_elements = max(1, case.num_bytes // 2)
        self._parts = [
            torch.randn(num_elements, device=f"cuda:{index}").to(torch.bfloat16)
            for index in range(case.num_gpus)
        ]
        self._sums = [torch.empty_like(part) for part in self._parts]

    def run(self) -> None:
        """The sum of all parts, on every device."""
        torch.cuda.nccl.all_reduce(self._parts, self._sums)

    def max_error(self) -> float:
        """Largest error on any device."""
        self.run()
        expected = torch.stack([part.double().cpu() for part in self._parts]).sum(0)
        largest = expected.abs().max()
        errors = [(found.double().cpu() - expected).abs().max() / largest for found in self._sums]
        return float(torch.stack(errors).max())
