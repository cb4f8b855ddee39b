"""How the kernels of a profile are fitted to microbenchmark rows.

Forms are those of `hwmodels.kernels`; priors are the constants of the nearest profile.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hwmodels.device import DeviceSpec
from hwmodels.fitting.parameter import FloatArray, Parameter
from hwmodels.fitting.recipe import Columns, Recipe, Values
from hwmodels.fitting.recipes.gemm import (
    ONE_TILE,
    SMALLEST_SIDE,
    THREE_TILES,
    Tiles,
    gemm_recipe,
)
from hwmodels.fitting.recipes.l2 import l2_recipe
from hwmodels.fitting.recipes.prefill_attention import prefill_attention_recipe
from hwmodels.fitting.rows_file import is_choice
from hwmodels.fitting.rows_forms import CascadeForm, cascade_s, decode_s, prefill_s
from hwmodels.fitting.rows_shared_prefix import packed_s
from hwmodels.kernels.decode_attention import DecodeAttentionModel
from hwmodels.kernels.gemm import GemmModel
from hwmodels.kernels.l2_curve import L2Curve
from hwmodels.kernels.packed import PackedModel
from hwmodels.kernels.parameters import SECONDS, check_parameters, to_values
from hwmodels.kernels.prefill_attention import PrefillAttentionModel
from hwmodels.measurements.l2_bandwidth import SMALLEST_BYTES

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

CTA_LIMITS = ("cta_gqa_bytes_per_s", "cta_mha_bytes_per_s")
GEMM_CHOICES: tuple[tuple[Tiles, float], ...] = ((THREE_TILES, 1.0), (ONE_TILE, 0.5))
"""Tiles and rounding of waves of the shipped profiles: of Ampere, of Hopper."""

_SHORTEST_CONTEXT = 128
_LAUNCH = Parameter(name="launch_s", start=8e-6, low=5e-7, high=1e-4)


def with_priors(
    parameters: Iterable[Parameter], prior: "DataclassInstance"
) -> tuple[Parameter, ...]:
    """Parameters that start from, and fall back to, the constants of a model.

    A constant that the model lacks keeps its own start and prior.
    """
    known = numbers_of(prior)
    return tuple(_with_prior(one, known.get(one.name)) for one in parameters)


def _with_prior(parameter: Parameter, value: float | None) -> Parameter:
    if value is None:
        return parameter
    start = min(max(value, parameter.low), parameter.high) if value > 0 else parameter.start
    return replace(parameter, start=start, prior=value)


def numbers_of(
    model: "DataclassInstance", skipped: frozenset[str] = frozenset()
) -> dict[str, float]:
    """All numbers of a model by name, nested ones dotted; the fields in `skipped` left out."""
    return dict(_numbers(to_values(model, skipped), ""))


def _numbers(value: object, name: str) -> Iterator[tuple[str, float]]:
    if isinstance(value, dict | list):
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        for key, child in pairs:
            yield from _numbers(child, f"{name}.{key}" if name else f"{key}")
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield name, float(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamForm:
    """A pass over a data set: a fixed time, and its bytes at the rate of the curve.

    Attributes:
        pass_s: fixed time of one pass.
        curve: rate against the size of the data set.
    """

    pass_s: float = field(metadata=SECONDS)
    curve: L2Curve

    def __post_init__(self) -> None:
        check_parameters(self)

    def time_s(self, data_set_bytes: FloatArray) -> FloatArray:
        """Seconds of one pass. Shape as the sizes."""
        times_s: FloatArray = self.pass_s + data_set_bytes / self.curve.bytes_per_s(data_set_bytes)
        return times_s


def stream_recipe(
    device: DeviceSpec, prior: L2Curve, has_pass_time: bool = True
) -> Recipe[StreamForm]:
    """Recipe for reads of growing data sets.

    Args:
        device: the GPU.
        prior: constants to start from.
        has_pass_time: fit the fixed time of a pass; else it is 0.
    """
    curve = (
        replace(one, name=f"curve.{one.name}")
        for one in with_priors(l2_recipe(device).parameters, prior)
    )
    fixed = Parameter(name="pass_s", start=2e-6, low=1e-8, high=1e-4, prior=0.0)

    def build(values: Values) -> StreamForm:
        own = {name.removeprefix("curve."): values[name] for name in values if "." in name}
        return StreamForm(pass_s=values.get("pass_s", 0.0), curve=L2Curve(**own))

    return Recipe(
        kernel="stream",
        parameters=(*((fixed,) if has_pass_time else ()), *curve),
        build=build,
        predict_s=lambda model, columns: model.time_s(columns["data_set_bytes"]),
        shape_columns=("data_set_bytes",),
        valid_columns=("data_set_bytes",),
        in_scope=is_large_read,
        scope="reads of data sets above the SMs' own caches; the time is that of one pass",
    )


def gemm_rows_recipe(
    device: DeviceSpec, prior: GemmModel, tiles: Tiles, wave_ceil_weight: float
) -> Recipe[GemmModel]:
    """Recipe for the library's products with one of `GEMM_CHOICES`."""
    recipe = gemm_recipe(device, tiles, wave_ceil_weight)
    return replace(
        recipe,
        parameters=with_priors(recipe.parameters, prior),
        in_scope=is_library_product,
        scope=f"the library's products, {recipe.scope}",
        parts={},
    )


def decode_rows_recipe(
    device: DeviceSpec, prior: DecodeAttentionModel, limits: tuple[str, ...] = CTA_LIMITS
) -> Recipe[DecodeAttentionModel]:
    """Recipe for decode attention with given splits, equal and unequal lengths.

    Args:
        device: the GPU.
        prior: gives the choice of splits, which a benchmark does not make.
        limits: rates of one thread block that are fitted; the others do not limit.
    """
    rate = device.hbm_bytes_per_s
    own = (
        Parameter(name="hbm_bytes_per_s", start=0.85 * rate, low=0.2 * rate, high=rate),
        _LAUNCH,
        Parameter(name="wave_s", start=1e-6, low=1e-8, high=3e-5),
        Parameter(name="combine_s", start=2e-6, low=1e-8, high=1e-4),
        Parameter(name="head_swap_s", start=1e-6, low=1e-8, high=3e-5),
        Parameter(name="straggler_bytes_per_s", start=2.5e10, low=3e9, high=3e11),
        *(Parameter(name=name, start=2e10, low=3e9, high=3e11) for name in limits),
    )

    def build(values: Values) -> DecodeAttentionModel:
        own: dict[str, Any] = dict.fromkeys(CTA_LIMITS) | dict(values)
        return replace(prior, num_sms=device.num_sms, **own)

    return Recipe(
        kernel="decode_attention",
        parameters=with_priors(own, prior),
        build=build,
        predict_s=decode_s,
        shape_columns=("num_heads", "num_kv_heads", "batch"),
        valid_columns=("batch_size", "context_tokens", "num_heads", "num_kv_heads"),
        in_scope=is_long_context,
        scope=f"contexts of {_SHORTEST_CONTEXT} or more, head size 128, splits as asked for",
        restated="The choice of splits is that of the prior.",
    )


def prefill_rows_recipe(
    device: DeviceSpec, prior: PrefillAttentionModel
) -> Recipe[PrefillAttentionModel]:
    """Recipe for chunks over paged prefixes."""
    recipe = prefill_attention_recipe(device)
    return replace(
        recipe,
        parameters=with_priors(_wider(recipe.parameters), prior),
        predict_s=prefill_s,
        shape_columns=("num_heads", "num_kv_heads", "chunk_tokens", "prefix_tokens", "batch"),
        scope="chunks of 128 tokens or more over paged prefixes, head size 128",
        parts={},
    )


def _wider(parameters: Iterable[Parameter]) -> Iterator[Parameter]:
    """Lower bounds a third as high: a kernel of our own need not be as fast as a library's."""
    for one in parameters:
        yield replace(one, low=one.low / 3, start=max(one.start, one.low))


def packed_recipe(device: DeviceSpec, prior: PackedModel) -> Recipe[PackedModel]:
    """Recipe for the kernel that reads every node once."""
    rate, flops = device.hbm_bytes_per_s, device.peak_flops_per_s
    own = (
        replace(_LAUNCH, high=2e-4),
        Parameter(name="hbm_bytes_per_s", start=0.85 * rate, low=0.1 * rate, high=rate),
        Parameter(name="flops_per_s", start=0.5 * flops, low=0.02 * flops, high=flops),
        Parameter(name="p_norm", start=1.7, low=1.0, high=20.0),
        Parameter(name="merge_bytes_per_s", start=3e12, low=1e11, high=3e13),
    )
    return Recipe(
        kernel="packed",
        parameters=with_priors(own, prior),
        build=lambda values: PackedModel(**values),
        predict_s=packed_s,
        shape_columns=("groups", "members", "prefix_tokens"),
        valid_columns=("groups", "members", "prefix_tokens", "suffix_tokens"),
        in_scope=everything,
        scope="one prefix per group and a suffix per member",
    )


def cascade_recipe(
    decode: DecodeAttentionModel, prefill: PrefillAttentionModel, packed: PackedModel
) -> Recipe[CascadeForm]:
    """Recipe for the one factor that a cascade has beside its parts."""

    def build(values: Values) -> CascadeForm:
        return CascadeForm(
            scale=values["scale"],
            decode_attention=decode,
            prefill_attention=prefill,
            packed=packed,
        )

    return Recipe(
        kernel="cascade",
        parameters=(Parameter(name="scale", start=1.0, low=0.05, high=20.0),),
        build=build,
        predict_s=cascade_s,
        shape_columns=("batch", "prefix_tokens", "num_heads", "num_kv_heads"),
        valid_columns=("batch", "prefix_tokens", "suffix_tokens"),
        in_scope=everything,
        scope="one prefix that all requests share",
        siblings=frozenset({"decode_attention", "prefill_attention", "packed"}),
    )


def is_large_read(columns: Columns) -> NDArray[np.bool_]:
    """Reads that the SMs' own caches do not hold."""
    return is_choice(columns, "op", "read") & (columns["data_set_bytes"] >= SMALLEST_BYTES)


def is_library_product(columns: Columns) -> NDArray[np.bool_]:
    """Products by the library whose n and k are long enough for the form."""
    shortest = np.minimum(columns["n"], columns["k"])
    return is_choice(columns, "impl", "library") & (shortest >= SMALLEST_SIDE)


def is_long_context(columns: Columns) -> NDArray[np.bool_]:
    """Decode attention over contexts of a tile or more."""
    return columns["context"] >= _SHORTEST_CONTEXT


def everything(columns: Columns) -> NDArray[np.bool_]:
    """All rows."""
    return np.ones(next(iter(columns.values())).size, dtype=bool)
