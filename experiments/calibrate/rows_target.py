"""Which device `flocksim-calibrate fit` fits to rows, and where its profile lies or is written.

A profile that is there is the user's: its peaks may be those of a datasheet. It is used, never
replaced.
"""

import argparse
import re
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from hwmodels.device import DeviceSpec, available_profiles, load_profile
from hwmodels.fitting.rows_device import ASSUMED, check_same_gpu, device_of_rows, device_record
from hwmodels.fitting.rows_file import RowsFile
from hwmodels.kernels.models import available_kernels
from hwmodels.overlay import BASE_KEY
from hwmodels.strict_json import looks_like_path, read_object, shown
from sim.errors import ConfigError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


@dataclass(frozen=True, slots=True)
class Target:
    """What is fitted.

    Attributes:
        device: the GPU.
        out: its profile.
        is_kept: whether the profile is there and stays as it is.
    """

    device: DeviceSpec
    out: Path
    is_kept: bool


def target_of(given: argparse.Namespace, file: RowsFile) -> Target:
    """The device of a command line.

    Raises:
        ConfigError: the profile cannot be read or is of another GPU, the name is none, or another
            file lies where the profile goes.
    """
    name: str = given.device
    if looks_like_path(name):
        device = load_profile(name)
        check_same_gpu(device, file)
        out = Path(given.out or f"{device.name}.json")
        return Target(device, out, _is_it(out, device, Path(name)))
    out = Path(given.out or f"{name}.json")
    if _holds(out, name):
        return Target(_existing(name, out, file), out, is_kept=True)
    return Target(_device(name, file), out, is_kept=False)


def _device(name: str, file: RowsFile) -> DeviceSpec:
    """A packaged profile; under a name that none has, one made from the rows."""
    if name in available_profiles():
        device = load_profile(name)
        check_same_gpu(device, file)
        return device
    if not _NAME.fullmatch(name):
        raise ConfigError(f"--device must be a name or a .json path, found {shown(name)}")
    device = device_of_rows(name, file)
    _tell(name, f"no such profile, made from the rows of {device.title}")
    link = device.sources["nvlink_bytes_per_s"]
    if link.startswith(ASSUMED):
        _tell(name, f"nvlink_bytes_per_s {device.nvlink_bytes_per_s:g} is {link}")
    return device


def _existing(name: str, out: Path, file: RowsFile) -> DeviceSpec:
    device = load_profile(out)
    check_same_gpu(device, file)
    _tell(name, f"{out} is there: used as it is, only its kernels are fitted")
    # Kernels of an earlier fit to rows must not decide about this one.
    return replace(device, kernels_at=name if name in available_kernels() else "")


def _holds(out: Path, name: str) -> bool:
    """Whether a device profile of that name is there; refuses every other file."""
    if not out.exists():
        return False
    record = read_object(out)
    if BASE_KEY in record or "constants" not in record or record.get("name") != name:
        raise ConfigError(
            f"{out} exists and is no device profile of the name {name}: choose another --out"
        )
    return True


def _is_it(out: Path, device: DeviceSpec, given: Path) -> bool:
    """Whether `out` is the profile that was given; refuses a file that differs from it."""
    if not out.exists():
        return False
    if not out.samefile(given) and read_object(out) != device_record(device):
        raise ConfigError(
            f"{out} exists and differs from {given}: name it as the device, or choose another --out"
        )
    return out.samefile(given)


def _tell(name: str, text: str) -> None:
    print(f"{name}: {text}", file=sys.stderr)
