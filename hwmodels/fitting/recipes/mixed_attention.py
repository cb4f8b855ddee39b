"""How the model of mixed steps is fitted, on an RTX PRO 6000, and carried to other GPUs.

The grid has no prefill alone, so the constants of that GPU's prefill kernel are fitted beside those
of the model, and dropped. The memory rate and that of one block are those of decodes alone.
"""

from dataclasses import dataclass, fields, replace

import numpy as np

from hwmodels.device import DeviceSpec
from hwmodels.fitting.parameter import FloatArray, Parameter
from hwmodels.fitting.recipe import Columns, FittedKernel, Recipe, Values
from hwmodels.fitting.recipes.unequal_lengths import (
    HBM_BYTES_PER_S,
    L2_BYTES,
    NUM_HEADS,
    NUM_KV_HEADS,
    NUM_SMS,
    RTX_DECODE,
)
from hwmodels.fitting.rounding import rounded
from hwmodels.kernels.mixed_attention import MixedAttentionModel
from hwmodels.kernels.prefill_attention import PrefillAttentionModel
from hwmodels.kernels.provenance import Provenance

MEASURED_ON = "rtx_pro_6000"
"""The GPU of the grid, which has no profile."""

_FLOPS_PER_S = 5.04e14
"""Compute peak of the RTX PRO 6000, 16 bit, dense."""
_MIXED, _PREFILL = "mixed.", "prefill."


@dataclass(frozen=True, slots=True, kw_only=True)
class MixedForm:
    """What is fitted together: the model, and the prefill kernel of the GPU that was measured."""

    mixed: MixedAttentionModel
    prefill: PrefillAttentionModel


def mixed_attention_recipe() -> Recipe[MixedForm]:
    """Recipe for calls with decodes and one prefill chunk; see `MixedAttentionModel`."""
    parameters = (
        Parameter(name="mixed.block_s", start=5e-6, low=1e-8, high=1e-4, prior=0.0),
        Parameter(name="mixed.idle_block_s", start=3e-7, low=1e-9, high=1e-5, prior=0.0),
        Parameter(name="mixed.longest_weight", start=0.7, low=0.01, high=1.5),
        Parameter(
            name="mixed.l2_reach_bytes",
            start=1.5 * L2_BYTES,
            low=0.3 * L2_BYTES,
            high=10.0 * L2_BYTES,
        ),
        Parameter(name="mixed.resident_weight", start=0.5, low=0.01, high=10.0),
        Parameter(name="prefill.launch_s", start=3e-6, low=1e-8, high=3e-5, prior=0.0),
        Parameter(
            name="prefill.flops_per_s",
            start=0.6 * _FLOPS_PER_S,
            low=0.3 * _FLOPS_PER_S,
            high=_FLOPS_PER_S,
        ),
        Parameter(name="prefill.tail_weight", start=0.7, low=0.01, high=5.0, prior=0.0),
        Parameter(
            name="prefill.io_bytes_per_s",
            start=0.6 * HBM_BYTES_PER_S,
            low=0.05 * HBM_BYTES_PER_S,
            high=HBM_BYTES_PER_S,
        ),
    )

    def build(values: Values) -> MixedForm:
        return MixedForm(
            mixed=MixedAttentionModel(packs_queries=False, **_part(values, _MIXED)),
            prefill=PrefillAttentionModel(num_sms=NUM_SMS, **_part(values, _PREFILL)),
        )

    return Recipe(
        kernel="mixed_attention",
        parameters=parameters,
        build=build,
        predict_s=predict_mixed_s,
        shape_columns=("batch_size", "chunk_tokens", "prefix_tokens"),
        valid_columns=(
            "batch_size",
            "context_tokens",
            "longest_tokens",
            "chunk_tokens",
            "prefix_tokens",
        ),
        in_scope=lambda columns: columns["batch_size"] >= 1,
        scope="one chunk with decodes of equal and unequal lengths, one grouping of heads",
        parts={"unequal lengths": lambda columns: columns["num_long"] > 0},
    )


def predict_mixed_s(form: MixedForm, columns: Columns) -> FloatArray:
    """Seconds of calls on an RTX PRO 6000. Shape (rows,)."""
    times_s: FloatArray = np.asarray(
        form.mixed.time_s(
            RTX_DECODE,
            form.prefill,
            columns["batch_size"],
            columns["context_tokens"],
            columns["longest_tokens"],
            columns["chunk_tokens"],
            columns["prefix_tokens"],
            np.arange(columns["batch_size"].size),
            NUM_HEADS,
            NUM_KV_HEADS,
        )
    )
    return times_s


def carried_to(
    found: FittedKernel[MixedForm], device: DeviceSpec, packs_queries: bool
) -> tuple[MixedAttentionModel, Provenance]:
    """The model of another GPU, and its record: extrapolated, without rows and errors.

    Args:
        found: on the RTX PRO 6000.
        device: the other GPU.
        packs_queries: whether the kernel that it runs packs the query heads of a KV head.
    """
    size_ratio = device.l2_bytes / L2_BYTES
    reach_bytes = rounded(found.model.mixed.l2_reach_bytes * size_ratio)
    model = replace(found.model.mixed, l2_reach_bytes=reach_bytes, packs_queries=packs_queries)
    kernel = (
        "FlashAttention 3, which packs the query heads of a KV head and starts no idle blocks: "
        "neither was measured"
        if packs_queries
        else "FlashAttention 2, as measured"
    )
    record = found.provenance
    source = (
        f"Transferred from {MEASURED_ON}: l2_reach_bytes by the ratio of L2 sizes "
        f"({size_ratio:.4g}), all else unchanged, beside the decode and prefill kernels of this "
        f"device; the error here is unknown. Kernel: {kernel}. There: {record.source} Held-out "
        f"error {record.heldout_mape}."
    )
    return model, Provenance(
        standard_errors=dict.fromkeys(item.name for item in fields(model)),
        num_rows=0,
        heldout_mape=None,
        source=source,
        valid=record.valid,
        is_extrapolated=True,
    )


def _part(values: Values, prefix: str) -> dict[str, float]:
    return {
        name.removeprefix(prefix): value
        for name, value in values.items()
        if name.startswith(prefix)
    }
