"""A device profile for a GPU that no profile describes, from its header and its fastest rows.

The datasheet is not known: peaks are the fastest rates measured over the share of its peak that
the nearest profile reaches, so that the rates of the roofline are those measured. What no benchmark
says is taken from that profile.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hwmodels.device import CONSTANT_UNITS, DeviceSpec, load_profile
from hwmodels.fitting.kernel_transfer import measured_devices
from hwmodels.fitting.rounding import rounded
from hwmodels.fitting.rows_file import RowsFile, is_choice
from hwmodels.fitting.rows_overheads import CopyForm, fit_overheads
from hwmodels.fitting.transferred_device import nearest_measured
from hwmodels.measurements.rows import FloatArray
from hwmodels.strict_json import shown
from sim.errors import ConfigError

ASSUMED = "assumed:"
"""What the source of a constant begins with that rests on nothing measured here."""

_BEYOND_L2 = 4.0
"""Data sets of so many times the L2 cache are read from memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fastest:
    """Fastest rates of a file of rows.

    Attributes:
        flops_per_s: of a matrix product.
        hbm_bytes_per_s: of a read far larger than the L2 cache.
    """

    flops_per_s: float
    hbm_bytes_per_s: float


def fastest(file: RowsFile) -> Fastest:
    """Fastest rates of a file.

    Raises:
        ConfigError: it lacks the rows.
    """
    gemm, stream = file.rows_of("gemm"), file.rows_of("stream")
    rates: FloatArray = np.empty(0)
    if stream is not None:
        size = stream.columns["data_set_bytes"]
        is_far = size >= _BEYOND_L2 * file.header.device.l2_bytes
        is_read = is_choice(stream.columns, "op", "read")
        rates = (size / stream.time_s)[is_far & is_read]
    if gemm is None or not rates.size:
        lacking = "matrix products" if gemm is None else "reads far larger than the L2 cache"
        raise ConfigError(
            f"{file.path}: no rows of {lacking}, which a profile of a new GPU needs; "
            "name a profile of this GPU as the device, or measure longer"
        )
    columns = gemm.columns
    flops = 2.0 * columns["m"] * columns["n"] * columns["k"]
    return Fastest(
        flops_per_s=float((flops / gemm.time_s).max()), hbm_bytes_per_s=float(np.median(rates))
    )


def device_of_rows(name: str, file: RowsFile) -> DeviceSpec:
    """A device profile from the rows of a GPU.

    Args:
        name: of the profile.
        file: rows of the GPU.

    Raises:
        ConfigError: the file lacks the rows that give the peaks.
    """
    measured = fastest(file)
    gpu = file.header.device
    near = _nearest(measured, gpu.num_sms)
    stream_share = _stream_share(near)
    constants: dict[str, Any] = {
        "peak_flops_per_s": rounded(measured.flops_per_s / near.compute_efficiency_ratio),
        "hbm_bytes_per_s": rounded(measured.hbm_bytes_per_s / stream_share),
    }
    facts = {
        "num_sms": gpu.num_sms,
        "l2_bytes": gpu.l2_bytes,
        "hbm_capacity_bytes": gpu.memory_bytes,
    }
    links = _links(file, near)
    constants |= facts
    constants |= {key: value for key, (value, _) in links.items()}
    told = f"{gpu.name}, {file.header.date}"
    sources = dict.fromkeys(CONSTANT_UNITS, f"Taken from {near.name}, not measured here.")
    sources |= dict.fromkeys(facts, f"As its driver reports it: {told}.")
    sources["peak_flops_per_s"] = (
        f"Fastest matrix product ({measured.flops_per_s / 1e12:.1f} TFLOP/s, {told}) over the "
        f"{near.compute_efficiency_ratio:g} of its peak that {near.name} reaches."
    )
    sources["hbm_bytes_per_s"] = (
        f"Median read far beyond the L2 cache ({measured.hbm_bytes_per_s / 1e9:.0f} GB/s, {told}) "
        f"over the {stream_share:.3g} of its peak that {near.name} reaches."
    )
    sources |= {key: source for key, (_, source) in links.items()}
    return replace(
        near,
        name=name,
        title=gpu.name,
        date=file.header.date,
        sources=sources,
        kernels_at="",
        **constants,
    )


def _nearest(measured: Fastest, num_sms: int) -> DeviceSpec:
    """The measured profile that is nearest by the rates, which stand for the peaks here."""
    first = load_profile(measured_devices()[0])
    rates = replace(
        first,
        num_sms=num_sms,
        peak_flops_per_s=measured.flops_per_s,
        hbm_bytes_per_s=measured.hbm_bytes_per_s,
    )
    return nearest_measured(rates)


def _stream_share(near: DeviceSpec) -> float:
    """Share of the memory's peak that reads reach."""
    curve = near.kernels.l2
    rate = near.attainable_hbm_bytes_per_s if curve is None else curve.hbm_bytes_per_s
    return rate / near.hbm_bytes_per_s


def _links(file: RowsFile, near: DeviceSpec) -> dict[str, tuple[float, str]]:
    """Rates of the host link and between GPUs with their sources, where rows tell."""
    found = fit_overheads(file)
    told = f"{file.header.device.name}, {file.header.date}"
    rates = [
        form.bytes_per_s
        for name in ("copy h2d pinned", "copy d2h pinned")
        if name in found and isinstance(form := found[name].model, CopyForm)
    ]
    links: dict[str, tuple[float, str]] = {}
    if rates:
        links["pcie_bytes_per_s"] = (
            rounded(min(rates)),
            f"Slower direction of large copies of page-locked memory, measured: {told}.",
        )
    peer = found.get("copy p2p pinned")
    if peer is not None:
        links["nvlink_bytes_per_s"] = (
            rounded(peer.model.bytes_per_s),
            f"Large copies between two GPUs, measured: {told}.",
        )
    else:
        # The host link would make tensor parallelism far too slow on a GPU that has NVLink.
        links["nvlink_bytes_per_s"] = (
            near.nvlink_bytes_per_s,
            f"{ASSUMED} that of {near.name}; not measured with one GPU.",
        )
    return links


def device_record(device: DeviceSpec) -> dict[str, object]:
    """A device profile as JSON values; `load_profile` reads them back."""
    constants = {
        key: {"value": getattr(device, key), "unit": unit, "source": device.sources[key]}
        for key, unit in CONSTANT_UNITS.items()
        if key in device.sources
    }
    return {
        "name": device.name,
        "title": device.title,
        "date": device.date,
        "constants": constants,
    }


def check_same_gpu(device: DeviceSpec, file: RowsFile) -> None:
    """Check that rows were measured on the GPU of a profile.

    Raises:
        ConfigError: the number of processors differs.
    """
    gpu = file.header.device
    if gpu.num_sms != device.num_sms:
        raise ConfigError(
            f"{file.path}: measured on {shown(gpu.name)} with {gpu.num_sms} processors, "
            f"profile {device.name} has {device.num_sms}"
        )
