"""Fits all kernels of a device to one file of microbenchmark rows.

Kernels without enough rows stay as they are in the device's own profile, or come from the nearest
one, marked as extrapolated.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from hwmodels.device import DeviceSpec
from hwmodels.fitting.recipe import FittedKernel, Recipe
from hwmodels.fitting.rows_errors import fit_with_errors, moved_squares
from hwmodels.fitting.rows_file import RowsFile
from hwmodels.fitting.rows_mixed import Neighbours, fit_mixed_rows, mixed_rows_recipe
from hwmodels.fitting.rows_occupancy import fit_shared_prefix_rows
from hwmodels.fitting.rows_overheads import all_reduce_rows_recipe, fit_overheads, num_in_scope
from hwmodels.fitting.rows_priors import Priors
from hwmodels.fitting.rows_recipes import (
    CTA_LIMITS,
    GEMM_CHOICES,
    cascade_recipe,
    decode_rows_recipe,
    gemm_rows_recipe,
    packed_recipe,
    prefill_rows_recipe,
    stream_recipe,
)
from hwmodels.kernels.models import KERNEL_CLASSES, KernelModels
from hwmodels.kernels.provenance import Provenance
from hwmodels.measurements.rows import MeasuredRows
from sim.errors import ConfigError

FEWEST_SPARE = 4
"""Rows that a fit must have beyond its constants."""


@dataclass(slots=True, kw_only=True)
class RowsFit:
    """A fit in progress, and at its end the whole of it.

    Attributes:
        device: the GPU.
        file: rows.
        priors: kernels before any row is seen.
        fitted: what was fitted, by kernel; also benchmarks that no profile holds.
        models: kernels of the profile, those of the priors until they are fitted.
        provenance: their records.
        notes: why a benchmark with rows was not fitted, by benchmark.
    """

    device: DeviceSpec
    file: RowsFile
    priors: Priors
    fitted: dict[str, FittedKernel[Any]] = field(default_factory=dict)
    models: dict[str, Any] = field(default_factory=dict)
    provenance: dict[str, Provenance] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)

    def add(self, kernel: str, found: FittedKernel[Any]) -> None:
        """Take a kernel of the profile."""
        self.fitted[kernel] = found
        self.models[kernel], self.provenance[kernel] = found.model, found.provenance

    def fit(self, benchmark: str, recipe: Recipe[Any]) -> FittedKernel[Any] | None:
        """Fit a recipe to the rows of a benchmark; None where they are too few."""
        rows = self.file.rows_of(benchmark)
        if rows is None or not self.has_enough(recipe, rows):
            return None
        return self.attempt(recipe.kernel, lambda: fit_with_errors(recipe, rows))

    def attempt(
        self, kernel: str, fit_it: Callable[[], FittedKernel[Any]]
    ) -> FittedKernel[Any] | None:
        """A fit, or None and a note where it fails: other kernels are fitted all the same."""
        try:
            return fit_it()
        except ConfigError as error:
            self.notes[kernel] = f"not fitted: {error}"
            return None

    def has_enough(self, recipe: Recipe[Any], rows: MeasuredRows) -> bool:
        """Whether a recipe has rows enough; noted where not."""
        number, needed = num_in_scope(recipe, rows), len(recipe.parameters) + FEWEST_SPARE
        if number < needed:
            self.notes[recipe.kernel] = f"{number} rows in range, a fit needs {needed}"
        return number >= needed

    def profile(self, date: str) -> KernelModels:
        """All kernels as a profile."""
        return KernelModels(
            device=self.device.name,
            provenance={
                name: self.provenance[name] for name in KERNEL_CLASSES if name in self.provenance
            },
            date=date,
            inputs=dict(self.priors.models.inputs) | {self.file.path.name: self.file.sha256},
            **self.models,
        )


def fit_rows(device: DeviceSpec, file: RowsFile, priors: Priors) -> RowsFit:
    """Fit every kernel that the file has enough rows of.

    Args:
        device: the GPU that was measured.
        file: its rows.
        priors: kernels before any row is seen.
    """
    fit = RowsFit(device=device, file=file, priors=priors)
    for name in KERNEL_CLASSES:
        fit.models[name] = getattr(priors.models, name)
    fit.provenance |= dict(priors.models.provenance)
    for step in (_stream, _gemm, _decode, _prefill, _mixed, _shared_prefix, _cascade, _all_reduce):
        step(fit)
    fit.fitted |= fit_overheads(file)
    return fit


def _stream(fit: RowsFit) -> None:
    """The hit curve; passes have a fixed time only if that errs less on held-out sizes."""
    prior = fit.models["l2"]
    if prior is None:
        return
    choices = [
        fit.fit("stream", stream_recipe(fit.device, prior, has_pass_time))
        for has_pass_time in (False, True)
    ]
    fits = [one for one in choices if one is not None]
    if not fits:
        return
    found = min(fits, key=lambda one: one.held_out.mape)
    fit.fitted["stream"] = found
    own = {
        name.removeprefix("curve."): error
        for name, error in found.provenance.standard_errors.items()
        if name.startswith("curve.")
    }
    source = f"{found.provenance.source} Fixed time of a pass {found.model.pass_s:.3g} s."
    fit.models["l2"] = found.model.curve
    fit.provenance["l2"] = replace(found.provenance, standard_errors=own, source=source)


def _gemm(fit: RowsFit) -> None:
    """Both kinds of tiles of shipped profiles; the one that errs less on held-out n and k."""
    prior = fit.models["gemm"]
    if prior is None:
        return
    choices = [
        fit.fit("gemm", gemm_rows_recipe(fit.device, prior, tiles, weight))
        for tiles, weight in GEMM_CHOICES
    ]
    fits = [one for one in choices if one is not None]
    if fits:
        fit.add("gemm", min(fits, key=lambda one: one.held_out.mape))


def _decode(fit: RowsFit) -> None:
    """Fit with limits of one block's rate, then without those that the rows do not show."""
    prior = fit.models["decode_attention"]
    if prior is None:
        return
    limits: tuple[str, ...] = CTA_LIMITS
    while True:
        found = fit.fit("decode_attention", decode_rows_recipe(fit.device, prior, limits))
        if found is None:
            return
        unseen = {*found.result.not_identified, *found.result.at_bound}
        shown = tuple(name for name in limits if name not in unseen)
        if shown == limits:
            break
        limits = shown
    fit.add("decode_attention", found)


def _prefill(fit: RowsFit) -> None:
    prior = fit.models["prefill_attention"]
    recipe = prior and prefill_rows_recipe(fit.device, prior)
    _take(fit, "prefill_attention", recipe, "prefill")


def _mixed(fit: RowsFit) -> None:
    prior, rows = fit.models["mixed_attention"], fit.file.rows_of("mixed")
    decode, prefill = fit.models["decode_attention"], fit.models["prefill_attention"]
    if prior is None or decode is None or prefill is None or rows is None:
        return

    if fit.has_enough(mixed_rows_recipe(prior, fit.device, decode, prefill), rows):
        kernels = _neighbours(fit)
        found = fit.attempt(
            "mixed_attention", lambda: fit_mixed_rows(fit.device, prior, rows, kernels)
        )
        if found is not None:
            fit.add("mixed_attention", found)


def _neighbours(fit: RowsFit) -> Neighbours:
    """Both attention kernels of the device, as they are now."""
    return Neighbours(
        decode=fit.models["decode_attention"],
        prefill=fit.models["prefill_attention"],
        decode_errors=fit.provenance["decode_attention"].standard_errors,
        prefill_errors=fit.provenance["prefill_attention"].standard_errors,
    )


def _shared_prefix(fit: RowsFit) -> None:
    """The kernel that reads every node once, then the one that ignores sharing."""
    prior = fit.models["shared_prefix"]
    if prior is None or fit.models["l2"] is None:
        return
    siblings = {name: fit.models[name] for name in _SIBLINGS}
    model = replace(prior, **siblings)
    record = fit.provenance["shared_prefix"]
    packed = fit.fit("packed", packed_recipe(fit.device, model.packed))
    if packed is not None:
        fit.fitted["packed"] = packed
        model = replace(model, packed=packed.model)
    rows = fit.file.rows_of("shared_prefix")
    if rows is not None and rows.num_rows >= _FEWEST_TREES:
        errors = fit.provenance["l2"].standard_errors
        before = model
        found = fit.attempt(
            "shared_prefix", lambda: fit_shared_prefix_rows(fit.device, before, rows, errors)
        )
        if found is not None:
            fit.fitted["shared_prefix"] = found
            model, record = found.model, found.provenance
    elif rows is not None:
        fit.notes["shared_prefix"] = f"{rows.num_rows} rows, a fit needs {_FEWEST_TREES}"
    if packed is not None:
        own = {f"packed.{name}": error for name, error in packed.provenance.standard_errors.items()}
        source = f"{record.source} Packed: {packed.provenance.source}"
        own = dict(record.standard_errors) | own
        record = replace(record, standard_errors=own, source=source)
    fit.models["shared_prefix"], fit.provenance["shared_prefix"] = model, record


_SIBLINGS = ("l2", "decode_attention", "prefill_attention")
_FEWEST_TREES = 12
"""Rows of shared prefixes that a fit must have: six constants, the slots, and some to spare."""


def _cascade(fit: RowsFit) -> None:
    """The factor that a cascade has beside its parts, which are other kernels."""
    decode, prefill = fit.models["decode_attention"], fit.models["prefill_attention"]
    tree = fit.models["shared_prefix"]
    if decode is None or prefill is None or tree is None:
        return
    recipe, rows = cascade_recipe(decode, prefill, tree.packed), fit.file.rows_of("cascade")
    if rows is None or not fit.has_enough(recipe, rows):
        return
    others = [cascade_recipe(*moved, tree.packed) for moved in _neighbours(fit).moved()]
    found = fit.attempt(
        "cascade",
        lambda: fit_with_errors(recipe, rows, lambda used, done: moved_squares(done, others)),
    )
    if found is None:
        return
    fit.fitted["cascade"] = found
    error = found.result.standard_errors["scale"]
    if error is None:
        return
    scale = found.model.scale
    fit.models["shared_prefix"] = replace(tree, cascade_scale=scale)
    record = fit.provenance["shared_prefix"]
    errors = {**record.standard_errors, "cascade_scale": error}
    told = f" Cascades, measured over priced by their parts: {scale:.3g} (error {error:.2g})."
    fit.provenance["shared_prefix"] = replace(
        record, source=record.source + told, standard_errors=errors
    )


def _all_reduce(fit: RowsFit) -> None:
    rows = fit.file.rows_of("all_reduce")
    if rows is not None:
        recipe = all_reduce_rows_recipe(fit.device, rows, fit.models["nccl"])
        _take(fit, "nccl", recipe, "all_reduce")


def _take(fit: RowsFit, kernel: str, recipe: Recipe[Any] | None, benchmark: str) -> None:
    found = None if recipe is None else fit.fit(benchmark, recipe)
    if found is not None:
        fit.add(kernel, found)
