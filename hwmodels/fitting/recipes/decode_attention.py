"""How the decode attention model is fitted."""

import numpy as np

from hwmodels.device import DeviceSpec
from hwmodels.fitting.parameter import FloatArray, Parameter
from hwmodels.fitting.recipe import Columns, Recipe, Values
from hwmodels.kernels.decode_attention import DecodeAttentionModel

LARGEST_BATCH = 512
SHORTEST_CONTEXT = 128
"""Rows that count: at most this batch and at least this context."""


def decode_attention_recipe(
    device: DeviceSpec,
    straggler_bytes_per_s: float | None,
    split_slots: int,
    can_split_mha: bool,
    has_cta_limit: bool,
    restated: str,
) -> Recipe[DecodeAttentionModel]:
    """Recipe for one kernel generation.

    Args:
        device: the GPU.
        straggler_bytes_per_s: restated, for equal lengths do not show it; None: the fitted rate of
            a block with one query head per KV head.
        split_slots: thread blocks that the choice of splits counts on.
        can_split_mha: whether one query head per KV head may be split.
        has_cta_limit: fit the rate of one thread block; else it is not limited.
        restated: where the constants that are not fitted come from.
    """
    limits = (
        Parameter(name="cta_gqa_bytes_per_s", start=1.8e10, low=5e9, high=1e11),
        Parameter(name="cta_mha_bytes_per_s", start=2.2e10, low=5e9, high=1e11),
    )
    parameters = (
        Parameter(
            name="hbm_bytes_per_s",
            start=0.85 * device.hbm_bytes_per_s,
            low=0.5 * device.hbm_bytes_per_s,
            high=device.hbm_bytes_per_s,
        ),
        Parameter(name="launch_s", start=8e-6, low=1e-6, high=3e-5),
        Parameter(name="wave_s", start=2e-6, low=1e-8, high=2e-5, prior=0.0),
        Parameter(name="combine_s", start=2e-6, low=1e-8, high=3e-5, prior=0.0),
        Parameter(name="head_swap_s", start=1e-6, low=1e-8, high=3e-5, prior=0.0),
        *(limits if has_cta_limit else ()),
    )

    def build(values: Values) -> DecodeAttentionModel:
        return DecodeAttentionModel(
            num_sms=device.num_sms,
            launch_s=values["launch_s"],
            hbm_bytes_per_s=values["hbm_bytes_per_s"],
            wave_s=values["wave_s"],
            combine_s=values["combine_s"],
            head_swap_s=values["head_swap_s"],
            cta_gqa_bytes_per_s=values.get("cta_gqa_bytes_per_s"),
            cta_mha_bytes_per_s=values.get("cta_mha_bytes_per_s"),
            straggler_bytes_per_s=straggler_bytes_per_s or values["cta_mha_bytes_per_s"],
            split_slots=split_slots,
            can_split_mha=can_split_mha,
        )

    return Recipe(
        kernel="decode_attention",
        parameters=parameters,
        build=build,
        predict_s=predict_decode_s,
        shape_columns=("num_heads", "num_kv_heads"),
        valid_columns=("batch_size", "context_tokens", "num_heads", "num_kv_heads"),
        in_scope=lambda columns: (
            (columns["batch_size"] <= LARGEST_BATCH)
            & (columns["context_tokens"] >= SHORTEST_CONTEXT)
        ),
        scope=f"batch up to {LARGEST_BATCH}, context of {SHORTEST_CONTEXT} or more, head size 128",
        restated=restated,
    )


def predict_decode_s(model: DecodeAttentionModel, columns: Columns) -> FloatArray:
    """Seconds of rows with equal context lengths, shape (rows,)."""
    heads, kv_heads = columns["num_heads"], columns["num_kv_heads"]
    predicted_s = np.empty(heads.size)
    for num_heads, num_kv_heads in np.unique(np.stack([heads, kv_heads], axis=1), axis=0):
        chosen = (heads == num_heads) & (kv_heads == num_kv_heads)
        batch, context = columns["batch_size"][chosen], columns["context_tokens"][chosen]
        total = batch * context
        predicted_s[chosen] = model.time_s(
            batch, total, context, total * context, int(num_heads), int(num_kv_heads)
        )
    return predicted_s
