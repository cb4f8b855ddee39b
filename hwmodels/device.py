"""One GPU as the cost models see it: peaks, capacities, constants of the roofline, kernel times.

A profile is a JSON file whose constants each carry unit and source; `load_profile` reads a packaged
one by name or a user's own by path. Not modelled: clocks that change with power or temperature,
NUMA effects of the host, links that leave the node.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from hwmodels.kernel_times import KernelTimes
from hwmodels.strict_json import (
    as_object,
    as_text,
    check_keys,
    looks_like_path,
    packaged_names,
    packaged_record,
    read_object,
    shown,
)
from sim.errors import ConfigError

_FOLDER = "profiles"
_LARGEST = 1e24
"""No constant of a GPU comes near; keeps infinity and absurd whole numbers out."""

_FILE_BOUNDS: dict[str, tuple[float, float]] = {
    "count": (1, 1e6),
    "flops/s": (1e6, _LARGEST),
    "bytes/s": (1e6, _LARGEST),
    "bytes": (1, 1e18),
    "ratio": (1e-3, 1),
    "s": (1e-12, 10),
    "s/request": (0, 1),
}
"""Smallest and largest constant of a profile by unit: outside, a unit was mistaken."""


@dataclass(frozen=True, slots=True)
class DeviceSpec(KernelTimes):
    """A GPU model. Every number is positive; ratios are at most 1.

    The methods of `KernelTimes` answer how long its kernels take, where those are calibrated.

    Attributes:
        name: name of the profile.
        num_sms: streaming multiprocessors in use.
        peak_flops_per_s: dense bf16 tensor-core peak.
        hbm_bytes_per_s: peak memory bandwidth.
        hbm_capacity_bytes: device memory as the CUDA runtime reports it (less than on the box).
        l2_bytes: L2 cache size as the CUDA runtime reports it.
        nvlink_bytes_per_s: NVLink peak to all peers together, in one direction.
        pcie_bytes_per_s: host link peak, in one direction.
        compute_efficiency_ratio: share of the compute peak that large kernels reach.
        hbm_efficiency_ratio: share of the memory peak that large kernels reach.
        nvlink_efficiency_ratio: share of the NVLink peak that a ring all-reduce reaches.
        collective_latency_s: fixed time of one collective inside the node.
        step_overhead_s: host time per engine step that the GPU waits for.
        cuda_context_bytes: memory taken by the CUDA context and library workspaces.
        step_overhead_request_s: host time that every request of a step adds; a profile may leave it
            out, and it is 0 then.
        title: the vendor's name of the product.
        date: when the profile was made, ISO 8601.
        sources: where each number comes from, by attribute name.
        kernels_at: name or path of the calibrated kernels; empty if there are none.
        table_at: path of a table of measured points that corrects them; empty if there is none.
        fitted_fidelity: how steps were priced when an overlay's constants were fitted to a server;
            empty: not fitted.
    """

    name: str
    num_sms: int = field(metadata={"unit": "count"})
    peak_flops_per_s: float = field(metadata={"unit": "flops/s"})
    hbm_bytes_per_s: float = field(metadata={"unit": "bytes/s"})
    hbm_capacity_bytes: int = field(metadata={"unit": "bytes"})
    l2_bytes: int = field(metadata={"unit": "bytes"})
    nvlink_bytes_per_s: float = field(metadata={"unit": "bytes/s"})
    pcie_bytes_per_s: float = field(metadata={"unit": "bytes/s"})
    compute_efficiency_ratio: float = field(metadata={"unit": "ratio"})
    hbm_efficiency_ratio: float = field(metadata={"unit": "ratio"})
    nvlink_efficiency_ratio: float = field(metadata={"unit": "ratio"})
    collective_latency_s: float = field(metadata={"unit": "s"})
    step_overhead_s: float = field(metadata={"unit": "s"})
    cuda_context_bytes: int = field(metadata={"unit": "bytes"})
    step_overhead_request_s: float = field(default=0.0, metadata={"unit": "s/request"})
    title: str = field(default="", compare=False)
    date: str = field(default="", compare=False)
    sources: dict[str, str] = field(default_factory=dict, compare=False, repr=False)
    kernels_at: str = field(default="", compare=False, repr=False)
    table_at: str = field(default="", compare=False, repr=False)
    fitted_fidelity: str = field(default="", compare=False, repr=False)

    def __post_init__(self) -> None:
        for key, unit in CONSTANT_UNITS.items():
            _check_number(f"device {self.name}: {key}", getattr(self, key), unit)

    @property
    def attainable_flops_per_s(self) -> float:
        """Compute rate of the roofline: peak times efficiency."""
        return self.peak_flops_per_s * self.compute_efficiency_ratio

    @property
    def attainable_hbm_bytes_per_s(self) -> float:
        """Memory rate of the roofline: peak times efficiency."""
        return self.hbm_bytes_per_s * self.hbm_efficiency_ratio

    @property
    def attainable_nvlink_bytes_per_s(self) -> float:
        """Rate at which one GPU sends in a collective: peak times efficiency."""
        return self.nvlink_bytes_per_s * self.nvlink_efficiency_ratio


CONSTANT_UNITS: dict[str, str] = {
    item.name: item.metadata["unit"] for item in fields(DeviceSpec) if "unit" in item.metadata
}
"""Unit of each constant of a profile, in the order of `DeviceSpec`."""

OPTIONAL_CONSTANTS = ("step_overhead_request_s",)
"""Constants that a profile may leave out."""


def _check_number(where: str, value: object, unit: str) -> int | float:
    is_whole = unit in ("count", "bytes")
    allowed = "a positive whole number" if is_whole else "a positive number"
    if unit == "s/request":
        allowed = "a number of at least 0"
    if unit == "ratio":
        allowed = "a number above 0 and at most 1"
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or (is_whole and not isinstance(value, int)):
        raise ConfigError(f"{where} must be {allowed}, found {shown(value)}")
    assert isinstance(value, int | float)
    is_null = value == 0 and unit == "s/request"
    if not (0 < value < _LARGEST or is_null) or (unit == "ratio" and value > 1):
        raise ConfigError(f"{where} must be {allowed}, found {shown(value)}")
    return value


def _check_in_file(where: str, value: object, unit: str) -> int | float:
    number = _check_number(where, value, unit)
    low, high = _FILE_BOUNDS[unit]
    if not low <= number <= high:
        raise ConfigError(f"{where} must be from {low:g} to {high:g} {unit}, found {shown(value)}")
    return number


def available_profiles() -> list[str]:
    """Names of the packaged profiles, sorted."""
    return packaged_names(_FOLDER)


def _packaged_kernels(name: str) -> str:
    """The name again, if the package carries calibrated kernels of that profile."""
    return name if (files("hwmodels") / _FOLDER / "kernels" / f"{name}.json").is_file() else ""


def _own_kernels(profile: Path) -> str:
    """Path of the kernels of a user's profile: the same file name in `kernels/` beside it."""
    path = profile.parent / "kernels" / profile.name
    return f"{path}" if path.is_file() else ""


def load_profile(name_or_path: str | Path) -> DeviceSpec:
    """Read a device profile, packaged (by name) or the user's own (by path).

    A profile `folder/mine.json` of the user's own has the calibrated kernels in
    `folder/kernels/mine.json`, if that file exists. One with the key `overlay_of` is another
    profile with some constants changed (`hwmodels.overlay`).

    Args:
        name_or_path: a name such as ``a100_sxm_80gb``, or a path: anything with a path separator
            or ending in ``.json``.

    Raises:
        ConfigError: unknown name, unreadable file, or a key or value that is not allowed.
    """
    source: Path | Traversable
    if isinstance(name_or_path, Path) or looks_like_path(name_or_path):
        source = Path(name_or_path)
        kernels_at = _own_kernels(source)
    else:
        source = packaged_record("hardware profile", _FOLDER, name_or_path)
        kernels_at = _packaged_kernels(name_or_path)
    record = read_object(source)
    if "overlay_of" in record:
        from hwmodels.overlay import overlaid

        return overlaid(Path(f"{source}"), record)
    check_keys(f"{source}", record, ("name", "title", "date", "constants"))
    constants = as_object(f"{source}: constants", record["constants"])
    required = [key for key in CONSTANT_UNITS if key not in OPTIONAL_CONSTANTS]
    check_keys(f"{source}: constants", constants, required, OPTIONAL_CONSTANTS)
    values, sources = read_constants(source, constants)
    texts = {key: as_text(f"{source}: {key}", record[key]) for key in ("name", "title", "date")}
    texts["kernels_at"] = kernels_at
    return DeviceSpec(**texts, **values, sources=sources)  # type: ignore[arg-type]


def read_constants(
    source: Path | Traversable, constants: Mapping[str, object]
) -> tuple[dict[str, float], dict[str, str]]:
    """Values and sources of the constants that a profile holds, in the order of `DeviceSpec`.

    Args:
        source: the file, for messages.
        constants: its constants, each an object of value, unit and source.

    Raises:
        ConfigError: a value, unit or source is not allowed.
    """
    values: dict[str, float] = {}
    sources: dict[str, str] = {}
    for key, unit in CONSTANT_UNITS.items():
        if key not in constants:
            continue
        where = f"{source}: {key}"
        entry = as_object(where, constants[key])
        check_keys(where, entry, ("value", "unit", "source"))
        if entry["unit"] != unit:
            raise ConfigError(f"{where}: unit must be {unit!r}, found {shown(entry['unit'])}")
        value = _check_in_file(f"{where}: value", entry["value"], unit)
        values[key] = value if unit in ("count", "bytes") else float(value)
        sources[key] = as_text(f"{where}: source", entry["source"])
    return values, sources
