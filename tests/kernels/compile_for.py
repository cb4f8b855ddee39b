"""Compiles the kernels for a GPU that is not there: `python -m tests.kernels.compile_for 90`.

Every case is launched with compilation instead of execution. Prints one JSON object per compiled
kernel: its name, warps, bytes of shared memory, bytes of machine code.
"""

import json
import sys
from typing import Any

import torch
from triton.backends.compiler import GPUTarget
from triton.runtime import driver
from triton.runtime.jit import JITFunction

from hwmodels.microbench.cases import Case, GemmCase, LaunchCase
from hwmodels.microbench.kernels.wait import wait
from hwmodels.microbench.problems import Workspace, problem_of
from tests.kernels.tiny_cases import HIGH_TILES, MACHINE_CASES, attention_cases

_CASES: list[Case] = [
    *(case for case in MACHINE_CASES if not isinstance(case, LaunchCase)),
    *attention_cases(num_heads=32, num_kv_heads=8),
    *HIGH_TILES,
    GemmCase(m=64, n=128, k=4096, impl="triton"),
]


class _AbsentGpu:
    """What the compiler asks of a driver."""

    def __init__(self, capability: int) -> None:
        self._capability = capability

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", self._capability, 32)

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 0


def compile_all(capability: int) -> list[dict[str, object]]:
    """Compile what all cases launch.

    Args:
        capability: compute capability without its point, such as 90.
    """
    driver.set_active(_AbsentGpu(capability))
    run = JITFunction.run
    compiled: dict[int, Any] = {}

    def compile_only(self: Any, *arguments: Any, grid: Any, warmup: bool, **options: Any) -> Any:
        kernel = run(self, *arguments, grid=grid, warmup=True, **options)
        compiled[id(kernel)] = kernel
        return kernel

    JITFunction.run = compile_only
    workspace = Workspace("cpu", num_sms=132, l2_bytes=1 << 14, seed=0)
    workspace.dtype = torch.bfloat16
    for case in _CASES:
        problem_of(workspace, case).run()
    workspace.flush()
    wait(torch.ones(1), 1)
    return [
        {
            "name": kernel.metadata.name,
            "num_warps": kernel.metadata.num_warps,
            "shared_bytes": kernel.metadata.shared,
            "code_bytes": len(kernel.asm["cubin"]),
        }
        for kernel in compiled.values()
    ]


if __name__ == "__main__":
    for record in compile_all(int(sys.argv[1])):
        print(json.dumps(record))
