"""How the L2 curve is fitted."""

import numpy as np

from hwmodels.device import DeviceSpec
from hwmodels.fitting.parameter import FloatArray, Parameter
from hwmodels.fitting.recipe import Columns, Recipe, Values
from hwmodels.kernels.l2_curve import L2Curve


def l2_recipe(device: DeviceSpec) -> Recipe[L2Curve]:
    """Recipe for the read rate against the size of a cyclic scan; see `L2Curve`."""
    parameters = (
        Parameter(
            name="midpoint_bytes",
            start=0.9 * device.l2_bytes,
            low=0.3 * device.l2_bytes,
            high=1.5 * device.l2_bytes,
        ),
        Parameter(name="log_width", start=0.1, low=0.005, high=1.0),
        Parameter(
            name="l2_bytes_per_s",
            start=2.5 * device.hbm_bytes_per_s,
            low=device.hbm_bytes_per_s,
            high=10 * device.hbm_bytes_per_s,
        ),
        Parameter(
            name="hbm_bytes_per_s",
            start=0.85 * device.hbm_bytes_per_s,
            low=0.3 * device.hbm_bytes_per_s,
            high=device.hbm_bytes_per_s,
        ),
    )

    def build(values: Values) -> L2Curve:
        return L2Curve(**values)

    return Recipe(
        kernel="l2",
        parameters=parameters,
        build=build,
        predict_s=_predict_s,
        shape_columns=("data_set_bytes",),
        valid_columns=("data_set_bytes",),
        in_scope=lambda columns: np.ones(columns["data_set_bytes"].size, dtype=bool),
        scope="data sets above the SMs' own caches; the time is that of one pass",
    )


def _predict_s(model: L2Curve, columns: Columns) -> FloatArray:
    data_set_bytes = columns["data_set_bytes"]
    return np.asarray(data_set_bytes / model.bytes_per_s(data_set_bytes))
