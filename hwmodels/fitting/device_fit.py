"""Fits all kernels of a device: those with tables, then shared prefixes, then transfers."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hwmodels.device import DeviceSpec, load_profile
from hwmodels.fitting.device_plan import (
    KernelPlan,
    mixed_attention_plan,
    packs_queries,
    plan_of,
    plans_of,
)
from hwmodels.fitting.recipe import FittedKernel, fit_kernel
from hwmodels.fitting.recipes.mixed_attention import carried_to
from hwmodels.fitting.recipes.shared_prefix import SIBLINGS, ratio_rows, shared_prefix_recipe
from hwmodels.fitting.transfer import PCIE_SOURCE, h100_l2_curve, scaled_to, transferred
from hwmodels.kernels.models import KernelModels
from hwmodels.kernels.provenance import Provenance
from hwmodels.measurements.data_folder import TABLES
from hwmodels.measurements.rows import file_sha256
from hwmodels.measurements.shared_prefix import load_shared_prefix
from sim.errors import ConfigError

Report = Callable[[str, FittedKernel[Any] | None], None]
"""Told the name of each kernel when it is done; None for a transferred one."""

_DONORS = {
    "h100_sxm": {"moe": "a100_sxm_80gb", "shared_prefix": "a100_sxm_80gb", "l2": "h200_sxm"},
    "h200_sxm": {
        "moe": "a100_sxm_80gb",
        "shared_prefix": "a100_sxm_80gb",
        "small_ops": "h100_sxm",
    },
}
"""Device -> kernel that its tables lack -> device that it is taken from."""

_SCALED = "rates by the ratio of datasheet peaks, all else unchanged; the error here is unknown."


@dataclass(slots=True)
class DeviceFit:
    """A fit in progress, and at its end the whole of it.

    Attributes:
        models: kernel models by name.
        provenance: their records.
        files: tables read, relative to the folder of measurements.
        fitted: what was fitted here, by name; transfers are not among it.
    """

    models: dict[str, Any] = field(default_factory=dict)
    provenance: dict[str, Provenance] = field(default_factory=dict)
    files: set[str] = field(default_factory=set)
    fitted: dict[str, FittedKernel[Any]] = field(default_factory=dict)

    def add(self, kernel: str, files: tuple[str, ...], found: FittedKernel[Any]) -> None:
        """Take a kernel that was fitted."""
        self.models[kernel], self.provenance[kernel] = found.model, found.provenance
        self.fitted[kernel] = found
        self.files.update(files)


def fit_device(name: str, folder: Path, date: str, report: Report | None = None) -> KernelModels:
    """Fit every kernel of a device to the tables of a folder.

    Args:
        name: device profile; see `hwmodels.measurements.data_folder.TABLES`.
        folder: with the layout that `TABLES` names.
        date: stated in the profile, ISO 8601; the rest depends on the tables alone.
        report: told of each kernel.

    Raises:
        ConfigError: no tables of the device are known, or one cannot be read.
    """
    if not folder.is_dir():
        raise ConfigError(f"{folder}: no such folder of measurements")
    device = load_profile(name)
    fit = DeviceFit()
    tell = report or (lambda kernel, found: None)
    for plan in plans_of(device):
        fit.add(plan.kernel, plan.files, fit_plan(plan, folder))
        tell(plan.kernel, fit.fitted[plan.kernel])
    for kernel in _complete(fit, device, folder):
        tell(kernel, fit.fitted.get(kernel))
    return KernelModels(
        device=name,
        provenance=fit.provenance,
        date=date,
        inputs={file: file_sha256(folder / file) for file in sorted(fit.files)},
        **fit.models,
    )


def fit_plan(plan: KernelPlan, folder: Path) -> FittedKernel[Any]:
    """Fit one kernel to its table.

    Raises:
        ConfigError: the table cannot be read, or has too few rows.
    """
    return fit_kernel(plan.recipe, plan.load(folder))


def _complete(fit: DeviceFit, device: DeviceSpec, folder: Path) -> Iterator[str]:
    """Transfer what has no table, then join the models that shared prefixes need."""
    _carry_mixed_attention(fit, device, folder)
    yield "mixed_attention"
    donors = _DONORS.get(device.name, {})
    for kernel in sorted(donors, key=("small_ops", "moe", "l2", "shared_prefix").index):
        if kernel != "shared_prefix":
            _transfer(fit, kernel, load_profile(donors[kernel]), device, folder)
            yield kernel
    owner = load_profile(donors.get("shared_prefix", device.name))
    file = TABLES[owner.name].shared_prefix
    if file is None:
        return
    if owner.name == device.name:
        fit.add("shared_prefix", (file,), _fit_shared_prefix(owner, folder, fit.models))
    else:
        _transfer_shared_prefix(fit, owner, device, folder)
    yield "shared_prefix"


def _transfer(
    fit: DeviceFit, kernel: str, owner: DeviceSpec, device: DeviceSpec, folder: Path
) -> None:
    plan = plan_of(owner, kernel)
    found = fit_plan(plan, folder)
    if kernel == "l2":
        fit.models[kernel] = h100_l2_curve(found.model, owner, device)
        scaling = PCIE_SOURCE
    else:
        fit.models[kernel] = scaled_to(found.model, owner, device, frozenset())
        scaling = _SCALED
    fit.provenance[kernel] = transferred(found.provenance, owner, scaling)
    fit.files.update(plan.files)


def _carry_mixed_attention(fit: DeviceFit, device: DeviceSpec, folder: Path) -> None:
    plan = mixed_attention_plan()
    model, record = carried_to(fit_plan(plan, folder), device, packs_queries(device))
    fit.models[plan.kernel], fit.provenance[plan.kernel] = model, record
    fit.files.update(plan.files)


def _transfer_shared_prefix(
    fit: DeviceFit, owner: DeviceSpec, device: DeviceSpec, folder: Path
) -> None:
    """Transferred rates, with the L2 curve and the attention models of the device itself."""
    l2_plan = plan_of(owner, "l2")
    found = _fit_shared_prefix(owner, folder, {"l2": fit_plan(l2_plan, folder).model})
    scaled = scaled_to(found.model, owner, device, SIBLINGS)
    siblings = {name: fit.models[name] for name in sorted(SIBLINGS)}
    slots = scaled.cta_slots // owner.num_sms * device.num_sms
    fit.models["shared_prefix"] = replace(scaled, cta_slots=slots, **siblings)
    fit.provenance["shared_prefix"] = transferred(found.provenance, owner, _SCALED)
    file = TABLES[owner.name].shared_prefix
    fit.files.update(l2_plan.files, () if file is None else (file,))


def _fit_shared_prefix(
    owner: DeviceSpec, folder: Path, models: dict[str, Any]
) -> FittedKernel[Any]:
    trees = load_shared_prefix(folder / str(TABLES[owner.name].shared_prefix))
    recipe = shared_prefix_recipe(
        owner,
        trees,
        models["l2"],
        models.get("decode_attention"),
        models.get("prefill_attention"),
    )
    return fit_kernel(recipe, ratio_rows(trees))
