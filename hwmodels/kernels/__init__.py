"""Calibrated time models of the kernels of a step, and the files that hold their parameters.

`load_kernels("a100_sxm_80gb").gemm.time_s(m, n, k)` is the shortest way in. One file per kernel;
`models` joins those of a device, `provenance` says where parameters come from.
"""

from hwmodels.kernels.models import KernelModels, available_kernels, load_kernels
from hwmodels.kernels.provenance import Provenance

__all__ = ["KernelModels", "Provenance", "available_kernels", "load_kernels"]
