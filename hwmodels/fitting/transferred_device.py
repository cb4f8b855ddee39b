"""A user's GPU without kernels of its own, with those of the nearest one that was measured."""

from dataclasses import dataclass, fields
from math import log

from hwmodels.device import DeviceSpec, load_profile
from hwmodels.fitting.kernel_transfer import measured_devices, transfer_kernels
from hwmodels.kernels.models import KernelModels
from sim.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferredDevice(DeviceSpec):
    """A device whose kernels lie in no file.

    Attributes:
        models: its kernels, transferred.
    """

    models: KernelModels

    @property
    def kernels(self) -> KernelModels:
        """The transferred kernel models, with their provenance."""
        return self.models


def nearest_measured(device: DeviceSpec) -> DeviceSpec:
    """The packaged profile with measured kernels that is nearest in architecture.

    Nearest is the ratio of compute peak per processor, which tells one generation of tensor cores
    from the next; of equals, that of memory peak per processor; then the name.
    """

    def distance(donor: DeviceSpec) -> tuple[float, float, str]:
        per_sm = device.num_sms / donor.num_sms
        flops = device.peak_flops_per_s / donor.peak_flops_per_s
        hbm = device.hbm_bytes_per_s / donor.hbm_bytes_per_s
        return abs(log(flops / per_sm)), abs(log(hbm / per_sm)), donor.name

    return min((load_profile(name) for name in measured_devices()), key=distance)


def with_transferred_kernels(device: DeviceSpec) -> TransferredDevice:
    """The device with the kernels of `nearest_measured`, scaled and marked as extrapolated.

    Raises:
        ConfigError: it bears the name of a measured device, or a scaled constant leaves the range
            that is allowed.
    """
    donor = nearest_measured(device)
    try:
        models = transfer_kernels(donor.kernels, donor, device, donor.kernels.date)
    except ConfigError as error:
        raise ConfigError(f"no kernels for device {device.name}: {error}") from None
    constants = {item.name: getattr(device, item.name) for item in fields(DeviceSpec)}
    # Any text that is not empty says that there are kernels.
    constants["kernels_at"] = f"transferred from {donor.name}"
    return TransferredDevice(**constants, models=models)
