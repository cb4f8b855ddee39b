"""How the mixture-of-experts model is fitted."""

import numpy as np

from hwmodels.device import DeviceSpec
from hwmodels.fitting.parameter import FloatArray, Parameter
from hwmodels.fitting.recipe import Columns, Recipe, Values
from hwmodels.kernels.moe import MoeModel


def moe_recipe(device: DeviceSpec) -> Recipe[MoeModel]:
    """Recipe for the routed experts of one layer; see `MoeModel`."""
    parameters = (
        Parameter(
            name="flops_per_s",
            start=0.6 * device.peak_flops_per_s,
            low=0.2 * device.peak_flops_per_s,
            high=device.peak_flops_per_s,
        ),
        Parameter(
            name="hbm_bytes_per_s",
            start=0.9 * device.hbm_bytes_per_s,
            low=0.4 * device.hbm_bytes_per_s,
            high=device.hbm_bytes_per_s,
        ),
        Parameter(name="launch_s", start=3e-5, low=2e-6, high=2e-4),
        Parameter(name="p_norm", start=1.5, low=1.0, high=20.0),
        Parameter(name="expert_s", start=5e-8, low=1e-10, high=5e-6, prior=0.0),
        Parameter(name="activation_weight", start=1.0, low=0.05, high=10.0),
    )

    def build(values: Values) -> MoeModel:
        return MoeModel(**values)

    return Recipe(
        kernel="moe",
        parameters=parameters,
        build=build,
        predict_s=_predict_s,
        shape_columns=("hidden_size", "intermediate_size", "top_k", "num_experts"),
        valid_columns=(
            "num_tokens",
            "hidden_size",
            "intermediate_size",
            "top_k",
            "num_experts",
        ),
        in_scope=lambda columns: np.ones(columns["num_tokens"].size, dtype=bool),
        scope="all experts on one tensor-parallel group",
        restated="Trends only: the error is large and does not average out over shapes.",
    )


def _predict_s(model: MoeModel, columns: Columns) -> FloatArray:
    return model.time_s(
        columns["num_tokens"],
        columns["hidden_size"],
        columns["intermediate_size"],
        columns["top_k"],
        columns["num_experts"],
    )
