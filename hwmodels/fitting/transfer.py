"""Kernels that nobody measured on a device, taken from another one and marked as extrapolated.

Rates scale by the ratio of the datasheet peaks; fixed times, exponents and weights stay. Not
modelled: anything else in which the devices differ. Errors on the new device are unknown.
"""

import re
from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from hwmodels.device import DeviceSpec
from hwmodels.fitting.rounding import rounded
from hwmodels.kernels.l2_curve import L2Curve
from hwmodels.kernels.provenance import Provenance

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    ModelT = TypeVar("ModelT", bound=DataclassInstance)
else:
    ModelT = TypeVar("ModelT")

PCIE_SOURCE = (
    "midpoint and width restated from the curve of an H100 PCIe (RRZE-HPC/gpu-benches), L2 rate as "
    "measured there, memory rate the same share of the peak."
)
_DONOR = re.compile(r"Transferred from (\S+): ")
_PCIE_MIDPOINT_BYTES = 48.71 * 2**20
_PCIE_LOG_WIDTH = 0.095


def scaled_to(
    model: ModelT, source: DeviceSpec, target: DeviceSpec, kept: frozenset[str]
) -> ModelT:
    """A model with its rates scaled by the ratio of peaks, nested models included.

    Args:
        model: of the source device.
        source: device that was measured.
        target: device that was not.
        kept: fields that stay as they are.
    """
    ratios = {
        "flops_per_s": target.peak_flops_per_s / source.peak_flops_per_s,
        "bytes_per_s": target.hbm_bytes_per_s / source.hbm_bytes_per_s,
    }
    changes: dict[str, Any] = {}
    for item in fields(model):
        value = getattr(model, item.name)
        if item.name in kept:
            continue
        if is_dataclass(value) and not isinstance(value, type):
            changes[item.name] = scaled_to(value, source, target, kept)
            continue
        for unit, ratio in ratios.items():
            if item.name.endswith(unit) and value is not None:
                changes[item.name] = rounded(value * ratio)
    return replace(model, **changes)


def transferred(provenance: Provenance, source: DeviceSpec, scaling: str) -> Provenance:
    """The record of a transferred kernel: no rows, no errors, extrapolated."""
    return Provenance(
        standard_errors=dict.fromkeys(provenance.standard_errors),
        num_rows=0,
        heldout_mape=None,
        source=f"Transferred from {source.name}: {scaling} There: {provenance.source}",
        valid=provenance.valid,
        is_extrapolated=True,
    )


def donor_of(provenance: Provenance) -> str | None:
    """Name of the device that a kernel was transferred from, as `transferred` states it."""
    found = _DONOR.match(provenance.source)
    return found.group(1) if found else None


def h100_l2_curve(measured: L2Curve, source: DeviceSpec, target: DeviceSpec) -> L2Curve:
    """L2 curve of an H100 SXM: the PCIe card's cache, the H200's processors and clock.

    The L2 rate is that of the source, the memory's the same share of its peak as there.
    """
    hbm_share = measured.hbm_bytes_per_s / source.hbm_bytes_per_s
    return L2Curve(
        midpoint_bytes=rounded(_PCIE_MIDPOINT_BYTES),
        log_width=_PCIE_LOG_WIDTH,
        l2_bytes_per_s=measured.l2_bytes_per_s,
        hbm_bytes_per_s=rounded(hbm_share * target.hbm_bytes_per_s),
    )
