"""Predicted against measured times of the kernels of a profile."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hwmodels.device import DeviceSpec, load_profile
from hwmodels.fitting.device_plan import plans_of
from hwmodels.fitting.errors import ErrorSummary, summarise_errors
from hwmodels.fitting.holdout import shape_numbers
from hwmodels.fitting.parameter import FloatArray
from hwmodels.fitting.recipe import Columns
from hwmodels.fitting.recipes.gemm import is_large
from hwmodels.fitting.recipes.prefill_attention import has_many_heads
from hwmodels.fitting.recipes.shared_prefix import ratio_rows, shared_prefix_recipe
from hwmodels.kernels.models import KernelModels
from hwmodels.measurements.data_folder import TABLES
from hwmodels.measurements.rows import LeftOut, MeasuredRows
from hwmodels.measurements.shared_prefix import load_shared_prefix
from hwmodels.strict_json import shown
from sim.errors import ConfigError

FITTED = "fitted range"

Subset = Callable[[Columns], NDArray[np.bool_]]

_SUBSETS: dict[str, dict[str, Subset]] = {
    "gemm": {
        "n and k >= 1024": is_large,
        "n or k < 768": lambda c: np.minimum(c["n"], c["k"]) < 768,
    },
    "decode_attention": {
        "context < 128 or batch > 512": lambda c: (
            (c["context_tokens"] < 128) | (c["batch_size"] > 512)
        ),
    },
    "prefill_attention": {
        "chunk >= 128, 8 heads or more": lambda c: (c["chunk_tokens"] >= 128) & has_many_heads(c),
        "chunk < 128": lambda c: c["chunk_tokens"] < 128,
    },
    "nccl": {"message > 64 MiB": lambda c: c["num_bytes"] > 2**26},
    "small_ops": {"up to 256 tokens": lambda c: c["num_tokens"] <= 256},
}
"""Rows shown apart, by kernel; every kernel also has the rows that its fit used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One kernel of a profile against the measured rows of its device.

    Attributes:
        kernel: name of the kernel.
        subset: which rows.
        unit: what is compared: seconds, or ratios to another kernel.
        columns: shapes, each of shape (rows,).
        predicted: by the profile, shape (rows,).
        measured: shape (rows,).
        errors: summary over these rows.
        heldout_mape: of the profile's fit, where this is the range of the fit; else None.
        worst_shapes: shape and mean absolute error of the worst ones, the worst first.
        left_out: rows of the table that were not compared.
        num_rows_fit: rows here that the fit used, where it was one to these very measurements
            and left some of them out; else None.
    """

    kernel: str
    subset: str
    unit: str
    columns: Columns
    predicted: FloatArray
    measured: FloatArray
    errors: ErrorSummary
    heldout_mape: float | None
    worst_shapes: tuple[tuple[str, float], ...]
    left_out: tuple[LeftOut, ...]
    num_rows_fit: int | None = None


def compare(models: KernelModels, folder: Path) -> list[Comparison]:
    """Compare every kernel that has a table; the range of the fit first, then other rows.

    Raises:
        ConfigError: no tables of the profile's device are known, or one cannot be read.
    """
    if not folder.is_dir():
        raise ConfigError(f"{folder}: no such folder of measurements")
    if models.device not in TABLES:
        allowed = ", ".join(TABLES)
        raise ConfigError(f"no measurements of {shown(models.device)}; devices: {allowed}")
    device = load_profile(models.device)
    found: list[Comparison] = []
    for plan in plans_of(device):
        model = getattr(models, plan.kernel)
        if model is not None:
            rows = plan.load(folder)
            predicted = plan.recipe.predict_s(model, rows.columns)
            scope = plan.recipe.in_scope(rows.columns)
            shape = plan.recipe.shape_columns
            found += _subsets(models, plan.kernel, "s", rows, predicted, scope, shape)
    found += _shared_prefix(models, device, folder)
    return found


def _shared_prefix(models: KernelModels, device: DeviceSpec, folder: Path) -> Iterator[Comparison]:
    model, file = models.shared_prefix, TABLES[device.name].shared_prefix
    if model is None or file is None or model.l2 is None:
        return
    trees = load_shared_prefix(folder / file)
    recipe = shared_prefix_recipe(device, trees, model.l2, None, None)
    rows = ratio_rows(trees)
    predicted = recipe.predict_s(model, rows.columns)
    scope = recipe.in_scope(rows.columns)
    yield from _subsets(
        models, recipe.kernel, "ratio to packed", rows, predicted, scope, recipe.shape_columns
    )


def _subsets(
    models: KernelModels,
    kernel: str,
    unit: str,
    rows: MeasuredRows,
    predicted: FloatArray,
    in_scope: NDArray[np.bool_],
    shape: tuple[str, ...],
) -> Iterator[Comparison]:
    subsets = {FITTED: in_scope}
    subsets |= {name: chosen(rows.columns) for name, chosen in _SUBSETS.get(kernel, {}).items()}
    for name, chosen in subsets.items():
        if not chosen.any():
            continue
        columns = {key: column[chosen] for key, column in rows.columns.items()}
        measured, guess = rows.time_s[chosen], predicted[chosen]
        provenance = models.provenance.get(kernel)
        is_fitted = name == FITTED and provenance is not None
        yield Comparison(
            kernel=kernel,
            subset=name,
            unit=unit,
            columns=columns,
            predicted=guess,
            measured=measured,
            errors=summarise_errors(guess, measured),
            heldout_mape=provenance.heldout_mape if is_fitted and provenance else None,
            worst_shapes=worst_shapes(columns, shape, guess, measured),
            left_out=rows.left_out,
        )


def worst_shapes(
    columns: Columns,
    shape: tuple[str, ...],
    predicted: FloatArray,
    measured: FloatArray,
    num_shapes: int = 3,
) -> tuple[tuple[str, float], ...]:
    """Shapes with the largest mean absolute error: text and error as a ratio, the worst first."""
    shapes, index = shape_numbers(*(columns[name] for name in shape))
    place = index.astype(np.int64)
    total = np.bincount(place, weights=np.abs(predicted / measured - 1))
    mean = total / np.bincount(place)
    worst = np.argsort(-mean, kind="stable")[:num_shapes]
    return tuple(
        (
            " ".join(
                f"{name}={number:.12g}" for name, number in zip(shape, shapes[at], strict=True)
            ),
            float(mean[at]),
        )
        for at in worst
    )


def record_of(comparison: Comparison) -> dict[str, Any]:
    """A comparison as JSON values, without its rows."""
    errors = comparison.errors
    return {
        "kernel": comparison.kernel,
        "subset": comparison.subset,
        "unit": comparison.unit,
        "num_rows": errors.num_rows,
        "num_rows_fit": comparison.num_rows_fit,
        "mape": errors.mape,
        "median": errors.median,
        "p90": errors.p90,
        "bias": errors.bias,
        "heldout_mape": comparison.heldout_mape,
        "worst_shapes": [
            {"shape": shape, "mape": error} for shape, error in comparison.worst_shapes
        ],
        "left_out": [
            {"num_rows": entry.num_rows, "reason": entry.reason} for entry in comparison.left_out
        ],
    }
