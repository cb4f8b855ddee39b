"""What two profiles are compared on: kernels of Llama-3 8B at usual sizes, and one decode step."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from hwmodels.device import DeviceSpec
from hwmodels.kernels.models import KernelModels
from hwmodels.model_catalogue import load_model
from hwmodels.work import small_ops_bytes
from sim.errors import ConfigError

MODEL = "llama3_8b"
BATCH, CONTEXT = 64, 2048
STEP_TEXT = f"decode step of {MODEL}, batch {BATCH}, context {CONTEXT}"
"""The reference step, on one GPU."""

_HEADS = (32, 8)
_MIB = 2**20
_KIB = 2**10
_NUM_GPUS = 2

Kernels = Any
"""`KernelModels` whose kernels in question are there."""


@dataclass(frozen=True, slots=True)
class Point:
    """One kernel at one size.

    Attributes:
        kernel: field of `KernelModels`.
        text: the size in words.
        time_s: seconds by the kernels of a profile.
        needs: other kernels that it takes.
    """

    kernel: str
    text: str
    time_s: Callable[[Kernels], float]
    needs: tuple[str, ...] = ()


def points() -> list[Point]:
    """The grid, kernel by kernel."""
    found = [_gemm(m, n, k) for n, k in ((6144, 4096), (28672, 4096)) for m in (1, 64, 512, 4096)]
    found += [_decode(batch, context) for batch in (1, 64, 256) for context in (2048, 8192)]
    found += [_prefill(chunk, prefix) for chunk in (512, 2048) for prefix in (0, 4096)]
    found += [_mixed(batch, 512) for batch in (16, 128)]
    found += [_l2(size) for size in (16, 32, 48, 64, 1024)]
    found += [_tree(kernel) for kernel in ("flash", "flash_pat", "packed")]
    found += [_small_ops(tokens) for tokens in (64, 2048)]
    return found + [_reduce(name, size) for name in ("all_reduce", "nccl") for size in (512, 8192)]


def times_s(models: KernelModels) -> list[float | None]:
    """Seconds of every point; None where the profile lacks a kernel or the group of GPUs."""
    return [_time_s(point, models) for point in points()]


def step_terms(device: DeviceSpec) -> dict[str, float]:
    """Seconds of the reference step by term, and in all.

    Raises:
        ConfigError: the device lacks a kernel that a step needs.
    """
    step = device.decode_step_time(load_model(MODEL), 1, np.full(BATCH, CONTEXT))
    terms = {
        "gemm_s": step.gemm_s,
        "attention_s": step.attention_s,
        "small_ops_s": step.small_ops_s,
        "host_s": step.host_s,
    }
    return {**terms, "total_s": step.total_s}


def _time_s(point: Point, models: KernelModels) -> float | None:
    if any(getattr(models, name) is None for name in (point.kernel, *point.needs)):
        return None
    try:
        return float(point.time_s(models))
    except ConfigError:  # a group of GPUs that was not measured
        return None


def _gemm(m: int, n: int, k: int) -> Point:
    return Point("gemm", f"m {m}, n {n}, k {k}", lambda models: models.gemm.time_s(m, n, k))


def _decode(batch: int, context: int) -> Point:
    total = batch * context
    return Point(
        "decode_attention",
        f"batch {batch}, context {context}",
        lambda models: models.decode_attention.time_s(
            batch, total, context, total * context, *_HEADS
        ),
    )


def _prefill(chunk: int, prefix: int) -> Point:
    return Point(
        "prefill_attention",
        f"chunk {chunk}, prefix {prefix}",
        lambda models: models.prefill_attention.time_s(1, chunk, prefix, *_HEADS),
    )


def _mixed(batch: int, chunk: int) -> Point:
    return Point(
        "mixed_attention",
        f"batch {batch}, context {CONTEXT}, chunk {chunk}",
        lambda models: models.mixed_attention.time_s(
            models.decode_attention,
            models.prefill_attention,
            batch,
            batch * CONTEXT,
            CONTEXT,
            chunk,
            0,
            0,
            *_HEADS,
        )[0],
        needs=("decode_attention", "prefill_attention"),
    )


def _l2(size_mib: int) -> Point:
    data_set = size_mib * _MIB
    return Point(
        "l2",
        f"read {size_mib} MiB",
        lambda models: data_set / models.l2.bytes_per_s(data_set),
    )


def _tree(kernel: str) -> Point:
    groups, members, prefix, suffix = 8, 8, 4096, 128
    nodes, tokens = (groups, groups * members), (prefix, suffix)
    return Point(
        "shared_prefix",
        f"{kernel}: {groups} prefixes of {prefix}, {members} requests each",
        lambda models: models.shared_prefix.time_s(nodes, tokens, *_HEADS, kernel=kernel),
        needs=("l2", "decode_attention"),
    )


def _small_ops(tokens: int) -> Point:
    shape = load_model(MODEL)
    token_bytes = small_ops_bytes(shape, 1) / shape.num_layers
    return Point(
        "small_ops",
        f"{tokens} tokens",
        lambda models: models.small_ops.time_s(tokens, token_bytes),
    )


def _reduce(name: str, size_kib: int) -> Point:
    return Point(
        name,
        f"{size_kib} KiB, {_NUM_GPUS} GPUs",
        lambda models: getattr(models, name).time_s(size_kib * _KIB, _NUM_GPUS),
    )
