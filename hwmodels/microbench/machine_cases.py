"""Cases of the machine itself: memory, matrix products, launches, copies, all-reduce."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from hwmodels.microbench.case import ELEMENT_BYTES, Case


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamCase(Case):
    """Passes over one data set, again and again: it stays in L2 where it fits.

    Attributes:
        op: read, a sum over one array; or triad, `a = b + s c` over three.
        data_set_bytes: bytes of all arrays together.
    """

    name: ClassVar[str] = "stream"
    choices: ClassVar[dict[str, tuple[str, ...]]] = {"op": ("read", "triad")}

    op: Literal["read", "triad"]
    data_set_bytes: int

    @property
    def num_bytes(self) -> int:
        """The data set, once per pass."""
        return self.data_set_bytes

    @property
    def compile_key(self) -> str:
        """One kernel per operation."""
        return f"{self.name}:{self.op}"


@dataclass(frozen=True, slots=True, kw_only=True)
class GemmCase(Case):
    """`C[m, n] = A[m, k] B[k, n]` in bf16, weights cold as they are in a model.

    Attributes:
        m: rows, tokens of a step.
        n: columns.
        k: inner size.
        impl: the kernel of this package, or the library's.
    """

    name: ClassVar[str] = "gemm"
    choices: ClassVar[dict[str, tuple[str, ...]]] = {"impl": ("triton", "library")}

    m: int
    n: int
    k: int
    impl: Literal["triton", "library"]

    @property
    def num_bytes(self) -> int:
        """Both inputs and the product."""
        return ELEMENT_BYTES * (self.m * self.k + self.k * self.n + self.m * self.n)

    @property
    def num_flops(self) -> int:
        """One multiply-add per element of the product and inner index."""
        return 2 * self.m * self.n * self.k

    @property
    def compile_key(self) -> str:
        """The tile of the kernel depends on the rows."""
        return f"{self.name}:{self.impl}:{self.m > 64}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchCase(Case):
    """Kernels that do next to nothing, one after the other on one stream.

    Attributes:
        kind: launched one by one by the host, or replayed as one CUDA graph.
        num_kernels: how many; the time is that of all of them.
    """

    name: ClassVar[str] = "launch"
    choices: ClassVar[dict[str, tuple[str, ...]]] = {"kind": ("launch", "graph_replay")}

    kind: Literal["launch", "graph_replay"]
    num_kernels: int

    @property
    def num_bytes(self) -> None:
        """None worth counting."""
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyCase(Case):
    """One copy between host and device or between two devices.

    Attributes:
        direction: host to device, device to host, device to device.
        num_bytes: bytes of the copy.
        pinned: whether the host's memory is page-locked; true between devices.
    """

    name: ClassVar[str] = "copy"
    choices: ClassVar[dict[str, tuple[str, ...]]] = {"direction": ("h2d", "d2h", "p2p")}

    direction: Literal["h2d", "d2h", "p2p"]
    num_bytes: int
    pinned: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AllReduceCase(Case):
    """Sum of one bf16 array over all devices, the result on each.

    Attributes:
        num_bytes: bytes of the array on one device.
        num_gpus: devices, at least 2 in a plan.
    """

    name: ClassVar[str] = "all_reduce"

    num_bytes: int
    num_gpus: int
