"""Copies between host and device and between devices."""

import torch

from hwmodels.microbench.errors import UnmeasurableError
from hwmodels.microbench.machine_cases import CopyCase
from hwmodels.microbench.problems.problem import Problem
from hwmodels.microbench.problems.workspace import Workspace


class CopyProblem(Problem):
    """One copy."""

    how = "direct"
    is_cold = False
    tolerance = 0.0

    def __init__(self, workspace: Workspace, case: CopyCase) -> None:
        device = workspace.device
        on_device = torch.randint(256, (case.num_bytes,), dtype=torch.uint8, device=device)
        self._is_pinned = case.pinned
        if case.direction == "p2p":
            if torch.cuda.device_count() < 2:
                raise UnmeasurableError("there is no second GPU")
            other = torch.zeros(case.num_bytes, dtype=torch.uint8, device="cuda:1")
            self._source, self._target = on_device, other
            return
        is_pinned = case.pinned and device.type == "cuda"
        on_host = torch.randint(256, (case.num_bytes,), dtype=torch.uint8)
        on_host = on_host.pin_memory() if is_pinned else on_host
        is_to_device = case.direction == "h2d"
        self._source = on_host if is_to_device else on_device
        self._target = on_device if is_to_device else on_host

    def run(self) -> None:
        """The copy."""
        self._target.copy_(self._source, non_blocking=self._is_pinned)

    def max_error(self) -> float:
        """0 if both hold the same bytes, 1 otherwise."""
        self._target.zero_()
        self.run()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        return float(not torch.equal(self._target.cpu(), self._source.cpu()))
