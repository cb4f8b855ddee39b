"""A profile as the command line names it: a device, or kernels alone, with the kernels of both."""

from dataclasses import dataclass, replace
from pathlib import Path

from hwmodels.device import DeviceSpec, available_profiles, load_profile
from hwmodels.kernels.models import KernelModels, load_kernels
from hwmodels.strict_json import looks_like_path, read_object
from sim.errors import ConfigError


def is_device_profile(name_or_path: str) -> bool:
    """Whether a path holds a device profile and not the kernels of one.

    Raises:
        ConfigError: it cannot be read.
    """
    return looks_like_path(name_or_path) and "kernels" not in read_object(Path(name_or_path))


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
        label: as the command line names it.
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
    label = Path(name_or_path).stem if looks_like_path(name_or_path) else name_or_path
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
