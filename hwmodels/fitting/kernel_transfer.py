"""All kernels of a GPU that nobody measured, from those of one that was.

`hwmodels.fitting.transfer_rules` says how a constant changes; collectives and the L2 curve have
rules of their own here. Not modelled: the error that this makes.
"""

from dataclasses import fields, replace
from typing import Any

from hwmodels.device import DeviceSpec, load_profile
from hwmodels.fitting.rounding import rounded
from hwmodels.fitting.transfer import transferred
from hwmodels.fitting.transfer_facts import (
    L2_DONORS,
    L40_CURVE,
    L40_DIES,
    L40_PEAK_BYTES_PER_S,
    L40_RANGE_BYTES,
    L40_SOURCE,
)
from hwmodels.fitting.transfer_rules import TransferRules, moved_model
from hwmodels.kernels.all_reduce import AllReduceModel
from hwmodels.kernels.l2_curve import L2Curve
from hwmodels.kernels.models import KERNEL_CLASSES, KernelModels, available_kernels, load_kernels
from hwmodels.kernels.provenance import Provenance
from sim.errors import ConfigError


def transfer_kernels(
    models: KernelModels, source: DeviceSpec, target: DeviceSpec, date: str
) -> KernelModels:
    """Kernels of `target`, all of them marked as extrapolated.

    Compute rates follow the datasheet peaks, memory rates the measured streams where both are known
    and else the peaks, never above the target's; reads that L2 serves the L2 rates; numbers of
    processors and slots the processors; messages of collectives the links.

    Args:
        models: of `source`.
        source: the device that was measured.
        target: the device that was not.
        date: stated in the profile, ISO 8601.

    Raises:
        ConfigError: both are the same device, `source` was not measured itself, or a constant
            leaves the range that is allowed.
    """
    if source.name == target.name:
        raise ConfigError(
            f"a profile named {target.name} cannot take the kernels of {source.name}: it is the "
            "same device, or needs another name"
        )
    if not is_measured(models):
        raise ConfigError(
            f"device {source.name} was not measured, its kernels are transferred themselves; "
            f"measured: {', '.join(measured_devices())}"
        )
    found: dict[str, Any] = {}
    records: dict[str, Provenance] = {}
    curve, curve_record = _l2_curve(models, source, target)
    l2_ratio = target.num_sms / source.num_sms
    if curve is not None and models.l2 is not None:
        l2_ratio = curve.l2_bytes_per_s / models.l2.l2_bytes_per_s
    for name, model_class in KERNEL_CLASSES.items():
        model, rules = getattr(models, name), TransferRules(source, target, l2_ratio)
        found[name] = None
        if name == "l2":
            found[name] = curve
            if curve_record is not None:
                records[name] = curve_record
        elif model_class is AllReduceModel and model is not None:
            found[name], records[name] = _all_reduce(models, name, rules)
        elif model is not None:
            siblings = {item.name: found[item.name] for item in fields(model) if item.name in found}
            found[name] = replace(moved_model(model, rules, siblings), **siblings)
            records[name] = transferred(models.provenance[name], source, rules.told())
    return KernelModels(
        device=target.name, provenance=records, date=date, inputs=dict(models.inputs), **found
    )


def is_measured(models: KernelModels) -> bool:
    """Whether any kernel was fitted to measurements of the device itself."""
    return any(not record.is_extrapolated for record in models.provenance.values())


def measured_devices() -> list[str]:
    """Names of the packaged profiles with kernels that were measured, sorted."""
    return [name for name in available_kernels() if is_measured(load_kernels(name))]


def _all_reduce(
    models: KernelModels, name: str, rules: TransferRules
) -> tuple[AllReduceModel, Provenance]:
    """Messages at the ratio of link rates; on a device without NVLink those of NCCL for both.

    A square-root term is what messages take before they reach their rate: it gets longer where the
    link is slower, and never shorter.
    """
    source, target, ratio = rules.source, rules.target, rules.link_ratio
    has_nvlink = target.nvlink_bytes_per_s > target.pcie_bytes_per_s
    is_nccl = not has_nvlink and source.nvlink_bytes_per_s > source.pcie_bytes_per_s
    taken = "nccl" if is_nccl and models.nccl is not None else name
    model: AllReduceModel = getattr(models, taken)
    groups = tuple(
        replace(
            group,
            bytes_per_s=rounded(group.bytes_per_s * ratio),
            root_s=rounded(group.root_s / min(ratio, 1.0)),
        )
        for group in model.groups
    )
    scaling = f"message rates by the ratio of link rates ({ratio:.4g}), fixed times unchanged"
    if ratio < 1.0:
        scaling += ", the square-root term longer by its inverse"
    if taken != name:
        scaling += (
            "; constants of eager NCCL, for vLLM's custom kernel serves more than two GPUs only "
            "with NVLink"
        )
    if not has_nvlink:
        scaling += "; what bridges and sockets between the GPUs take is not in it"
    record = transferred(models.provenance[taken], source, f"{scaling}; the error is unknown.")
    return AllReduceModel(groups=groups), record


def _l2_curve(
    models: KernelModels, source: DeviceSpec, target: DeviceSpec
) -> tuple[L2Curve | None, Provenance | None]:
    """Hit curve of the target and its record: of its die, else of its donor, else of the source."""
    if target.name in L40_DIES:
        return _l40_curve(target)
    donor = L2_DONORS.get(target.name, source.name)
    if donor != source.name:
        models, source = load_kernels(donor), load_profile(donor)
    if models.l2 is None:
        return None, None
    rules, curve = TransferRules(source, target), models.l2
    hbm_bytes_per_s = rules.moved("hbm_bytes_per_s", "memory", curve.hbm_bytes_per_s)
    l2_bytes_per_s = rounded(curve.l2_bytes_per_s * target.num_sms / source.num_sms)
    moved = L2Curve(
        midpoint_bytes=rounded(curve.midpoint_bytes * rules.l2_size_ratio),
        log_width=curve.log_width,
        l2_bytes_per_s=max(l2_bytes_per_s, hbm_bytes_per_s),
        hbm_bytes_per_s=hbm_bytes_per_s,
    )
    scaling = (
        f"midpoint by the ratio of L2 sizes ({rules.l2_size_ratio:.4g}), L2 rate by the number of "
        f"processors ({target.num_sms} for {source.num_sms}), {rules.told()}"
    )
    return moved, transferred(models.provenance["l2"], source, scaling)


def _l40_curve(target: DeviceSpec) -> tuple[L2Curve, Provenance]:
    rate = L40_CURVE.hbm_bytes_per_s * target.hbm_bytes_per_s / L40_PEAK_BYTES_PER_S
    record = Provenance(
        standard_errors=dict.fromkeys(item.name for item in fields(L2Curve)),
        num_rows=0,
        heldout_mape=None,
        source=f"Transferred from l40: {L40_SOURCE}",
        valid={"data_set_bytes": L40_RANGE_BYTES},
        is_extrapolated=True,
    )
    return replace(L40_CURVE, hbm_bytes_per_s=rounded(rate)), record
