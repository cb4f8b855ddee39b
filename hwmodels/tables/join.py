"""Fitted kernels with measured points put in their place."""

from dataclasses import fields, replace
from typing import Any

from hwmodels.kernels.models import KernelModels
from hwmodels.kernels.parameters import parameter_names
from hwmodels.kernels.provenance import Provenance
from hwmodels.tables.attention_residuals import DecodeResiduals, PrefillResiduals
from hwmodels.tables.device_table import DeviceTable, check_compared
from hwmodels.tables.kernels import (
    TabledAllReduce,
    TabledDecodeAttention,
    TabledGemm,
    TabledMoe,
    TabledPrefillAttention,
)
from hwmodels.tables.points import MeasuredPoints

_CLASSES: dict[str, type[Any]] = {
    "gemm": TabledGemm,
    "decode_attention": TabledDecodeAttention,
    "prefill_attention": TabledPrefillAttention,
    "moe": TabledMoe,
    "all_reduce": TabledAllReduce,
    "nccl": TabledAllReduce,
}


def tabled(models: KernelModels, table: DeviceTable) -> KernelModels:
    """The kernels of a device with those replaced that the table has points of.

    A kernel whose points do not help (`MeasuredPoints.is_used`) stays as it is, and so do the
    attention models inside `shared_prefix`. Provenance of a replaced kernel counts the points and
    states the error on shapes that the table does not hold, and the ranges of the points.

    Raises:
        ConfigError: the table belongs to another device, or a kernel with points has no fitted
            form.
    """
    check_compared(table, models)
    used = {name: points for name, points in table.kernels.items() if points.is_used}
    joined = {name: _joined(getattr(models, name), points) for name, points in used.items()}
    provenance = dict(models.provenance)
    for name, points in used.items():
        if name in provenance:
            provenance[name] = _provenance(joined[name], provenance[name], points)
    return replace(models, provenance=provenance, **joined)


def _joined(form: Any, points: MeasuredPoints) -> Any:
    own = {item.name: getattr(form, item.name) for item in fields(form)}
    residuals: Any
    if points.kernel == "decode_attention":
        residuals = DecodeResiduals(points, form)
    elif points.kernel == "prefill_attention":
        residuals = PrefillResiduals(points, form)
    else:
        residuals = points.residuals(form)
    return _CLASSES[points.kernel](residuals=residuals, **own)


def _provenance(model: Any, form: Provenance, points: MeasuredPoints) -> Provenance:
    errors = form.standard_errors
    return replace(
        form,
        standard_errors={name: errors.get(name) for name in parameter_names(model)},
        num_rows=points.num_points,
        heldout_mape=None if points.heldout is None else points.heldout.table_mape,
        source=f"table of {points.num_points} points: {points.source}; elsewhere {form.source}",
        valid=points.valid,
        is_extrapolated=False,
    )
