"""The GPU that a job names, with kernels where its fidelity needs them."""

from dataclasses import replace
from pathlib import Path

from experiments.schema.job import HardwareConfig
from hwmodels.device import DeviceSpec, load_profile
from sim.errors import ConfigError

NEEDS_NO_KERNELS = ("roofline",)
"""Fidelities that price steps from the constants of a profile alone."""


def chosen_device(hardware: HardwareConfig) -> DeviceSpec:
    """Load the profile; with `allow_transfer` take the kernels of another GPU.

    Raises:
        ConfigError: the profile cannot be read, has no kernels where they are needed, or
            `allow_transfer` would have no effect.
    """
    device = load_profile(Path(hardware.path) if hardware.path else str(hardware.profile))
    is_tabled = hardware.fidelity == "table"
    if is_tabled and hardware.table is None:
        raise ConfigError(
            "hardware.fidelity=table needs hardware.table=FILE; flocksim-calibrate table makes one"
        )
    if hardware.table is not None:
        if not is_tabled:
            raise ConfigError(
                f"hardware.table has no effect with hardware.fidelity={hardware.fidelity}: choose "
                "table, or leave it out"
            )
        device = replace(device, table_at=hardware.table)
    needs_kernels = hardware.fidelity not in NEEDS_NO_KERNELS
    if hardware.allow_transfer:
        _refuse_idle_transfer(hardware, device, needs_kernels)
        from hwmodels.fitting.transferred_device import with_transferred_kernels

        return with_transferred_kernels(device)
    if needs_kernels and not device.kernels_at:
        from hwmodels.fitting.transferred_device import nearest_measured

        where = f"{hardware.path}: " if hardware.path else ""
        raise ConfigError(
            f"{where}device {device.name} has no calibrated kernels (a profile FOLDER/MINE.json of "
            f"your own needs FOLDER/kernels/MINE.json), and hardware.fidelity={hardware.fidelity} "
            f"needs them; hardware.allow_transfer=true takes those of "
            f"{nearest_measured(device).name}, scaled and flagged as extrapolated, and "
            "hardware.fidelity=roofline needs none"
        )
    return device


def _refuse_idle_transfer(
    hardware: HardwareConfig, device: DeviceSpec, needs_kernels: bool
) -> None:
    """Refuse `allow_transfer` where nothing would be transferred."""
    why = ""
    if not needs_kernels:
        why = f"hardware.fidelity={hardware.fidelity} uses no kernels"
    elif device.kernels_at:
        why = f"device {device.name} has kernels"
    if why:
        raise ConfigError(f"hardware.allow_transfer=true has no effect, for {why}: leave it out")
