"""Copies of a GPU's profile in which one constant is another, to see what hangs on it."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from experiments.results.atomic import make_writable, write_text
from experiments.results.json_text import json_text
from hwmodels.device import CONSTANT_UNITS, DeviceSpec
from hwmodels.kernels.models import KernelModels

MIB = 2**20

MIDPOINTS_MIB = (40, 80, 105)
"""About the prefix of one layer (39 MiB); the range that is in doubt, 80 to 105."""

BLOCK_RATE_FACTORS = (0.8, 1.25)
"""Of the fitted rate of one thread block."""


@dataclass(frozen=True, slots=True)
class Variation:
    """Kernels with one constant changed.

    Attributes:
        label: what is changed, for tables.
        name: for files.
        models: the kernels.
    """

    label: str
    name: str
    models: KernelModels


def variations(models: KernelModels) -> Iterator[Variation]:
    """The variations that these kernels allow."""
    if models.l2 is not None:
        for mib in MIDPOINTS_MIB:
            curve = replace(models.l2, midpoint_bytes=float(mib * MIB))
            yield Variation(
                f"L2 midpoint {mib} MiB", f"midpoint_{mib}_mib", replace(models, l2=curve)
            )
    decode = models.decode_attention
    if decode is not None and decode.cta_gqa_bytes_per_s is not None:
        for factor in BLOCK_RATE_FACTORS:
            changed = replace(decode, cta_gqa_bytes_per_s=factor * decode.cta_gqa_bytes_per_s)
            yield Variation(
                f"thread block {100 * (factor - 1):+.0f} %",
                f"block_rate_{100 * factor:.0f}_percent",
                replace(models, decode_attention=changed),
            )


def write_profile(device: DeviceSpec, variation: Variation, folder: Path) -> Path:
    """Write a profile with the kernels of a variation; returns its path.

    Raises:
        OutputError: it cannot be written there.
    """
    make_writable(folder / "kernels")
    name = f"{variation.name}.json"
    write_text(folder / "kernels" / name, json_text(variation.models.to_json()))
    write_text(folder / name, json_text(_record(device)))
    return folder / name


def _record(device: DeviceSpec) -> dict[str, object]:
    """The profile as its file holds it."""
    return {
        "name": device.name,
        "title": device.title,
        "date": device.date,
        "constants": {
            key: {"value": getattr(device, key), "unit": unit, "source": device.sources[key]}
            for key, unit in CONSTANT_UNITS.items()
            if key in device.sources
        },
    }
