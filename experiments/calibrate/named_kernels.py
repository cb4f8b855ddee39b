"""A profile as the command line names it: a device, or kernels alone, with the kernels of both."""

from dataclasses import dataclass, replace
from pathlib import Path

from hwmodels.device import DeviceSpec, available_profiles, load_profile
from hwmodels.kernels.models import KernelModels, load_kernels
from hwmodels.overlay import BASE_KEY, overlay_of
from hwmodels.strict_json import looks_like_path, read_object
from sim.errors import ConfigError


def is_device_profile(name_or_path: str) -> bool:
    """Whether a path holds a device profile and not the kernels of one.

    Raises:
        ConfigError: it cannot be read.
    """
    return looks_like_path(name_or_path) and "kernels" not in read_object(Path(name_or_path))


def refuse_device_profile(out: Path) -> None:
    """Keep a command that writes something else from replacing a device profile.

    Raises:
        ConfigError: the file is one.
    """
    try:
        record = read_object(out)
    except ConfigError:  # not there, or nothing that flocksim reads
        return
    if "constants" in record:
        raise ConfigError(f"{out} is a device profile, which stays as it is: choose another --out")


def kernels_named(name_or_path: str) -> KernelModels:
    """Kernels of a packaged device, of a file of kernels, or of a device profile of the user's own.

    Raises:
        ConfigError: there are none.
    """
    if is_device_profile(name_or_path):
        return load_profile(name_or_path).kernels
    return load_kernels(name_or_path)


@dataclass(frozen=True, slots=True)
class NamedProfile:
    """A device with kernels.

    Attributes:
        label: as the command line names it; an overlay by its own name.
        device: peaks and capacities; answers times by the kernels.
        models: its kernels.
    """

    label: str
    device: DeviceSpec
    models: KernelModels


def profile_named(name_or_path: str) -> NamedProfile:
    """The device and kernels of a name or path.

    Raises:
        ConfigError: there are no kernels, or a file of kernels belongs to no packaged device.
    """
    label = _label(name_or_path)
    if not looks_like_path(name_or_path) or is_device_profile(name_or_path):
        device = load_profile(name_or_path)
        return NamedProfile(label, device, device.kernels)
    models = load_kernels(name_or_path)
    if models.device not in available_profiles():
        raise ConfigError(
            f"{name_or_path}: kernels of {models.device}, of which no profile is packaged; "
            "name the device profile instead"
        )
    device = replace(load_profile(models.device), kernels_at=name_or_path)
    return NamedProfile(label, device, models)


def _label(name_or_path: str) -> str:
    if not looks_like_path(name_or_path):
        return name_or_path
    path = Path(name_or_path)
    record = read_object(path)
    # What `against` writes is called overlay.json, whatever it is of.
    return overlay_of(path, record).name if BASE_KEY in record else path.stem
