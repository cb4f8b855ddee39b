"""Links that carry KV caches: latency plus bytes over bandwidth, shared fairly when several run.

Not modelled: messages split over several links, priorities, switches that are shared by more than
two ends, the host's memory as a bottleneck of its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np

from hwmodels.device import DeviceSpec
from hwmodels.kernels.arrays import Numbers, as_times, sizes
from sim.errors import ConfigError
from sim.interfaces import FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """One direction of a link between two ends.

    Attributes:
        name: what it is.
        latency_s: time before the first byte arrives, seconds.
        bytes_per_s: rate of a single large message.
        source: where both come from.

    Raises:
        ConfigError: a negative latency, or a rate that is not positive.
    """

    name: str
    latency_s: float
    bytes_per_s: float
    source: str = ""

    def __post_init__(self) -> None:
        if not 0.0 <= self.latency_s < np.inf:
            raise ConfigError(f"link {self.name}: latency_s must be at least 0: {self.latency_s}")
        if not 0.0 < self.bytes_per_s < np.inf:
            raise ConfigError(f"link {self.name}: bytes_per_s must be above 0: {self.bytes_per_s}")

    def time_s(self, num_bytes: Numbers) -> FloatArray:
        """Seconds of a message that has the link to itself; arrays broadcast.

        Raises:
            ConfigError: a negative size.
        """
        moved = sizes("num_bytes", num_bytes, 0.0)
        return as_times(self.latency_s + moved / self.bytes_per_s)

    def shared_ends_s(self, start_s: Sequence[float], num_bytes: Sequence[float]) -> FloatArray:
        """Ends of messages that share the link fairly, seconds. Shape (messages,).

        Those under way at an instant have equal parts of the rate; the latency of a message takes
        nothing from the others.

        Args:
            start_s: when each message is sent, in any order.
            num_bytes: its size.

        Raises:
            ConfigError: a negative size, or lists of unequal length.
        """
        starts = np.asarray(start_s, dtype=np.float64)
        left = sizes("num_bytes", num_bytes, 0.0)
        if starts.shape != left.shape or starts.ndim != 1:
            raise ConfigError(
                f"start_s and num_bytes must be equally long lists: {starts.shape}, {left.shape}"
            )
        ends_s = np.empty(len(starts))
        # What one message under way has received since the beginning, bytes; a message ends when
        # that has grown by its own size.
        received, now_s = 0.0, 0.0
        under_way: list[tuple[float, int]] = []
        arrivals = sorted(range(len(starts)), key=lambda row: (starts[row], row))
        for row in [*arrivals, None]:
            until_s = np.inf if row is None else starts[row] + self.latency_s
            while under_way:
                target, first = under_way[0]
                end_s = now_s + (target - received) * len(under_way) / self.bytes_per_s
                if end_s > until_s:
                    break
                heappop(under_way)
                received, now_s, ends_s[first] = target, end_s, end_s
            if row is not None:
                if under_way:
                    received += (until_s - now_s) * self.bytes_per_s / len(under_way)
                now_s = until_s
                heappush(under_way, (received + float(left[row]), row))
        return ends_s


_HOST_LATENCY_S = 10e-6
"""A copy between host and device costs about this before its bytes move (assumed)."""
_HOST_SHARE = 0.85
"""Share of the PCIe peak that large copies from pinned memory reach (assumed)."""

NVLINK_LATENCY_S = 8e-6
NVLINK_SHARE = 0.8
"""Latency of a message between two GPUs of a node, and its share of the peak.

Source: send and receive of NCCL in Vidur's network profiles (H100 DGX 7.7 us and 359 of 450 GB/s,
error 3 % on held-out sizes; A100 DGX 13.6 us and 289 GB/s, 10 %)."""

NIC_LATENCY_S = 20e-6
NIC_BYTES_PER_S = 36e9
"""Between two nodes. Source: the same profiles, H100 DGX with one 400 Gb/s adapter (19.7 us, 36.0
GB/s, error 5 %); an A100 DGX has 28.7 us and 7.8 GB/s there."""


def host_link(device: DeviceSpec) -> Link:
    """Link between the memory of the host and a GPU."""
    rate = _HOST_SHARE * device.pcie_bytes_per_s
    return Link(name="pcie", latency_s=_HOST_LATENCY_S, bytes_per_s=rate, source="assumed")


def peer_link(device: DeviceSpec) -> Link:
    """Link between two GPUs of a node."""
    rate = NVLINK_SHARE * device.nvlink_bytes_per_s
    source = "Vidur network profiles, H100 DGX"
    return Link(name="nvlink", latency_s=NVLINK_LATENCY_S, bytes_per_s=rate, source=source)


def network_link(bytes_per_s: float = NIC_BYTES_PER_S, latency_s: float = NIC_LATENCY_S) -> Link:
    """Link between two nodes; the adapter is no part of a GPU's profile."""
    source = "Vidur network profiles, H100 DGX, unless given"
    return Link(name="nic", latency_s=latency_s, bytes_per_s=bytes_per_s, source=source)
