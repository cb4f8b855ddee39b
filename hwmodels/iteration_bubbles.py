"""Iteration bubbles: what a decode step waits for its longest member.

A bubble is the time of attention beyond that of a batch with the same sum of contexts, all equally
long. The bytes are the same, so what is left is the kernel's straggler, or its padding. Nothing is
shared and nothing hits L2 here, since both would hide the effect of the lengths.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import get_args

import numpy as np

from hwmodels.attention.build import attention_pricer
from hwmodels.attention.choice import Family
from hwmodels.attention.decode_steps import DecodeSteps, NotedTrees
from hwmodels.calibrated import CalibratedCost
from sim.interfaces import FloatArray

FAMILIES: tuple[Family, ...] = get_args(Family)
"""How a kernel cuts the work of a batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """Contexts of decode steps, as sums over the requests of a step. Shape (steps,) each.

    Attributes:
        num_requests: requests, at least one.
        context_tokens: sum of their contexts.
        squares: sum of the squared contexts.
        longest: longest context.
    """

    num_requests: FloatArray
    context_tokens: FloatArray
    squares: FloatArray
    longest: FloatArray

    @property
    def equal(self) -> "Lengths":
        """The same sums, spread evenly."""
        mean = self.context_tokens / self.num_requests
        return replace(self, squares=self.context_tokens * mean, longest=mean)


def families_of(cost: CalibratedCost) -> Sequence[Family]:
    """Families that can be priced: none but for kernels with a decode form."""
    return FAMILIES if cost.kernel.has_decode_form else ()


def bubbles_s(cost: CalibratedCost, lengths: Lengths, family: Family) -> FloatArray:
    """Bubble of each step on one GPU, all layers, seconds, >= 0. Shape (steps,).

    Args:
        cost: whose device, model and tensor parallelism count.
        lengths: the steps.
        family: of the kernel, one of `families_of`.
    """
    pricer = attention_pricer(
        cost.device,
        cost.shard,
        replace(cost.kernel, name="flash", family=family),
        uses_l2=False,
        block_tokens=1,
    )
    waiting_s = pricer.many_s(_steps(lengths)) - pricer.many_s(_steps(lengths.equal))
    bubbles: FloatArray = np.maximum(waiting_s, 0.0)
    return bubbles


def _steps(lengths: Lengths) -> DecodeSteps:
    none = np.zeros(len(lengths.num_requests), dtype=np.int64)
    return DecodeSteps(
        batch_size=lengths.num_requests,
        context_tokens=lengths.context_tokens,
        squares=lengths.squares,
        longest=lengths.longest,
        cascaded=none,
        tree=none,
        trees=_NO_TREES,
    )


_NOTHING = np.zeros(1, dtype=np.int64)
_NO_TREES = NotedTrees(
    once=_NOTHING,
    path=_NOTHING,
    num_pairs=_NOTHING,
    common=_NOTHING,
    first=np.zeros(2, dtype=np.int64),
    members=np.zeros(0, dtype=np.int64),
    tokens=np.zeros(0, dtype=np.int64),
)
