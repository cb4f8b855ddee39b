"""A device that answers at once, and a clock that moves only when told."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from hwmodels.microbench.case import Case
from hwmodels.microbench.errors import UnmeasurableError
from hwmodels.microbench.row_format import VERSION_KEYS, DeviceInfo, Measurement

A100 = DeviceInfo(
    name="NVIDIA A100-SXM4-80GB",
    num_sms=108,
    l2_bytes=40 << 20,
    memory_bytes=85_000_000_000,
    compute_capability="8.0",
    num_gpus=1,
)


@dataclass
class StandIn:
    """Takes `took_s` for every case, on its own clock; fails or is interrupted at some cases."""

    took_s: float = 0.1
    now_s: float = 0.0
    info: DeviceInfo = A100
    versions: Mapping[str, str] = field(default_factory=lambda: dict.fromkeys(VERSION_KEYS, "1"))
    fails_at: int = -1
    always_fails: bool = False
    interrupted_at: int = -1
    measured: list[Case] = field(default_factory=list)

    def clock(self) -> float:
        return self.now_s

    def measure(self, case: Case) -> Measurement:
        number = len(self.measured)
        self.measured.append(case)
        self.now_s += self.took_s
        if self.always_fails or number == self.fails_at:
            raise UnmeasurableError("wrong\nresult")
        if number == self.interrupted_at:
            raise KeyboardInterrupt
        return Measurement(p20_s=1e-5, p50_s=2e-5, p80_s=3e-5, repeats=7)
