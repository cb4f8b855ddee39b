"""Bytes that one decode-attention layer moves from HBM when requests share prefixes through L2.

Every request reads its whole context; what another request read shortly before may still be in L2.
The thread blocks of a batch run in waves. Within a wave requests read the same node side by side, a
few tokens apart; the next wave comes back to it after the wave's unique bytes have gone by. Not
modelled: what other kernels leave in L2 (each layer starts cold), slots that fall free before a
wave is over, L2 partitions.
"""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from hwmodels.kernels.arrays import Numbers, sizes
from hwmodels.kernels.l2_curve import L2Curve
from hwmodels.kernels.prefix_batch import IntArray, PrefixBatch
from hwmodels.strict_json import shown
from sim.errors import ConfigError
from sim.interfaces import FloatArray

MemberOrder = Literal["interleaved", "contiguous"]
"""Whether requests of different prefixes take slots in random order, as engines that keep arrival
order do, or prefix by prefix."""

_ROUNDING = 1e-9
"""Kept off a whole number of waves, so that an exact one does not count one wave more."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TreeTraffic:
    """Traffic of one layer on one GPU, one entry per step. Shape (steps,).

    Attributes:
        logical_bytes: T, what the requests read together; what the processors see.
        unique_bytes: U, every shared byte counted once; `U <= M <= T`.
        hbm_bytes: M, expected bytes from HBM.
        wave_bytes: unique bytes of one wave, the data set that decides about L2.
    """

    logical_bytes: FloatArray
    unique_bytes: FloatArray
    hbm_bytes: FloatArray
    wave_bytes: FloatArray

    @property
    def l2_hit_ratio(self) -> FloatArray:
        """Share of the reads that L2 serves, `1 - M / T`. Shape (steps,)."""
        ratio: FloatArray = 1.0 - self.hbm_bytes / self.logical_bytes
        return ratio


def waves_with_node(
    members: Numbers,
    num_waves: Numbers,
    requests_per_wave: Numbers,
    member_order: MemberOrder,
) -> FloatArray:
    """N_w, expected number of waves in which a node is read; `1 <= N_w <= min(members, waves)`.

    `contiguous`: m requests side by side cross a boundary every R requests, `1 + (m - 1) / R`.
    `interleaved`: each member falls into any of W waves, `W (1 - (1 - 1/W)^m)`, and never into
    fewer waves than side by side. Arrays broadcast.

    Raises:
        ConfigError: an unknown order, or a number below 1.
    """
    if member_order not in get_args(MemberOrder):
        allowed = ", ".join(get_args(MemberOrder))
        raise ConfigError(f"unknown member_order {shown(member_order)}; allowed: {allowed}")
    count, waves = sizes("members", members), sizes("num_waves", num_waves)
    together = sizes("requests_per_wave", requests_per_wave)
    side_by_side: FloatArray = np.minimum(1.0 + (count - 1.0) / together, waves)
    if member_order == "contiguous":
        return side_by_side
    scattered = waves * (1.0 - (1.0 - 1.0 / waves) ** count)
    spread: FloatArray = np.maximum(scattered, side_by_side)
    return spread


def tree_traffic(
    batch: PrefixBatch,
    l2: L2Curve,
    *,
    token_bytes: float,
    requests_per_wave: Numbers,
    drift_tokens: float,
    member_order: MemberOrder = "interleaved",
    num_steps: int = 1,
) -> TreeTraffic:
    """Traffic of the next `num_steps` steps of a batch.

    `M = sum over nodes of bytes * [1 + (N_w - 1)(1 - h_cross) + (m - N_w)(1 - h_in)]`, with
    `h_cross = h(unique bytes of one wave)` and `h_in = h(live nodes * drift bytes)`. Live nodes
    are those read at one moment: a wave's unique bytes over the mean context. From step to step
    only tokens of single requests are added, so that U, T and the wave's bytes grow linearly and
    the two sums over shared nodes stay; hence a run costs no more than a step.

    Args:
        batch: the requests at the first step.
        l2: hit curve of the GPU.
        token_bytes: bytes of the keys and values of one token in one layer on this GPU.
        requests_per_wave: R >= 1, requests whose thread blocks run together; one number, or one per
            step (where the number of splits changes). Below 1 counts as 1.
        drift_tokens: tokens by which requests of a wave run apart.
        member_order: order in which the requests take their slots.
        num_steps: steps, >= 1.

    Raises:
        ConfigError: an unknown order.

    Source: derived here; tests/l2_oracle compares it with a simulated LRU cache. The constants that
    it needs are not identified by public measurements except the hit curve.
    """
    steps = np.arange(num_steps, dtype=np.float64)
    size = batch.batch_size
    together = np.maximum(np.asarray(requests_per_wave, dtype=np.float64), 1.0)
    choices, choice = _distinct(np.broadcast_to(together, steps.shape))
    # Shape (choices of R, entries of the histogram).
    waves = np.maximum(np.ceil(size / choices - _ROUNDING), 1.0)[:, None]
    in_waves = waves_with_node(batch.members, waves, choices[:, None], member_order)
    wave_tokens = (in_waves / waves) @ batch.tokens
    across_tokens = (in_waves - 1.0) @ batch.tokens
    within_tokens = (batch.members - in_waves) @ batch.tokens

    logical_tokens = batch.context_tokens_sum + size * steps
    unique_tokens = batch.unique_tokens + size * steps
    wave = wave_tokens[choice] + steps * (size / waves[choice, 0])
    drift = np.minimum(drift_tokens * size / logical_tokens, 1.0)
    missed_across = 1.0 - l2.hit_ratio(wave * token_bytes)
    missed_within = 1.0 - l2.hit_ratio(wave * drift * token_bytes)
    again = across_tokens[choice] * missed_across + within_tokens[choice] * missed_within
    return TreeTraffic(
        logical_bytes=logical_tokens * token_bytes,
        unique_bytes=unique_tokens * token_bytes,
        hbm_bytes=(unique_tokens + again) * token_bytes,
        wave_bytes=wave * token_bytes,
    )


def _distinct(values: FloatArray) -> tuple[FloatArray, IntArray]:
    """Distinct values, and the index of each entry's own; quick where all are equal."""
    if (values == values[0]).all():
        return values[:1], np.zeros(len(values), dtype=np.int64)
    choices, choice = np.unique(values, return_inverse=True)
    return choices, choice.astype(np.int64)
