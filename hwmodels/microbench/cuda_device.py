"""The CUDA device of this process as the harness sees it."""

import os
import platform
import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
import triton

from hwmodels.microbench.case import Case
from hwmodels.microbench.errors import MicrobenchError, UnmeasurableError
from hwmodels.microbench.problems import Workspace, problem_of
from hwmodels.microbench.row_format import DeviceInfo, Measurement
from hwmodels.microbench.timing import Timer, summarised

_DRIVER_FILE = Path("/proc/driver/nvidia/version")
_MIN_CAPABILITY = (8, 0)
_MIN_FREE_RATIO = 0.5
"""Share of the device memory that must be free at the start."""


def open_cuda_device(seed: int) -> "CudaDevice":
    """The first visible CUDA device.

    Args:
        seed: of all data.

    Raises:
        MicrobenchError: there is none, or it cannot run the kernels.
    """
    if os.environ.get("TRITON_INTERPRET", "0") not in ("", "0"):
        raise MicrobenchError("TRITON_INTERPRET is set: the interpreter runs on the CPU; unset it")
    if torch.version.cuda is None:
        raise MicrobenchError(f"this torch ({torch.__version__}) is built without CUDA")
    if not torch.cuda.is_available():
        raise MicrobenchError(f"no CUDA device is usable (torch {torch.__version__})")
    torch.cuda.set_device(0)
    found = torch.cuda.get_device_capability(0)
    if found < _MIN_CAPABILITY:
        name = torch.cuda.get_device_name(0)
        raise MicrobenchError(
            f"compute capability 8.0 or later is needed, found {name} with {found[0]}.{found[1]}"
        )
    free_bytes, total_bytes = torch.cuda.mem_get_info(0)
    if free_bytes < _MIN_FREE_RATIO * total_bytes:
        raise MicrobenchError(
            f"only {free_bytes / 1e9:.1f} of {total_bytes / 1e9:.1f} GB of device memory are free: "
            "other processes use the GPU, and times would be theirs too"
        )
    return CudaDevice(seed)


class CudaDevice:
    """Measures cases on CUDA device 0; copies and sums between devices use the next ones too.

    Args:
        seed: of all data.
        where: the device by its name in torch.
    """

    def __init__(self, seed: int, where: str = "cuda:0") -> None:
        self._info = _info()
        torch.manual_seed(seed)
        self._workspace = Workspace(where, self._info.num_sms, self._info.l2_bytes, seed)
        self._timer = Timer(self._workspace)

    @property
    def info(self) -> DeviceInfo:
        """What goes into the header of the rows."""
        return self._info

    @property
    def versions(self) -> Mapping[str, str]:
        """Versions of the software, by the keys of `VERSION_KEYS`."""
        return {
            "python": platform.python_version(),
            "torch": str(torch.__version__),
            "triton": str(triton.__version__),
            "numpy": np.__version__,
            "cuda": str(torch.version.cuda),
            "driver": driver_version(_DRIVER_FILE),
        }

    def measure(self, case: Case) -> Measurement:
        """Check and time one case.

        Raises:
            UnmeasurableError: it does not fit, does not compile or computes something wrong.
            MicrobenchError: the device does not answer any more.
        """
        try:
            try:
                return self._measure(case)
            except torch.cuda.OutOfMemoryError:
                self._make_room()
            return self._measure(case)
        except torch.cuda.OutOfMemoryError:
            self._make_room()
            raise UnmeasurableError(f"needs {case.memory_bytes} bytes of device memory") from None
        except (MicrobenchError, UnmeasurableError):
            raise
        except Exception as error:  # compilers and drivers have errors of many kinds
            why = f"{type(error).__name__}: {_first_line(error)}"
            self._check_alive(why)
            raise UnmeasurableError(why) from None

    def _measure(self, case: Case) -> Measurement:
        problem = problem_of(self._workspace, case)
        max_error = problem.max_error()
        tolerance = problem.tolerance
        if max_error is not None and tolerance is not None and not max_error <= tolerance:
            raise UnmeasurableError(f"wrong result: error {max_error:.2g}, allowed {tolerance:.2g}")
        times_s = self._timer.times_s(problem)
        return summarised(times_s, max_error, tolerance)

    def _make_room(self) -> None:
        self._workspace.release()
        torch.cuda.empty_cache()

    def _check_alive(self, why: str) -> None:
        try:
            torch.cuda.synchronize()
        except Exception:  # a device that failed answers every call with its error
            raise MicrobenchError(f"the GPU does not answer any more; {why}") from None


def driver_version(path: Path) -> str:
    """Version of the kernel driver as its file under /proc says it; "unknown" without."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "unknown"
    found = re.search(r"\b\d{3,}\.\d+(\.\d+)?\b", text)
    return found.group() if found else "unknown"


def _info() -> DeviceInfo:
    properties = torch.cuda.get_device_properties(0)
    names = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    return DeviceInfo(
        name=names[0],
        num_sms=properties.multi_processor_count,
        l2_bytes=properties.L2_cache_size,
        memory_bytes=properties.total_memory,
        compute_capability=f"{properties.major}.{properties.minor}",
        num_gpus=names.count(names[0]),
    )


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else "no message"
