"""Which kernel of which device is fitted to which table, and with which choices."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hwmodels.device import DeviceSpec
from hwmodels.fitting.recipe import Recipe
from hwmodels.fitting.recipes.all_reduce import all_reduce_recipe
from hwmodels.fitting.recipes.decode_attention import decode_attention_recipe
from hwmodels.fitting.recipes.gemm import ONE_TILE, THREE_TILES, gemm_recipe
from hwmodels.fitting.recipes.l2 import l2_recipe
from hwmodels.fitting.recipes.mixed_attention import mixed_attention_recipe
from hwmodels.fitting.recipes.moe import moe_recipe
from hwmodels.fitting.recipes.prefill_attention import prefill_attention_recipe
from hwmodels.fitting.recipes.small_ops import small_ops_recipe
from hwmodels.fitting.recipes.unequal_lengths import RTX_DECODE
from hwmodels.measurements.all_reduce import load_custom_all_reduce, load_nccl_all_reduce
from hwmodels.measurements.attention import load_context_attention, load_generation_attention
from hwmodels.measurements.data_folder import TABLES
from hwmodels.measurements.gemm import load_gemm
from hwmodels.measurements.l2_bandwidth import load_l2_bandwidth
from hwmodels.measurements.moe import load_moe
from hwmodels.measurements.rows import MeasuredRows, joined
from hwmodels.measurements.small_ops import load_small_ops
from hwmodels.measurements.unequal_lengths import load_mixed_steps
from hwmodels.strict_json import shown
from sim.errors import ConfigError

MIXED_STEPS = "kernels/attention_unequal_lengths_rtxpro6000.csv"
"""Decodes of unequal lengths, with and without a prefill chunk, on a GPU without a profile."""

_AMPERE_DECODE = (
    "The straggler streams at the fitted rate of one block with one query head per KV head; on an "
    "RTX PRO 6000, the only card with unequal lengths measured, blocks and straggler have the same "
    "rate within the error. Restated: splits as FlashAttention 2 chooses them for two blocks per "
    "processor, none without grouping."
)
_HOPPER_DECODE = (
    "Restated: the straggler's rate, 23.9 +- 1.1 GB/s, is that of an RTX PRO 6000, fitted there to "
    "703 batches of equal and unequal lengths with a held-out error of 4.7 % on the unequal ones; "
    "splits as FlashAttention chooses them for one block per processor; no limit of one block's "
    "rate shows in the rows."
)
_GRAPH_PEER_ROOT_S = 1.2e-6
_NCCL_PEER_ROOT_S = 2e-6
"""Priors of the square-root term per peer: what groups that identify it show."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelPlan:
    """One kernel of one device.

    Attributes:
        kernel: name in a profile.
        files: tables, relative to the folder of measurements.
        recipe: how it is fitted.
        load: reads the rows from the folder.
    """

    kernel: str
    files: tuple[str, ...]
    recipe: Recipe[Any]
    load: Callable[[Path], MeasuredRows]


def plans_of(device: DeviceSpec) -> list[KernelPlan]:
    """What is fitted for a device, shared prefixes aside, in the order of the profile.

    Raises:
        ConfigError: no tables of this device are known.
    """
    tables = TABLES.get(device.name)
    if tables is None:
        allowed = ", ".join(TABLES)
        raise ConfigError(f"no measurements of {shown(device.name)}; devices: {allowed}")
    plans = [
        _plan(_gemm_recipe(device), tables.gemm, load_gemm),
        _plan(
            _decode_recipe(device),
            tables.generation_attention,
            lambda path: load_generation_attention(path, device.hbm_bytes_per_s, device.l2_bytes),
        ),
        _plan(prefill_attention_recipe(device), tables.context_attention, load_context_attention),
    ]
    if tables.moe is not None:
        plans.append(_plan(moe_recipe(device), tables.moe, load_moe))
    graph = all_reduce_recipe("all_reduce", device, _GRAPH_PEER_ROOT_S)
    eager = all_reduce_recipe("nccl", device, _NCCL_PEER_ROOT_S)
    plans.append(_plan(graph, tables.custom_all_reduce, load_custom_all_reduce))
    plans.append(_plan(eager, tables.nccl, load_nccl_all_reduce))
    if tables.small_ops:
        files = tables.small_ops
        plans.append(
            KernelPlan(
                kernel="small_ops",
                files=files,
                recipe=small_ops_recipe(device),
                load=lambda folder: joined([load_small_ops(folder / name) for name in files]),
            )
        )
    if tables.l2_bandwidth is not None:
        gpu = tables.l2_gpu
        plans.append(
            _plan(l2_recipe(device), tables.l2_bandwidth, lambda path: load_l2_bandwidth(path, gpu))
        )
    return plans


def plan_of(device: DeviceSpec, kernel: str) -> KernelPlan:
    """The plan of one kernel.

    Raises:
        ConfigError: the device has no table of that kernel.
    """
    for plan in plans_of(device):
        if plan.kernel == kernel:
            return plan
    raise ConfigError(f"no measurements of {shown(kernel)} on {device.name}")


def mixed_attention_plan() -> KernelPlan:
    """Mixed steps, measured on one GPU that has no profile: other devices carry its constants."""
    return _plan(mixed_attention_recipe(), MIXED_STEPS, load_mixed_steps)


def packs_queries(device: DeviceSpec) -> bool:
    """Whether the device runs FlashAttention 3, which packs the heads of a group in mixed steps."""
    return not _is_ampere(device)


def _plan(recipe: Recipe[Any], file: str, load: Callable[[Path], MeasuredRows]) -> KernelPlan:
    return KernelPlan(
        kernel=recipe.kernel,
        files=(file,),
        recipe=recipe,
        load=lambda folder: load(folder / file),
    )


def _is_ampere(device: DeviceSpec) -> bool:
    return device.name.startswith("a100")


def _gemm_recipe(device: DeviceSpec) -> Recipe[Any]:
    """Three tiles and whole waves on Ampere, one tile and half-rounded waves on Hopper.

    Each is the form with the smallest error on held-out shapes.
    """
    if _is_ampere(device):
        return gemm_recipe(device, THREE_TILES, wave_ceil_weight=1.0)
    return gemm_recipe(device, ONE_TILE, wave_ceil_weight=0.5)


def _decode_recipe(device: DeviceSpec) -> Recipe[Any]:
    if _is_ampere(device):
        return decode_attention_recipe(
            device,
            straggler_bytes_per_s=None,
            split_slots=2 * device.num_sms,
            can_split_mha=False,
            has_cta_limit=True,
            restated=_AMPERE_DECODE,
        )
    return decode_attention_recipe(
        device,
        straggler_bytes_per_s=RTX_DECODE.straggler_bytes_per_s,
        split_slots=device.num_sms,
        can_split_mha=True,
        has_cta_limit=False,
        restated=_HOPPER_DECODE,
    )
