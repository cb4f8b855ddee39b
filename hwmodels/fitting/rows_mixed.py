"""Mixed steps as the microbenchmarks run them: equal decodes and one prefill chunk."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hwmodels.device import DeviceSpec
from hwmodels.fitting.parameter import FloatArray, Parameter
from hwmodels.fitting.recipe import Columns, FittedKernel, Recipe, Values
from hwmodels.fitting.rows_errors import fit_with_errors, moved_squares
from hwmodels.fitting.rows_file import HEAD_DIM, is_choice
from hwmodels.fitting.rows_forms import decode_s, prefill_s
from hwmodels.fitting.rows_recipes import with_priors
from hwmodels.kernels.decode_attention import DecodeAttentionModel
from hwmodels.kernels.mixed_attention import MixedAttentionModel
from hwmodels.kernels.prefill_attention import PrefillAttentionModel
from hwmodels.measurements.rows import MeasuredRows


def fused_s(
    model: MixedAttentionModel,
    decode: DecodeAttentionModel,
    prefill: PrefillAttentionModel,
    columns: Columns,
) -> FloatArray:
    """Seconds of one variable-length call over everything. Shape (rows,)."""
    heads = np.stack([columns["num_heads"], columns["num_kv_heads"]], axis=1)
    times_s = np.empty(len(heads))
    for num_heads, num_kv_heads in np.unique(heads, axis=0).astype(np.int64).tolist():
        chosen = (heads == (num_heads, num_kv_heads)).all(axis=1)
        batch, context = columns["batch"][chosen], columns["context"][chosen]
        times_s[chosen] = model.time_s(
            decode,
            prefill,
            batch,
            batch * context,
            context,
            columns["chunk_tokens"][chosen],
            columns["prefix_tokens"][chosen],
            np.arange(int(chosen.sum())),
            num_heads,
            num_kv_heads,
            HEAD_DIM,
        )
    return times_s


def separate_s(
    decode: DecodeAttentionModel, prefill: PrefillAttentionModel, columns: Columns
) -> FloatArray:
    """Seconds of a prefill call, then a decode call without splits. Shape (rows,)."""
    batch, context = columns["batch"], columns["context"]
    alone = {
        **columns,
        "context_sum": batch * context,
        "context_max": context,
        "context_squares": batch * context * context,
        "splits": np.ones_like(batch),
    }
    chunk = {**columns, "batch": np.ones_like(batch)}
    return prefill_s(prefill, chunk) + decode_s(decode, alone)


def mixed_rows_recipe(
    prior: MixedAttentionModel,
    device: DeviceSpec,
    decode: DecodeAttentionModel,
    prefill: PrefillAttentionModel,
) -> Recipe[MixedAttentionModel]:
    """Recipe for fused calls; rates are those of the device's decode and prefill kernels."""
    reach = float(device.l2_bytes)
    own = (
        Parameter(name="block_s", start=1e-6, low=1e-9, high=1e-4),
        Parameter(name="idle_block_s", start=1e-7, low=1e-10, high=1e-5),
        Parameter(name="longest_weight", start=0.5, low=0.01, high=20.0),
        Parameter(name="l2_reach_bytes", start=reach, low=0.05 * reach, high=20.0 * reach),
        Parameter(name="resident_weight", start=0.5, low=0.01, high=10.0),
    )

    def build(values: Values) -> MixedAttentionModel:
        own: dict[str, Any] = dict(values)
        return replace(prior, **own)

    packing = "share blocks" if prior.packs_queries else "have blocks of their own"
    return Recipe(
        kernel="mixed_attention",
        parameters=with_priors(own, prior),
        build=build,
        predict_s=lambda model, columns: fused_s(model, decode, prefill, columns),
        shape_columns=("batch", "context", "chunk_tokens", "prefix_tokens", "num_kv_heads"),
        valid_columns=(
            "batch_size",
            "context_tokens",
            "longest_tokens",
            "chunk_tokens",
            "prefix_tokens",
        ),
        in_scope=lambda columns: is_choice(columns, "form", "fused"),
        scope="equal decodes and one chunk in one call",
        restated=f"The query heads of a KV head {packing}, which errs less than the contrary.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbours:
    """Kernels of the same device that a mixed call is made of.

    Attributes:
        decode: of decodes.
        prefill: of chunks.
        decode_errors: standard errors of its constants.
        prefill_errors: the same of the chunks.
    """

    decode: DecodeAttentionModel
    prefill: PrefillAttentionModel
    decode_errors: Mapping[str, float | None]
    prefill_errors: Mapping[str, float | None]

    def moved(self) -> Iterator[tuple[DecodeAttentionModel, PrefillAttentionModel]]:
        """Both kernels with one constant moved by its standard error, for each that has one."""
        for name, error in self.decode_errors.items():
            if error is not None:
                value = getattr(self.decode, name)
                changed: dict[str, Any] = {name: value + error}
                yield replace(self.decode, **changed), self.prefill
        for name, error in self.prefill_errors.items():
            if error is not None:
                changed = {name: getattr(self.prefill, name) + error}
                yield self.decode, replace(self.prefill, **changed)


def fit_mixed_rows(
    device: DeviceSpec, prior: MixedAttentionModel, rows: MeasuredRows, kernels: Neighbours
) -> FittedKernel[MixedAttentionModel]:
    """Fit both ways to pack queries and take the one that errs less.

    Args:
        device: the GPU.
        prior: constants to start from.
        rows: of the benchmark.
        kernels: whose errors enter those of the constants.

    Raises:
        ConfigError: too few rows.
    """
    fitted = []
    for packs_queries in (True, False):
        choice = replace(prior, packs_queries=packs_queries)
        recipe = mixed_rows_recipe(choice, device, kernels.decode, kernels.prefill)

        def squares(
            used: Recipe[MixedAttentionModel], found: FittedKernel[MixedAttentionModel]
        ) -> dict[str, float]:
            return moved_squares(found, (_priced_with(used, *moved) for moved in kernels.moved()))

        fitted.append(fit_with_errors(recipe, rows, squares))
    return min(fitted, key=lambda found: found.held_out.mape)


def _priced_with(
    recipe: Recipe[MixedAttentionModel],
    decode: DecodeAttentionModel,
    prefill: PrefillAttentionModel,
) -> Recipe[MixedAttentionModel]:
    """The recipe with other kernels of the device."""
    return replace(
        recipe, predict_s=lambda model, columns: fused_s(model, decode, prefill, columns)
    )
