"""Kernels that stand until rows say otherwise: those of the device's profile, or of the nearest."""

from dataclasses import dataclass

from hwmodels.device import DeviceSpec
from hwmodels.fitting.kernel_transfer import transfer_kernels
from hwmodels.fitting.transferred_device import nearest_measured
from hwmodels.kernels.models import KernelModels


@dataclass(frozen=True, slots=True, kw_only=True)
class Priors:
    """Kernels before any row is seen.

    Attributes:
        models: of the device that is fitted.
        origin: name of the profile that they come from.
    """

    models: KernelModels
    origin: str


def priors_of(device: DeviceSpec, date: str) -> Priors:
    """The kernels that a device has already, else those of the nearest measured profile, scaled.

    Raises:
        ConfigError: its kernels cannot be read.
    """
    if device.kernels_at:
        return Priors(models=device.kernels, origin=device.name)
    near = nearest_measured(device)
    return Priors(models=transfer_kernels(near.kernels, near, device, date), origin=near.name)
