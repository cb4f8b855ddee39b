"""Launches of kernels that do next to nothing."""

import torch

from hwmodels.microbench.machine_cases import LaunchCase
from hwmodels.microbench.problems.problem import Problem
from hwmodels.microbench.problems.workspace import Workspace


class LaunchProblem(Problem):
    """Additions to one element, by the library: its launch path is the one engines use."""

    how = "direct"
    is_cold = False
    tolerance = None

    def __init__(self, workspace: Workspace, case: LaunchCase) -> None:
        self._number = torch.ones(1, dtype=torch.float32, device=workspace.device)
        self._num_kernels = case.num_kernels
        self._graph: torch.cuda.CUDAGraph | None = None
        if case.kind == "graph_replay" and workspace.device.type == "cuda":
            self._launch()  # loads what a capture must not
            torch.cuda.synchronize()
            self._graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self._graph):
                self._launch()

    def run(self) -> None:
        """All kernels."""
        if self._graph is None:
            self._launch()
        else:
            self._graph.replay()

    def max_error(self) -> None:
        """Nothing is computed."""
        return

    def _launch(self) -> None:
        for _ in range(self._num_kernels):
            self._number.mul_(1.0)
