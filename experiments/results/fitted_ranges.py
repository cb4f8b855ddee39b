"""How far the steps of a run left what its kernels were fitted to.

A kernel answers any question; what lies outside the measurements is an extrapolation, and how much
it matters is told by the share of the GPU time that was priced so. Contexts and chunks of a step
count by their means. Not checked: the hit curve of L2 and the constants of shared prefixes, whose
arguments are not recorded.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from experiments.deployment import Deployment
from experiments.quantities import percent
from experiments.results.kernel_seconds import ATTENTION, kernel_times
from experiments.results.run_shapes import FloatArray, RunShapes, run_shapes
from hwmodels.calibrated import CalibratedCost
from hwmodels.kernels.decode_step import layer_products
from hwmodels.work import all_reduce_bytes, small_ops_bytes
from sim.records import SimulationResult

Range = tuple[float, float]

FLAG = "outside_fitted_range"

_UNLESS_STATED: Mapping[str, Range] = {"head_dim": (128.0, 128.0)}
"""Attention was measured with heads of this width, unless a profile says otherwise."""

SMALLEST_SHARE = 0.01
"""Of the busy GPU time: less is told in result.json alone."""

_WORDS = {
    "m": "tokens of a step",
    "n": "width of a product",
    "k": "depth of a product",
    "batch_size": "batch size",
    "context_tokens": "mean context",
    "chunk_tokens": "mean chunk",
    "prefix_tokens": "tokens before a chunk",
    "num_heads": "query heads",
    "num_kv_heads": "KV heads",
    "head_dim": "width of a head",
    "num_tokens": "tokens of a step",
    "hidden_size": "hidden size",
    "intermediate_size": "width of an expert",
    "top_k": "experts per token",
    "num_experts": "experts",
    "num_bytes": "bytes of a message",
    "num_gpus": "GPUs",
    "token_bytes": "bytes of a token",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """One argument of one kernel in a run.

    Attributes:
        argument: its name in the profile.
        fitted: closed range that the measurements cover.
        reached: smallest and largest value of the run.
        outside_s: seconds of the kernel in the steps whose value lay outside. Shape (runs,).
    """

    argument: str
    fitted: Range
    reached: Range
    outside_s: FloatArray


def range_flags(result: SimulationResult, deployment: Deployment) -> list[dict[str, Any]]:
    """A flag per kernel that was asked outside its fitted ranges, by the order of its pricing.

    `is_minor` marks those below `SMALLEST_SHARE` of the time of all steps. What counts is the time
    of the kernel in the steps concerned; for attention, that of all attention in them.
    """
    cost = deployment.gpu_cost
    if not isinstance(cost, CalibratedCost):
        return []
    shapes = run_shapes(result, deployment.spec.rules.lag)
    busy_s = float(shapes.duration_s.sum())
    if busy_s <= 0:
        return []
    records = deployment.device.kernels.provenance
    times = kernel_times(cost, shapes)
    found: list[dict[str, Any]] = []
    for kernel in dict.fromkeys(cost.kernels_in_use):
        reaches = list(_reaches(kernel, cost, shapes, times, records[kernel].valid))
        outside = [one for one in reaches if one.outside_s.any()]
        if outside:
            told = "measured" if records[kernel].source.startswith("table of") else "fitted"
            found.append(_flag(kernel, outside, busy_s, told))
    return found


def _flag(kernel: str, outside: list[Reach], busy_s: float, told: str) -> dict[str, Any]:
    outside = sorted(outside, key=lambda one: -float(one.outside_s.sum()))
    # Two arguments may be outside in the same steps, which count once.
    total_s = float(np.max([one.outside_s for one in outside], axis=0).sum())
    share = min(1.0, total_s / busy_s)
    parts = "; ".join(
        _told(one, told)
        for place, one in enumerate(outside)
        if not place or one.outside_s.sum() >= SMALLEST_SHARE * busy_s
    )
    return {
        "flag": FLAG,
        "kernel": kernel,
        "share_ratio": share,
        "is_minor": share < SMALLEST_SHARE,
        "arguments": [
            {
                "argument": one.argument,
                "fitted": list(one.fitted),
                "reached": list(one.reached),
                "share_ratio": min(1.0, float(one.outside_s.sum()) / busy_s),
            }
            for one in outside
        ],
        "text": f"{kernel} is priced outside its {told} range in {_part(share)} of the busy GPU "
        f"time: {parts}",
    }


def _told(one: Reach, told: str) -> str:
    (low, high), (least, most) = one.fitted, one.reached
    parts = [f"down to {_number(least)} ({told} from {_number(low)})"] if least < low else []
    if most > high:
        is_only_zero = low == high == 0
        limit = "without any" if is_only_zero else f"to {_number(high)}"
        parts.append(f"up to {_number(most)} ({told} {limit})")
    return f"{_WORDS.get(one.argument, one.argument)} {' and '.join(parts)}"


def _part(share: float) -> str:
    return percent(share) if share >= 0.001 else "under 0.1 %"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 or value == round(value) else f"{value:.1f}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """Values of an argument over the runs that use the kernel. Shape (runs,) each.

    Attributes:
        first: in the first step of each run.
        is_used: runs in which the kernel is asked.
        growth: what each further step adds, 0 or 1.
    """

    first: FloatArray
    is_used: npt.NDArray[np.bool_]
    growth: int = 0


def _reaches(
    kernel: str,
    cost: CalibratedCost,
    shapes: RunShapes,
    times: Mapping[str, FloatArray],
    valid: Mapping[str, Range],
) -> Iterator[Reach]:
    """The arguments that a profile states a range of and that a run tells."""
    valid = {**_UNLESS_STATED, **valid}
    for argument, asked in _arguments(kernel, cost, shapes).items():
        if argument not in valid or not asked.is_used.any():
            continue
        last = asked.first + asked.growth * (shapes.num_steps - 1)
        reached = float(asked.first[asked.is_used].min()), float(last[asked.is_used].max())
        outside = _steps_outside(asked, shapes.num_steps, valid[argument]) * asked.is_used
        yield Reach(
            argument=argument,
            fitted=valid[argument],
            reached=reached,
            outside_s=outside / shapes.num_steps * times.get(kernel, times[ATTENTION]),
        )
    if kernel == "gemm":
        # Each product by its own time.
        yield from _product_reaches(cost, shapes, valid)


def _steps_outside(asked: _Asked, num_steps: FloatArray, fitted: Range) -> FloatArray:
    """Steps of each run whose value lies outside. Shape (runs,)."""
    low, high = fitted
    if not asked.growth:
        return num_steps * ((asked.first < low) | (asked.first > high))
    below = np.clip(np.ceil(low - asked.first), 0, num_steps)
    inside_or_below = np.clip(np.floor(high - asked.first) + 1, 0, num_steps)
    outside: FloatArray = below + num_steps - inside_or_below
    return outside


def _arguments(kernel: str, cost: CalibratedCost, shapes: RunShapes) -> dict[str, _Asked]:
    """Arguments of a kernel by their names in a profile."""
    shard, tokens = cost.shard, shapes.num_tokens
    has_chunks, has_decodes = shapes.num_chunks > 0, shapes.num_decodes > 0
    is_fused = has_chunks & has_decodes if "mixed_attention" in cost.kernels_in_use else None
    is_apart = np.ones(len(tokens), dtype=np.bool_) if is_fused is None else ~is_fused
    heads = {
        "num_heads": shard.num_attention_heads,
        "num_kv_heads": shard.num_kv_heads,
        "head_dim": shard.head_dim,
    }
    every = np.ones(len(tokens), dtype=np.bool_)

    def fixed(values: Mapping[str, float], used: npt.NDArray[np.bool_]) -> dict[str, _Asked]:
        return {
            name: _Asked(first=np.full(len(tokens), float(value)), is_used=used)
            for name, value in values.items()
        }

    if kernel == "gemm":
        return {"m": _Asked(first=tokens, is_used=every)}
    if kernel == "decode_attention":
        used = has_decodes & is_apart
        return {
            "batch_size": _Asked(first=shapes.num_decodes, is_used=used),
            "context_tokens": _Asked(first=shapes.mean_context_tokens, is_used=used, growth=1),
            **fixed(heads, used),
        }
    if kernel in ("prefill_attention", "mixed_attention"):
        used = has_chunks & is_apart
        own: dict[str, _Asked] = {}
        if kernel == "mixed_attention":
            used = has_chunks & has_decodes
            own["batch_size"] = _Asked(first=shapes.num_decodes, is_used=used)
        else:
            own["batch_size"] = _Asked(first=shapes.num_chunks, is_used=used)
        return {
            **own,
            "chunk_tokens": _Asked(first=shapes.mean_chunk_tokens, is_used=used),
            "prefix_tokens": _Asked(first=shapes.prefix_tokens, is_used=used),
            **fixed(heads, used),
        }
    if kernel == "moe":
        sizes = {
            "hidden_size": shard.hidden_size,
            "intermediate_size": shard.moe_intermediate_size,
            "top_k": shard.experts_per_token,
            "num_experts": shard.num_experts,
        }
        return {"num_tokens": _Asked(first=tokens, is_used=every), **fixed(sizes, every)}
    if kernel == "all_reduce":
        message_bytes = tokens * all_reduce_bytes(shard, 1)
        return {
            "num_bytes": _Asked(first=message_bytes, is_used=every),
            **fixed({"num_gpus": cost.tensor_parallel}, every),
        }
    if kernel == "small_ops":
        token_bytes = small_ops_bytes(shard, 1) / shard.num_layers
        return {
            "num_tokens": _Asked(first=tokens, is_used=every),
            **fixed({"token_bytes": token_bytes}, every),
        }
    if kernel == "shared_prefix" and not cost.kernel.has_decode_form:
        return fixed(heads, has_decodes)
    return {}


def _product_reaches(
    cost: CalibratedCost, shapes: RunShapes, valid: Mapping[str, Range]
) -> Iterator[Reach]:
    """Widths and depths of the model's products; seconds are those of the products outside."""
    shard = cost.shard
    layer = [(shapes.num_tokens, n, k, shard.num_layers) for n, k in layer_products(shard)]
    sampled = shapes.num_decodes + shapes.num_chunks
    products = [*layer, (sampled, shard.vocab_size, shard.hidden_size, 1)]
    for argument, sizes in (
        ("n", [n for _, n, _, _ in products]),
        ("k", [k for _, _, k, _ in products]),
    ):
        if argument not in valid:
            continue
        low, high = valid[argument]
        outside_s = np.zeros(len(sampled))
        for (rows, n, k, count), size in zip(products, sizes, strict=True):
            if not low <= size <= high:
                distinct, index = np.unique(rows, return_inverse=True)
                product_s = np.asarray(cost.device.gemm_time_s(distinct, n, k))[index]
                outside_s += shapes.num_steps * count * product_s
        yield Reach(
            argument=argument,
            fitted=valid[argument],
            reached=(float(min(sizes)), float(max(sizes))),
            outside_s=outside_s,
        )
