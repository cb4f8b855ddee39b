"""Predicted against measured times of a profile on a file of microbenchmark rows."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hwmodels.fitting.errors import summarise_errors
from hwmodels.fitting.parameter import FloatArray
from hwmodels.fitting.recipe import Columns
from hwmodels.fitting.recipes.prefill_attention import SHORTEST_CHUNK
from hwmodels.fitting.rows_file import RowsFile, is_choice
from hwmodels.fitting.rows_forms import CascadeForm, cascade_s, decode_s, prefill_s
from hwmodels.fitting.rows_mixed import fused_s, separate_s
from hwmodels.fitting.rows_recipes import (
    StreamForm,
    everything,
    is_large_read,
    is_library_product,
    is_long_context,
)
from hwmodels.fitting.rows_shared_prefix import packed_s, unaware_s
from hwmodels.fitting.validation import FITTED, Comparison, worst_shapes
from hwmodels.kernels.models import KernelModels
from hwmodels.kernels.provenance import Provenance
from hwmodels.measurements.rows import MeasuredRows
from hwmodels.strict_json import shown
from sim.errors import ConfigError

Mask = Callable[[Columns], NDArray[np.bool_]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One kernel against one benchmark.

    Attributes:
        kernel: as it is shown.
        benchmark: name in the rows.
        predict_s: seconds of rows, shape (rows,), by a profile; None where it lacks a kernel.
        shape: columns that make a shape.
        in_scope: rows that a fit uses.
        subsets: rows shown apart.
        record: kernel of the profile whose held-out error belongs to it; empty: none.
    """

    kernel: str
    benchmark: str
    predict_s: Callable[[KernelModels, Columns], FloatArray | None]
    shape: tuple[str, ...]
    in_scope: Mask = everything
    subsets: Mapping[str, Mask] = field(default_factory=dict)
    record: str = ""


def compare_rows(models: KernelModels, file: RowsFile) -> list[Comparison]:
    """Compare every kernel that has rows; the range of the fit first, then other rows.

    Raises:
        ConfigError: the rows are of another GPU.
    """
    check_processors(models, file)
    return [one for check in _CHECKS for one in _compare(models, check, file)]


def check_processors(models: KernelModels, file: RowsFile) -> None:
    """Check that the kernels of a profile count as many processors as the GPU of the rows has.

    Raises:
        ConfigError: they count others.
    """
    gpu = file.header.device
    for model in (models.gemm, models.decode_attention, models.prefill_attention):
        if model is not None and model.num_sms != gpu.num_sms:
            raise ConfigError(
                f"{file.path}: measured on {shown(gpu.name)} with {gpu.num_sms} processors, "
                f"the profile of {models.device} counts {model.num_sms}"
            )


def _compare(models: KernelModels, check: Check, file: RowsFile) -> Iterator[Comparison]:
    rows = file.rows_of(check.benchmark)
    predicted = None if rows is None else check.predict_s(models, rows.columns)
    if rows is None or predicted is None:
        return
    record = models.provenance.get(check.record)
    subsets = {FITTED: check.in_scope} | dict(check.subsets)
    for name, pick in subsets.items():
        chosen = pick(rows.columns)
        if chosen.any():
            is_fitted = name == FITTED and record is not None
            heldout = record.heldout_mape if is_fitted and record is not None else None
            found = _comparison(check, name, rows, predicted, chosen, heldout)
            is_of_file = file.sha256 in models.inputs.values()
            if is_fitted and record is not None and is_of_file:
                found = _with_rows_fit(found, rows, record)
            yield found


def _comparison(
    check: Check,
    subset: str,
    rows: MeasuredRows,
    predicted: FloatArray,
    chosen: NDArray[np.bool_],
    heldout_mape: float | None,
) -> Comparison:
    columns = {name: column[chosen] for name, column in rows.columns.items()}
    guess, measured = predicted[chosen], rows.time_s[chosen]
    return Comparison(
        kernel=check.kernel,
        subset=subset,
        unit="s",
        columns=columns,
        predicted=guess,
        measured=measured,
        errors=summarise_errors(guess, measured),
        heldout_mape=heldout_mape,
        worst_shapes=worst_shapes(columns, check.shape, guess, measured),
        left_out=rows.left_out,
    )


def _with_rows_fit(found: Comparison, rows: MeasuredRows, record: Provenance) -> Comparison:
    """The comparison with the rows that the fit used, if it used fewer of them."""
    is_here = record.source.startswith(rows.source) and record.num_rows < found.errors.num_rows
    return replace(found, num_rows_fit=record.num_rows) if is_here else found


def _l2_s(models: KernelModels, columns: Columns) -> FloatArray | None:
    if models.l2 is None:
        return None
    return StreamForm(pass_s=0.0, curve=models.l2).time_s(columns["data_set_bytes"])


def _gemm_s(models: KernelModels, columns: Columns) -> FloatArray | None:
    if models.gemm is None:
        return None
    return models.gemm.time_s(columns["m"], columns["n"], columns["k"])


def _shared_prefix_s(models: KernelModels, columns: Columns) -> FloatArray | None:
    model = models.shared_prefix
    return None if model is None or model.l2 is None else unaware_s(model, columns)


def _cascade_s(models: KernelModels, columns: Columns) -> FloatArray | None:
    decode, prefill = models.decode_attention, models.prefill_attention
    if decode is None or prefill is None or models.shared_prefix is None:
        return None
    form = CascadeForm(
        scale=models.shared_prefix.cascade_scale,
        decode_attention=decode,
        prefill_attention=prefill,
        packed=models.shared_prefix.packed,
    )
    return cascade_s(form, columns)


def _fused_s(models: KernelModels, columns: Columns) -> FloatArray | None:
    decode, prefill = models.decode_attention, models.prefill_attention
    if decode is None or prefill is None or models.mixed_attention is None:
        return None
    return fused_s(models.mixed_attention, decode, prefill, columns)


def _separate_s(models: KernelModels, columns: Columns) -> FloatArray | None:
    decode, prefill = models.decode_attention, models.prefill_attention
    return None if decode is None or prefill is None else separate_s(decode, prefill, columns)


def _only(name: str, predict: Callable[[Any, Columns], FloatArray]) -> Any:
    """A prediction by one kernel of a profile."""

    def predict_s(models: KernelModels, columns: Columns) -> FloatArray | None:
        model = getattr(models, name)
        return None if model is None else predict(model, columns)

    return predict_s


def _is(name: str, text: str) -> Mask:
    return lambda columns: is_choice(columns, name, text)


_HEADS = ("num_heads", "num_kv_heads")
_CHECKS = (
    Check(
        kernel="l2",
        benchmark="stream",
        predict_s=_l2_s,
        shape=("data_set_bytes",),
        in_scope=is_large_read,
        record="l2",
    ),
    Check(
        kernel="gemm",
        benchmark="gemm",
        predict_s=_gemm_s,
        shape=("n", "k"),
        in_scope=is_library_product,
        subsets={"the kernel of this package": _is("impl", "triton")},
        record="gemm",
    ),
    Check(
        kernel="decode_attention",
        benchmark="decode_attention",
        predict_s=_only("decode_attention", decode_s),
        shape=(*_HEADS, "batch"),
        in_scope=is_long_context,
        subsets={
            "split": lambda columns: columns["splits"] > 1,
            "unequal lengths": lambda columns: ~is_choice(columns, "lengths", "equal"),
        },
        record="decode_attention",
    ),
    Check(
        kernel="prefill_attention",
        benchmark="prefill",
        predict_s=_only("prefill_attention", prefill_s),
        shape=(*_HEADS, "chunk_tokens"),
        in_scope=lambda columns: columns["chunk_tokens"] >= SHORTEST_CHUNK,
        subsets={f"chunk < {SHORTEST_CHUNK}": lambda c: c["chunk_tokens"] < SHORTEST_CHUNK},
        record="prefill_attention",
    ),
    Check(
        kernel="mixed_attention",
        benchmark="mixed",
        predict_s=_fused_s,
        shape=("batch", "chunk_tokens"),
        in_scope=_is("form", "fused"),
        record="mixed_attention",
    ),
    Check(
        kernel="mixed, separate",
        benchmark="mixed",
        predict_s=_separate_s,
        shape=("batch", "chunk_tokens"),
        in_scope=_is("form", "separate"),
    ),
    Check(
        kernel="shared_prefix",
        benchmark="shared_prefix",
        predict_s=_shared_prefix_s,
        shape=("groups", "members", "prefix_tokens"),
        subsets={
            "interleaved": _is("member_order", "interleaved"),
            "cold": _is("cache", "cold"),
        },
        record="shared_prefix",
    ),
    Check(
        kernel="packed",
        benchmark="packed",
        predict_s=_only("shared_prefix", lambda model, columns: packed_s(model.packed, columns)),
        shape=("groups", "members", "prefix_tokens"),
    ),
    Check(
        kernel="cascade",
        benchmark="cascade",
        predict_s=_cascade_s,
        shape=("batch", "prefix_tokens"),
    ),
    Check(
        kernel="nccl",
        benchmark="all_reduce",
        predict_s=_only(
            "nccl", lambda model, columns: model.time_s(columns["num_bytes"], columns["num_gpus"])
        ),
        shape=("num_gpus", "num_bytes"),
        record="nccl",
    ),
)
