"""Benchmarks of the machine that no kernel model holds: launches and copies, and all-reduce groups.

Launches are reported; copies give the link rates of a device profile. Each is a fixed time and a
time per unit.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from hwmodels.device import DeviceSpec
from hwmodels.fitting.parameter import Parameter
from hwmodels.fitting.recipe import FittedKernel, Recipe, Values
from hwmodels.fitting.recipes.all_reduce import ring_bytes_per_s
from hwmodels.fitting.rows_errors import fit_with_errors
from hwmodels.fitting.rows_file import RowsFile, is_choice
from hwmodels.fitting.rows_recipes import everything, with_priors
from hwmodels.kernels.all_reduce import AllReduceGroup, AllReduceModel
from hwmodels.kernels.parameters import RATE, SECONDS, check_parameters
from hwmodels.measurements.rows import MeasuredRows


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchForm:
    """`first_s + num_kernels * kernel_s`.

    Attributes:
        first_s: fixed time of a sequence.
        kernel_s: time that each kernel adds.
    """

    first_s: float = field(metadata=SECONDS)
    kernel_s: float = field(metadata=SECONDS)

    def __post_init__(self) -> None:
        check_parameters(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyForm:
    """`latency_s + bytes / bytes_per_s`.

    Attributes:
        latency_s: fixed time of a copy.
        bytes_per_s: rate of a large one.
    """

    latency_s: float = field(metadata=SECONDS)
    bytes_per_s: float = field(metadata=RATE)

    def __post_init__(self) -> None:
        check_parameters(self)


def launch_recipe(kind: str) -> Recipe[LaunchForm]:
    """Recipe for kernels launched one by one (`launch`) or as one graph (`graph_replay`)."""
    return Recipe(
        kernel=kind,
        parameters=(
            Parameter(name="first_s", start=5e-6, low=1e-8, high=1e-3, prior=0.0),
            Parameter(name="kernel_s", start=2e-6, low=1e-8, high=1e-3),
        ),
        build=lambda values: LaunchForm(**values),
        predict_s=lambda model, columns: model.first_s + model.kernel_s * columns["num_kernels"],
        shape_columns=("num_kernels",),
        valid_columns=("num_kernels",),
        in_scope=lambda columns: is_choice(columns, "kind", kind),
        scope="kernels that do next to nothing",
    )


def copy_recipe(direction: str, is_pinned: bool) -> Recipe[CopyForm]:
    """Recipe for copies in one direction, from page-locked or other memory."""
    return Recipe(
        kernel=f"copy {direction} {'pinned' if is_pinned else 'pageable'}",
        parameters=(
            Parameter(name="latency_s", start=1e-5, low=1e-7, high=1e-3),
            Parameter(name="bytes_per_s", start=2e10, low=1e8, high=2e12),
        ),
        build=lambda values: CopyForm(**values),
        predict_s=lambda model, columns: model.latency_s + columns["num_bytes"] / model.bytes_per_s,
        shape_columns=("num_bytes",),
        valid_columns=("num_bytes",),
        in_scope=lambda columns: (
            is_choice(columns, "direction", direction) & (columns["pinned"] == is_pinned)
        ),
        scope="one copy at a time",
    )


def overhead_recipes() -> Iterator[tuple[str, Recipe[Any]]]:
    """Benchmark and recipe of everything that no kernel model holds."""
    for kind in ("launch", "graph_replay"):
        yield "launch", launch_recipe(kind)
    for direction, is_pinned in (("h2d", True), ("h2d", False), ("d2h", True), ("d2h", False)):
        yield "copy", copy_recipe(direction, is_pinned)
    yield "copy", copy_recipe("p2p", is_pinned=True)


def fit_overheads(file: RowsFile) -> dict[str, FittedKernel[Any]]:
    """Fit what the file has enough rows of, by the name of its recipe."""
    found = {}
    for benchmark, recipe in overhead_recipes():
        rows = file.rows_of(benchmark)
        if rows is not None and num_in_scope(recipe, rows) > len(recipe.parameters) + 1:
            found[recipe.kernel] = fit_with_errors(recipe, rows)
    return found


def num_in_scope(recipe: Recipe[Any], rows: MeasuredRows) -> int:
    """Rows that a fit would use."""
    return int(recipe.in_scope(rows.columns).sum())


def all_reduce_rows_recipe(
    device: DeviceSpec, rows: MeasuredRows, prior: AllReduceModel | None
) -> Recipe[AllReduceModel]:
    """Recipe for the group sizes that were measured; others stay as in the prior."""
    sizes = sorted(int(number) for number in np.unique(rows.columns["num_gpus"]))
    known = {group.num_gpus: group for group in (prior.groups if prior else ())}
    known |= {
        number: AllReduceGroup(
            num_gpus=number,
            base_s=1e-5,
            bytes_per_s=ring_bytes_per_s(device, number),
            root_s=0.0,
        )
        for number in sizes
        if number not in known
    }
    model = AllReduceModel(groups=tuple(known[number] for number in sorted(known)))
    places = [place for place, group in enumerate(model.groups) if group.num_gpus in sizes]
    rate = device.nvlink_bytes_per_s
    own = tuple(
        parameter
        for place in places
        for parameter in (
            Parameter(name=f"groups.{place}.base_s", start=1e-5, low=5e-7, high=1e-3),
            Parameter(
                name=f"groups.{place}.bytes_per_s", start=0.3 * rate, low=0.01 * rate, high=2 * rate
            ),
            Parameter(name=f"groups.{place}.root_s", start=4e-6, low=1e-8, high=1e-3),
        )
    )

    def build(values: Values) -> AllReduceModel:
        groups = list(model.groups)
        for place in places:
            fitted: dict[str, Any] = {
                key: values[f"groups.{place}.{key}"] for key in ("base_s", "bytes_per_s", "root_s")
            }
            groups[place] = replace(groups[place], **fitted)
        return AllReduceModel(groups=tuple(groups))

    return Recipe(
        kernel="nccl",
        parameters=with_priors(own, model),
        build=build,
        predict_s=lambda model, columns: model.time_s(columns["num_bytes"], columns["num_gpus"]),
        shape_columns=("num_gpus", "num_bytes"),
        valid_columns=("num_bytes", "num_gpus"),
        in_scope=everything,
        scope="groups of the GPUs of one host",
        restated="Groups of other sizes are those of the prior.",
    )
