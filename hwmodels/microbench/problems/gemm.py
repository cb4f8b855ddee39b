"""Matrix products."""

import numpy as np
import torch

from hwmodels.microbench.kernels.gemm import gemm
from hwmodels.microbench.machine_cases import GemmCase
from hwmodels.microbench.problems.problem import Problem
from hwmodels.microbench.problems.workspace import Workspace
from hwmodels.microbench.reference import product, relative_error, sampled

_CHECKED_ROWS, _CHECKED_COLUMNS = 32, 128


class GemmProblem(Problem):
    """One product; weights and activations start cold."""

    def __init__(self, workspace: Workspace, case: GemmCase) -> None:
        self._left = workspace.normal(case.m, case.k, seed=3)
        self._right = workspace.normal(case.k, case.n, seed=4)
        self._result = workspace.empty(case.m, case.n)
        self._is_library = case.impl == "library"
        self._rng = workspace.rng_of(case)

    def run(self) -> None:
        """The product."""
        if self._is_library:
            torch.mm(self._left, self._right, out=self._result)
        else:
            gemm(self._left, self._right, self._result)

    def max_error(self) -> float:
        """Error of some rows and columns."""
        self._result.fill_(float("nan"))
        self.run()
        num_rows, num_columns = self._result.shape
        rows = torch.tensor(sampled(num_rows, _CHECKED_ROWS, self._rng))
        columns = torch.tensor(sampled(num_columns, _CHECKED_COLUMNS, self._rng))
        rows, columns = rows.to(self._left.device), columns.to(self._left.device)
        left, right, found = (
            part.to(torch.float32).cpu().numpy().astype(np.float64)
            for part in (
                self._left[rows],
                self._right[:, columns],
                self._result[rows][:, columns],
            )
        )
        return relative_error(found, product(left, right))
