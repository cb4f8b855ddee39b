"""How the model of small operators is fitted."""

import numpy as np
from numpy.typing import NDArray

from hwmodels.device import DeviceSpec
from hwmodels.fitting.parameter import FloatArray, Parameter
from hwmodels.fitting.recipe import Columns, Recipe, Values
from hwmodels.kernels.small_ops import SmallOpsModel

SAMPLING_S = 4e-5
"""Fixed time of sampling: about ten kernels of 4 us (assumed; no table has it)."""

RESTATED = (
    "Sampling is assumed, not fitted: 40 us and float32 logits moved once at the fitted rate of "
    "the small operators."
)


def small_ops_recipe(device: DeviceSpec) -> Recipe[SmallOpsModel]:
    """Recipe for norms, rotary embedding, activation and residuals; see `SmallOpsModel`."""
    parameters = (
        Parameter(name="layer_s", start=1.5e-5, low=1e-6, high=1e-4),
        Parameter(
            name="bytes_per_s",
            start=0.5 * device.hbm_bytes_per_s,
            low=0.05 * device.hbm_bytes_per_s,
            high=device.hbm_bytes_per_s,
        ),
    )

    def build(values: Values) -> SmallOpsModel:
        return SmallOpsModel(
            layer_s=values["layer_s"],
            bytes_per_s=values["bytes_per_s"],
            sampling_s=SAMPLING_S,
            sampling_bytes_per_s=values["bytes_per_s"],
        )

    return Recipe(
        kernel="small_ops",
        parameters=parameters,
        build=build,
        predict_s=_predict_s,
        shape_columns=("token_bytes",),
        valid_columns=("num_tokens", "token_bytes"),
        in_scope=_thinned,
        scope="sums of a layer's operators above the profiler's resolution of 1 us; as many token "
        "counts per octave as there are, up to four, so that decode sizes count",
        restated=RESTATED,
    )


def _thinned(columns: Columns) -> NDArray[np.bool_]:
    """Rows of the first token count in each quarter of an octave."""
    tokens = np.unique(columns["num_tokens"])
    _, first = np.unique(np.floor(4 * np.log2(tokens)), return_index=True)
    return np.isin(columns["num_tokens"], tokens[first])


def _predict_s(model: SmallOpsModel, columns: Columns) -> FloatArray:
    return model.time_s(columns["num_tokens"], columns["token_bytes"])
