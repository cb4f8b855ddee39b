"""How the GEMM model is fitted."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hwmodels.device import DeviceSpec
from hwmodels.fitting.parameter import FloatArray, Parameter
from hwmodels.fitting.recipe import Columns, Recipe, Values
from hwmodels.kernels.gemm import GemmModel, Tile

SMALLEST_SIDE = 768
"""Shortest n and k of the rows that count."""

LARGE_SIDE = 1024
"""Shortest n and k of the matrices of models of 7B parameters and more on few GPUs."""

ONE_TILE = ((64, 64),)
THREE_TILES = ((64, 64), (64, 128), (128, 256))
"""Tile sizes (m, n); the last one reaches the model's compute rate."""

Tiles = Sequence[tuple[int, int]]


def gemm_recipe(device: DeviceSpec, tiles: Tiles, wave_ceil_weight: float) -> Recipe[GemmModel]:
    """Recipe for tiles and a rounding of waves; see `GemmModel`."""
    parameters = (
        Parameter(
            name="flops_per_s",
            start=0.87 * device.peak_flops_per_s,
            low=0.5 * device.peak_flops_per_s,
            high=device.peak_flops_per_s,
        ),
        Parameter(
            name="hbm_bytes_per_s",
            start=0.85 * device.hbm_bytes_per_s,
            low=0.5 * device.hbm_bytes_per_s,
            high=device.hbm_bytes_per_s,
        ),
        Parameter(name="launch_s", start=3e-6, low=2e-7, high=2e-5),
        Parameter(name="p_norm", start=3.0, low=1.0, high=20.0),
        Parameter(name="split_k_s", start=1.4e-6, low=1e-8, high=2e-5, prior=0.0),
        Parameter(name="prologue_s", start=5e-7, low=1e-9, high=2e-5, prior=0.0),
        *(
            Parameter(name=f"tiles.{place}.efficiency", start=0.8, low=0.3, high=1.0)
            for place in range(len(tiles) - 1)
        ),
    )

    def build(values: Values) -> GemmModel:
        last = len(tiles) - 1
        return GemmModel(
            num_sms=device.num_sms,
            tiles=tuple(
                Tile(m=m, n=n, efficiency=1.0 if i == last else values[f"tiles.{i}.efficiency"])
                for i, (m, n) in enumerate(tiles)
            ),
            wave_ceil_weight=wave_ceil_weight,
            flops_per_s=values["flops_per_s"],
            hbm_bytes_per_s=values["hbm_bytes_per_s"],
            launch_s=values["launch_s"],
            p_norm=values["p_norm"],
            split_k_s=values["split_k_s"],
            prologue_s=values["prologue_s"],
        )

    return Recipe(
        kernel="gemm",
        parameters=parameters,
        build=build,
        predict_s=_predict_s,
        shape_columns=("n", "k"),
        valid_columns=("m", "n", "k"),
        in_scope=lambda columns: np.minimum(columns["n"], columns["k"]) >= SMALLEST_SIDE,
        scope=f"n and k of {SMALLEST_SIDE} or more",
        parts={f"n and k of {LARGE_SIDE} or more": is_large},
        restated="Tile sizes and the rounding of waves are chosen, not fitted.",
    )


def is_large(columns: Columns) -> NDArray[np.bool_]:
    """Rows whose n and k are both `LARGE_SIDE` or more."""
    return np.minimum(columns["n"], columns["k"]) >= LARGE_SIDE


def _predict_s(model: GemmModel, columns: Columns) -> FloatArray:
    return model.time_s(columns["m"], columns["n"], columns["k"])
