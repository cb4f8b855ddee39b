"""One line of a rows file: header, measured row, failed case. Source: schema 1."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from hwmodels.microbench.cases import Case

SCHEMA = 1
"""Version of the format."""
VERSION_KEYS = ("python", "torch", "triton", "numpy", "cuda", "driver")
"""What a header says about the software."""
_MEASURED_BY = ("torch", "triton", "cuda", "driver")
"""Versions that may change a time: rows of others do not go into one file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceInfo:
    """The GPU of a rows file.

    Attributes:
        name: as its driver says.
        num_sms: streaming multiprocessors.
        l2_bytes: L2 cache.
        memory_bytes: device memory in all.
        compute_capability: major and minor, such as 9.0.
        num_gpus: GPUs of this kind that the process sees.
    """

    name: str
    num_sms: int
    l2_bytes: int
    memory_bytes: int
    compute_capability: str
    num_gpus: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """First line of a rows file.

    Attributes:
        device: the GPU.
        versions: software by name, the keys of `VERSION_KEYS`; "none" where one is absent.
        date: day of the first measurement, ISO 8601.
        plan: name of the plan.
        seed: of the order of cases and of the data.
    """

    device: DeviceInfo
    versions: Mapping[str, str]
    date: str
    plan: str
    seed: int

    def difference(self, other: "Header") -> str | None:
        """Why rows under `other` do not belong under this header; None if they do."""
        for key, value in asdict(self.device).items():
            found = getattr(other.device, key)
            if found != value:
                return f"device {key} {found} and not {value}"
        for key in _MEASURED_BY:
            if other.versions[key] != self.versions[key]:
                return f"{key} {other.versions[key]} and not {self.versions[key]}"
        if (other.plan, other.seed) != (self.plan, self.seed):
            return f"plan {other.plan} seed {other.seed} and not {self.plan} seed {self.seed}"
        return None

    def record(self) -> dict[str, object]:
        """The line as a JSON object."""
        return {
            "kind": "header",
            "schema": SCHEMA,
            "device": asdict(self.device),
            "versions": {key: self.versions[key] for key in VERSION_KEYS},
            "date": self.date,
            "plan": self.plan,
            "seed": self.seed,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """What a device says of one case.

    Attributes:
        p20_s: 20th percentile of the times, seconds.
        p50_s: their median.
        p80_s: their 80th percentile.
        repeats: times measured.
        max_error: largest error of the checked results; None where nothing is computed.
        tolerance: what it may be.
    """

    p20_s: float
    p50_s: float
    p80_s: float
    repeats: int
    max_error: float | None = None
    tolerance: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One measured case.

    Attributes:
        case: the benchmark and its parameters.
        measurement: its times.
        took_s: seconds that it took in all, set-up, compilation and checks included.
    """

    case: Case
    measurement: Measurement
    took_s: float

    def record(self) -> dict[str, object]:
        """The line as a JSON object."""
        return {
            **_case_record("row", self.case),
            **asdict(self.measurement),
            "bytes": self.case.num_bytes,
            "flops": self.case.num_flops,
            "took_s": self.took_s,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """One case that could not be measured.

    Attributes:
        case: the benchmark and its parameters.
        why: one line.
    """

    case: Case
    why: str

    def record(self) -> dict[str, object]:
        """The line as a JSON object."""
        return {**_case_record("failure", self.case), "why": self.why}


def _case_record(kind: str, case: Case) -> dict[str, object]:
    return {"kind": kind, "case": case.name, "id": case.id, "params": case.params}
