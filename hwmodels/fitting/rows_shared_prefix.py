"""Shared-prefix kernels as the microbenchmarks run them: groups of equal prefixes, many rows.

The traffic is that of `hwmodels.kernels.tree_traffic`, written for a column of small forests
instead of a run of steps, because a fit asks for it hundreds of times. Warm runs, which the tree
form does not know, find what the cache still holds of the run before.
"""

from dataclasses import dataclass

import numpy as np

from hwmodels.fitting.parameter import FloatArray
from hwmodels.fitting.recipe import Columns
from hwmodels.fitting.rows_file import HEAD_DIM, KV_BYTES, is_choice
from hwmodels.kernels.arrays import smooth_max
from hwmodels.kernels.l2_curve import L2Curve
from hwmodels.kernels.packed import PackedModel
from hwmodels.kernels.shared_prefix import SharedPrefixModel
from hwmodels.kernels.tree_traffic import waves_with_node

_TILE_QUERIES = 64
"""Query heads of one KV head that a thread block takes together."""
_ROUNDING = 1e-9
"""Kept off a whole number of waves, as in the tree form."""
_NUM_LEVELS = 2
"""A request reads its group's prefix and its own suffix."""


@dataclass(frozen=True, slots=True, eq=False)
class Forests:
    """Sizes of the forests of some rows, each of shape (rows,).

    Attributes:
        batch: requests, groups times members.
        prefix_tokens: tokens of all prefixes, each counted once.
        logical_tokens: what the requests read together.
        unique_tokens: shared ones counted once.
        token_bytes: keys and values of one token in one layer.
    """

    batch: FloatArray
    prefix_tokens: FloatArray
    logical_tokens: FloatArray
    unique_tokens: FloatArray
    token_bytes: FloatArray

    @classmethod
    def of(cls, columns: Columns) -> "Forests":
        """Forests of rows with groups, members, prefix and suffix."""
        groups, members = columns["groups"], columns["members"]
        batch = groups * members
        prefixes = groups * columns["prefix_tokens"]
        return cls(
            batch=batch,
            prefix_tokens=prefixes,
            logical_tokens=batch * (columns["prefix_tokens"] + columns["suffix_tokens"]),
            unique_tokens=prefixes + batch * columns["suffix_tokens"],
            token_bytes=KV_BYTES * HEAD_DIM * columns["num_kv_heads"],
        )


def hbm_bytes(columns: Columns, l2: L2Curve, cta_slots: float, drift_tokens: float) -> FloatArray:
    """M, bytes from HBM of a kernel that ignores sharing and does not split. Shape (rows,).

    A warm run reads again what the run before has read: of the first reads of its unique bytes U,
    the share `h(U)` hits.
    """
    forests = Forests.of(columns)
    members, batch = columns["members"], forests.batch
    tiles = np.ceil(columns["num_heads"] / (columns["num_kv_heads"] * _TILE_QUERIES))
    together = np.maximum(cta_slots / (columns["num_kv_heads"] * tiles), 1.0)
    waves = np.maximum(np.ceil(batch / together - _ROUNDING), 1.0)
    in_waves = np.where(
        is_choice(columns, "member_order", "interleaved"),
        waves_with_node(members, waves, together, "interleaved"),
        waves_with_node(members, waves, together, "contiguous"),
    )
    suffix_tokens = forests.unique_tokens - forests.prefix_tokens
    wave_bytes = forests.token_bytes * (in_waves * forests.prefix_tokens + suffix_tokens) / waves
    live = np.minimum(drift_tokens * batch / forests.logical_tokens, 1.0)
    again = (in_waves - 1.0) * (1.0 - l2.hit_ratio(wave_bytes))
    again = again + (members - in_waves) * (1.0 - l2.hit_ratio(wave_bytes * live))
    unique_bytes = forests.token_bytes * forests.unique_tokens
    found = np.where(is_choice(columns, "cache", "warm"), l2.hit_ratio(unique_bytes), 0.0)
    moved: FloatArray = (
        unique_bytes * (1.0 - found) + forests.token_bytes * forests.prefix_tokens * again
    )
    return moved


def unaware_s(model: SharedPrefixModel, columns: Columns) -> FloatArray:
    """Seconds of the kernel that ignores sharing, `flash_pat` of a profile. Shape (rows,).

    Args:
        model: with its L2 curve.
        columns: groups, members, prefix_tokens, suffix_tokens, heads, member_order, cache.
    """
    assert model.l2 is not None
    forests = Forests.of(columns)
    is_grouped = columns["num_heads"] > columns["num_kv_heads"]
    rate = np.where(is_grouped, model.flash_pat_gqa_bytes_per_s, model.flash_pat_mha_bytes_per_s)
    read_s = forests.logical_tokens * forests.token_bytes / rate
    moved = hbm_bytes(columns, model.l2, model.cta_slots, model.drift_tokens)
    joined = smooth_max(read_s, moved / model.hbm_bytes_per_s, model.p_norm)
    times_s: FloatArray = model.launch_s + joined
    return times_s


def packed_s(model: PackedModel, columns: Columns) -> FloatArray:
    """Seconds of the kernel that reads every node once. Shape (rows,)."""
    forests = Forests.of(columns)
    times_s = np.empty(forests.batch.size)
    for num_heads in np.unique(columns["num_heads"]):
        chosen = columns["num_heads"] == num_heads
        times_s[chosen] = model.time_s(
            forests.logical_tokens[chosen],
            (forests.unique_tokens * forests.token_bytes)[chosen],
            _NUM_LEVELS * forests.batch[chosen],
            int(num_heads),
            HEAD_DIM,
        )
    return times_s
