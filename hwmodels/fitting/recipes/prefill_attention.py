"""How the prefill attention model is fitted."""

import numpy as np
from numpy.typing import NDArray

from hwmodels.device import DeviceSpec
from hwmodels.fitting.parameter import FloatArray, Parameter
from hwmodels.fitting.recipe import Columns, Recipe, Values
from hwmodels.kernels.prefill_attention import PrefillAttentionModel

SHORTEST_CHUNK = 128
"""Rows that count: chunks of at least this."""

MANY_HEADS = 8
"""Query heads per GPU of most models; fewer leave processors idle, and err more."""


def prefill_attention_recipe(device: DeviceSpec) -> Recipe[PrefillAttentionModel]:
    """Recipe for causal prefill; see `PrefillAttentionModel`."""
    parameters = (
        Parameter(
            name="flops_per_s",
            start=0.65 * device.peak_flops_per_s,
            low=0.3 * device.peak_flops_per_s,
            high=device.peak_flops_per_s,
        ),
        Parameter(name="launch_s", start=1e-5, low=1e-6, high=5e-5),
        Parameter(name="tail_weight", start=0.7, low=0.01, high=5.0, prior=0.0),
        Parameter(
            name="io_bytes_per_s",
            start=0.4 * device.hbm_bytes_per_s,
            low=0.05 * device.hbm_bytes_per_s,
            high=device.hbm_bytes_per_s,
        ),
    )

    def build(values: Values) -> PrefillAttentionModel:
        return PrefillAttentionModel(num_sms=device.num_sms, **values)

    return Recipe(
        kernel="prefill_attention",
        parameters=parameters,
        build=build,
        predict_s=_predict_s,
        shape_columns=("num_heads", "num_kv_heads"),
        valid_columns=("batch_size", "chunk_tokens", "prefix_tokens", "num_heads", "num_kv_heads"),
        in_scope=lambda columns: columns["chunk_tokens"] >= SHORTEST_CHUNK,
        scope=f"chunks of {SHORTEST_CHUNK} tokens or more, head size 128, no prefix in the rows",
        parts={f"{MANY_HEADS} heads or more": has_many_heads},
    )


def has_many_heads(columns: Columns) -> NDArray[np.bool_]:
    """Rows with `MANY_HEADS` query heads or more."""
    return columns["num_heads"] >= MANY_HEADS


def _predict_s(model: PrefillAttentionModel, columns: Columns) -> FloatArray:
    return model.time_s(
        columns["batch_size"],
        columns["chunk_tokens"],
        columns["prefix_tokens"],
        columns["num_heads"],
        columns["num_kv_heads"],
    )
