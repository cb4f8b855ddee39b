"""How the all-reduce model is fitted, one set of constants per number of GPUs."""

import numpy as np

from hwmodels.device import DeviceSpec
from hwmodels.fitting.parameter import FloatArray, Parameter
from hwmodels.fitting.recipe import Columns, Recipe, Values
from hwmodels.kernels.all_reduce import AllReduceGroup, AllReduceModel

NUM_GPUS = (2, 4, 8)
"""Group sizes of the tables."""


LARGEST_BYTES = 2**26
"""Largest message that counts: 8,192 tokens of a residual stream of 4,096, in bf16."""


def all_reduce_recipe(
    kernel: str, device: DeviceSpec, peer_root_s: float
) -> Recipe[AllReduceModel]:
    """Recipe for one kind of all-reduce.

    Args:
        kernel: `all_reduce` (CUDA graph) or `nccl`.
        device: the GPU.
        peer_root_s: prior of the square-root term per peer beyond the first, seconds.
    """
    parameters = tuple(
        parameter
        for place, num_gpus in enumerate(NUM_GPUS)
        for parameter in (
            Parameter(name=f"groups.{place}.base_s", start=6e-6, low=5e-7, high=1e-4),
            Parameter(
                name=f"groups.{place}.bytes_per_s",
                start=ring_bytes_per_s(device, num_gpus),
                low=0.05 * device.nvlink_bytes_per_s,
                high=2 * device.nvlink_bytes_per_s,
            ),
            Parameter(
                name=f"groups.{place}.root_s",
                start=4e-6,
                low=1e-8,
                high=3e-4,
                prior=peer_root_s * (num_gpus - 2),
            ),
        )
    )

    def build(values: Values) -> AllReduceModel:
        return AllReduceModel(
            groups=tuple(
                AllReduceGroup(
                    num_gpus=num_gpus,
                    base_s=values[f"groups.{place}.base_s"],
                    bytes_per_s=values[f"groups.{place}.bytes_per_s"],
                    root_s=values[f"groups.{place}.root_s"],
                )
                for place, num_gpus in enumerate(NUM_GPUS)
            )
        )

    return Recipe(
        kernel=kernel,
        parameters=parameters,
        build=build,
        predict_s=_predict_s,
        shape_columns=("num_gpus", "num_bytes"),
        valid_columns=("num_bytes", "num_gpus"),
        in_scope=lambda columns: (
            np.isin(columns["num_gpus"], NUM_GPUS) & (columns["num_bytes"] <= LARGEST_BYTES)
        ),
        scope=f"messages up to {LARGEST_BYTES / 2**20:.0f} MiB",
    )


def _predict_s(model: AllReduceModel, columns: Columns) -> FloatArray:
    return model.time_s(columns["num_bytes"], columns["num_gpus"])


def ring_bytes_per_s(device: DeviceSpec, num_gpus: int) -> float:
    """Message bytes per second of a ring over NVLink: each GPU moves 2(n-1)/n of a message."""
    link_bytes_per_s = device.nvlink_bytes_per_s * device.nvlink_efficiency_ratio
    return link_bytes_per_s * num_gpus / (2 * (num_gpus - 1))
