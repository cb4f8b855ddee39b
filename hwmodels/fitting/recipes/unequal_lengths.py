"""How the decode form is fitted to batches of unequal lengths on an RTX PRO 6000.

No profile is of that GPU: the fit is there for the rate of the longest context, which tables of
equal lengths do not show, and for the memory rate that mixed steps are fitted beside.
"""

import numpy as np

from hwmodels.fitting.parameter import FloatArray, Parameter
from hwmodels.fitting.recipe import Columns, Recipe, Values
from hwmodels.kernels.decode_attention import DecodeAttentionModel

NUM_SMS = 188
HBM_BYTES_PER_S = 1.792e12
L2_BYTES = 128 * 2**20
"""Datasheet of the RTX PRO 6000 Blackwell: processors, GDDR7 peak, L2 cache."""

NUM_HEADS, NUM_KV_HEADS = 32, 8
"""Heads of the grid, which does not state them: only so do its largest batches, 1.06 million tokens
in 2.9 ms, read at 84 % of the memory's peak, and do blocks of 32 heads fill the waves seen."""

RTX_DECODE = DecodeAttentionModel(
    num_sms=NUM_SMS,
    launch_s=1.4122e-5,
    hbm_bytes_per_s=1.4326e12,
    wave_s=0.0,
    combine_s=0.0,
    head_swap_s=0.0,
    cta_gqa_bytes_per_s=None,
    cta_mha_bytes_per_s=None,
    straggler_bytes_per_s=2.3866e10,
    split_slots=2 * NUM_SMS,
    can_split_mha=True,
)
"""What the fit below finds; the straggler's standard error is 1.1 GB/s."""


def unequal_lengths_recipe() -> Recipe[DecodeAttentionModel]:
    """Recipe for all batches of decodes alone, equal ones too."""
    parameters = (
        Parameter(
            name="hbm_bytes_per_s",
            start=0.85 * HBM_BYTES_PER_S,
            low=0.5 * HBM_BYTES_PER_S,
            high=HBM_BYTES_PER_S,
        ),
        Parameter(name="launch_s", start=8e-6, low=1e-6, high=3e-5),
        Parameter(name="wave_s", start=1e-6, low=1e-8, high=2e-5, prior=0.0),
        Parameter(name="combine_s", start=1e-6, low=1e-8, high=3e-5, prior=0.0),
        Parameter(name="straggler_bytes_per_s", start=3e10, low=5e9, high=2e11),
    )

    def build(values: Values) -> DecodeAttentionModel:
        return DecodeAttentionModel(
            num_sms=NUM_SMS,
            launch_s=values["launch_s"],
            hbm_bytes_per_s=values["hbm_bytes_per_s"],
            wave_s=values["wave_s"],
            combine_s=values["combine_s"],
            head_swap_s=0.0,
            cta_gqa_bytes_per_s=None,
            cta_mha_bytes_per_s=None,
            straggler_bytes_per_s=values["straggler_bytes_per_s"],
            split_slots=2 * NUM_SMS,
            can_split_mha=True,
        )

    return Recipe(
        kernel="decode_attention",
        parameters=parameters,
        build=build,
        predict_s=predict_batches_s,
        shape_columns=("batch_size", "num_long"),
        valid_columns=("batch_size", "context_tokens", "longest_tokens"),
        in_scope=lambda columns: columns["batch_size"] >= 1,
        scope="equal and unequal lengths, one grouping of heads",
        restated="Splits as FlashAttention 2 chooses them for two blocks per processor; every "
        "batch swaps heads, so launch_s holds that too.",
        parts={"unequal lengths": lambda columns: columns["num_long"] > 0},
    )


def predict_batches_s(model: DecodeAttentionModel, columns: Columns) -> FloatArray:
    """Seconds of batches given by the moments of their lengths. Shape (rows,)."""
    times_s: FloatArray = np.asarray(
        model.time_s(
            columns["batch_size"],
            columns["context_tokens"],
            columns["longest_tokens"],
            columns["sum_squares"],
            NUM_HEADS,
            NUM_KV_HEADS,
        )
    )
    return times_s
