"""A GPU that is only known constants, noise and a few wrong measurements.

It stands where `hwmodels.microbench` has the real one, so that measuring, fitting and validating
run without a GPU and can be checked against constants that are known. Its times follow the very
forms that are fitted: it proves the fits, not the forms.
"""

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from hwmodels.device import DeviceSpec
from hwmodels.fitting.parameter import FloatArray
from hwmodels.fitting.recipe import Columns
from hwmodels.fitting.rows_file import columns_of, is_choice
from hwmodels.fitting.rows_forms import CascadeForm, cascade_s, decode_s, prefill_s
from hwmodels.fitting.rows_mixed import fused_s, separate_s
from hwmodels.fitting.rows_overheads import CopyForm, LaunchForm
from hwmodels.fitting.rows_recipes import StreamForm
from hwmodels.fitting.rows_shared_prefix import packed_s, unaware_s
from hwmodels.kernels.models import KernelModels
from hwmodels.microbench.cases import Case
from hwmodels.microbench.errors import UnmeasurableError
from hwmodels.microbench.row_format import VERSION_KEYS, DeviceInfo, Measurement

NOISE = 0.02
"""Standard deviation of the logarithm of a time: what medians on a quiet GPU scatter."""
OUTLIER_SHARE = 0.02
OUTLIER_FACTORS = (1.3, 2.0)
"""Share of the cases that something else on the machine slows down, and by how much."""

_REPEATS = 20
_SETUP_S = 0.15
"""Time of a case beside its repeats, seconds."""
_SPREAD = 0.842
"""Standard normal deviate of the 80th percentile."""

_TRIAD_FACTOR = 1.08
_TRITON_GEMM_FACTOR = 1.3
"""Times of what no profile models, relative to what it does. Assumed."""
_LAUNCHES = {
    "launch": LaunchForm(first_s=4e-6, kernel_s=2.2e-6),
    "graph_replay": LaunchForm(first_s=9e-6, kernel_s=1.1e-6),
}
_COPY_LATENCY_S = 8e-6
_COPY_SHARES = {True: 0.8, False: 0.3}
"""Share of the link's peak that a copy reaches, by whether the memory is page-locked. Assumed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntheticDevice:
    """A GPU of known constants.

    Args:
        spec: its peaks and capacities.
        models: its kernels; a benchmark of a kernel that is not there cannot be measured.
        seed: of the noise; the noise of a case depends on it and on the case alone.
        noise: standard deviation of the logarithm of a time.
        outlier_share: share of the cases that are slowed down.
        num_gpus: GPUs of the host.
    """

    spec: DeviceSpec
    models: KernelModels
    seed: int = 0
    noise: float = NOISE
    outlier_share: float = OUTLIER_SHARE
    num_gpus: int = 1

    @property
    def info(self) -> DeviceInfo:
        """What its driver would say."""
        return DeviceInfo(
            name=f"synthetic {self.spec.name}",
            num_sms=self.spec.num_sms,
            l2_bytes=self.spec.l2_bytes,
            memory_bytes=self.spec.hbm_capacity_bytes,
            compute_capability=_CAPABILITIES.get(
                self.spec.name.partition("_")[0], _OTHER_CAPABILITY
            ),
            num_gpus=self.num_gpus,
        )

    @property
    def versions(self) -> dict[str, str]:
        """No software measured anything."""
        return dict.fromkeys(VERSION_KEYS, "none")

    def measure(self, case: Case) -> Measurement:
        """Median and percentiles of a case.

        Raises:
            UnmeasurableError: too little memory, too few GPUs, or a kernel that is not known.
        """
        if case.memory_bytes > self.spec.hbm_capacity_bytes:
            raise UnmeasurableError(f"needs {case.memory_bytes} bytes of memory")
        true_s = self.true_s(case)
        seed = hashlib.sha256(f"{self.seed}:{case.id}".encode()).digest()
        rng = np.random.default_rng(int.from_bytes(seed[:8], "big"))
        median_s = true_s * float(np.exp(self.noise * rng.standard_normal()))
        if rng.random() < self.outlier_share:
            median_s *= float(rng.uniform(*OUTLIER_FACTORS))
        spread = float(np.exp(_SPREAD * self.noise))
        return Measurement(
            p20_s=median_s / spread,
            p50_s=median_s,
            p80_s=median_s * spread,
            repeats=_REPEATS,
            max_error=0.0 if case.num_flops else None,
            tolerance=0.0 if case.num_flops else None,
        )

    def true_s(self, case: Case) -> float:
        """Seconds of a case without noise.

        Raises:
            UnmeasurableError: too few GPUs, or a kernel that is not known.
        """
        return float(_SECONDS[case.name](self, columns_of([case]))[0])

    def took_s(self, case: Case) -> float:
        """Seconds that measuring a case takes in all, made up from its time."""
        return _SETUP_S + 2 * _REPEATS * self.true_s(case)

    def kernel(self, name: str) -> Any:
        """The model of a kernel.

        Raises:
            UnmeasurableError: it is not known.
        """
        model = getattr(self.models, name, None)
        if model is None:
            raise UnmeasurableError(f"no constants of {name}")
        return model

    def needs_gpus(self, number: float) -> None:
        """Check that there are so many GPUs.

        Raises:
            UnmeasurableError: there are fewer.
        """
        if number > self.num_gpus:
            raise UnmeasurableError(f"needs {number:.0f} GPUs, this host has {self.num_gpus}")


_CAPABILITIES = {"a100": "8.0", "h100": "9.0", "h200": "9.0", "h20": "9.0"}
_OTHER_CAPABILITY = "8.9"
"""Compute capability by the first part of a profile's name; it chooses the plan."""


def _stream_s(device: SyntheticDevice, columns: Columns) -> FloatArray:
    form = StreamForm(pass_s=0.0, curve=device.kernel("l2"))
    factor = np.where(is_choice(columns, "op", "read"), 1.0, _TRIAD_FACTOR)
    times_s: FloatArray = factor * form.time_s(columns["data_set_bytes"])
    return times_s


def _gemm_s(device: SyntheticDevice, columns: Columns) -> FloatArray:
    factor = np.where(is_choice(columns, "impl", "library"), 1.0, _TRITON_GEMM_FACTOR)
    times_s: FloatArray = factor * device.kernel("gemm").time_s(
        columns["m"], columns["n"], columns["k"]
    )
    return times_s


def _cascade_s(device: SyntheticDevice, columns: Columns) -> FloatArray:
    form = CascadeForm(
        scale=device.kernel("shared_prefix").cascade_scale,
        decode_attention=device.kernel("decode_attention"),
        prefill_attention=device.kernel("prefill_attention"),
        packed=device.kernel("shared_prefix").packed,
    )
    return cascade_s(form, columns)


def _mixed_s(device: SyntheticDevice, columns: Columns) -> FloatArray:
    decode, prefill = device.kernel("decode_attention"), device.kernel("prefill_attention")
    if is_choice(columns, "form", "fused").all():
        return fused_s(device.kernel("mixed_attention"), decode, prefill, columns)
    return separate_s(decode, prefill, columns)


def _launch_s(device: SyntheticDevice, columns: Columns) -> FloatArray:
    del device
    is_graph = is_choice(columns, "kind", "graph_replay")
    one, graph = _LAUNCHES["launch"], _LAUNCHES["graph_replay"]
    number = columns["num_kernels"]
    times_s: FloatArray = np.where(
        is_graph,
        graph.first_s + graph.kernel_s * number,
        one.first_s + one.kernel_s * number,
    )
    return times_s


def _copy_s(device: SyntheticDevice, columns: Columns) -> FloatArray:
    is_peer = bool(is_choice(columns, "direction", "p2p").any())
    device.needs_gpus(2 if is_peer else 1)
    link = device.spec.nvlink_bytes_per_s if is_peer else device.spec.pcie_bytes_per_s
    rate = link * _COPY_SHARES[bool(columns["pinned"].all())]
    form = CopyForm(latency_s=_COPY_LATENCY_S, bytes_per_s=rate)
    times_s: FloatArray = form.latency_s + columns["num_bytes"] / form.bytes_per_s
    return times_s


def _all_reduce_s(device: SyntheticDevice, columns: Columns) -> FloatArray:
    device.needs_gpus(float(columns["num_gpus"].max()))
    times_s: FloatArray = device.kernel("nccl").time_s(columns["num_bytes"], columns["num_gpus"])
    return times_s


_SECONDS = {
    "stream": _stream_s,
    "gemm": _gemm_s,
    "decode_attention": lambda device, columns: decode_s(
        device.kernel("decode_attention"), columns
    ),
    "shared_prefix": lambda device, columns: unaware_s(device.kernel("shared_prefix"), columns),
    "cascade": _cascade_s,
    "packed": lambda device, columns: packed_s(device.kernel("shared_prefix").packed, columns),
    "prefill": lambda device, columns: prefill_s(device.kernel("prefill_attention"), columns),
    "mixed": _mixed_s,
    "launch": _launch_s,
    "copy": _copy_s,
    "all_reduce": _all_reduce_s,
}
"""Seconds of the cases of each benchmark, shape (cases,)."""


@dataclass(slots=True)
class SimulatedTime:
    """A synthetic device whose own clock stands in for the wall's.

    A budget then leaves out the same cases as on a GPU, and no time passes.

    Args:
        device: measures.

    Attributes:
        now_s: seconds since the start.
    """

    device: SyntheticDevice
    now_s: float = 0.0

    @property
    def info(self) -> DeviceInfo:
        """Of the device."""
        return self.device.info

    @property
    def versions(self) -> dict[str, str]:
        """Of the device."""
        return self.device.versions

    def clock(self) -> float:
        """Seconds since the start."""
        return self.now_s

    def measure(self, case: Case) -> Measurement:
        """Measure a case and let its time pass.

        Raises:
            UnmeasurableError: see `SyntheticDevice.measure`.
        """
        measurement = self.device.measure(case)
        self.now_s += self.device.took_s(case)
        return measurement
