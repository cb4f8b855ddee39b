"""What every attention kernel answers: a decode step, a run of them, a mixed step, many steps.

Times are seconds of all layers on one GPU; tokens are context tokens, whose bytes follow from the
model.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

from mypy_extensions import mypyc_attr

from hwmodels.attention.decode_steps import DecodeSteps
from hwmodels.attention.prefill_pricer import PrefillPricer
from sim.interfaces import DecodeBatchView, FloatArray, PrefillChunk, RunningTree


class Savings(NamedTuple):
    """Context tokens of many steps that cost less than a read from HBM. Shape (steps,) each.

    Attributes:
        unread_tokens: not read at all, because one read serves several requests; whole numbers.
        hit_tokens: read from L2.
    """

    unread_tokens: FloatArray
    hit_tokens: FloatArray


@mypyc_attr(allow_interpreted_subclasses=True)
class AttentionPricer(ABC):
    """Prices attention with one kernel.

    Args:
        prefill: prices prefill chunks.

    Attributes:
        uses_tree: whether prices depend on the prefix tree.
        largest_special: batches up to this size may save other tokens in every step; those of
            larger ones change with every `HIT_TOKENS` of the mean context only.
        mixes_by_sums: whether a step with prefill chunks depends on the decodes' contexts by their
            sum and the longest alone, so that `mixed_s` may be told 0 for their squares.
    """

    uses_tree: bool
    largest_special: int = 0
    mixes_by_sums: bool = False

    def __init__(self, prefill: PrefillPricer) -> None:
        self.prefill = prefill

    @abstractmethod
    def step_s(
        self,
        batch_size: int,
        context_tokens: int,
        squares: int,
        longest: int,
        tree: RunningTree | None,
    ) -> float:
        """Seconds of a decode step.

        Args:
            batch_size: requests, >= 1.
            context_tokens: sum of their contexts.
            squares: sum of the squared contexts.
            longest: longest context.
            tree: their prefix tree; None unless `uses_tree`.
        """

    def write_run_ends(
        self,
        batch: DecodeBatchView,
        num_steps: int,
        constant_s: float,
        end_s: float,
        view: "memoryview[float]",
        at: int,
    ) -> None:
        """Write the ends of the next decode steps, of which every context grows by a token each.

        Args:
            batch: the decoding requests in the first step.
            num_steps: steps.
            constant_s: what each of them takes besides attention.
            end_s: when the first one begins.
            view: where to write.
            at: entry of the first one.
        """
        self._write_step_by_step(batch, num_steps, constant_s, end_s, view, at)

    def _write_step_by_step(
        self,
        batch: DecodeBatchView,
        num_steps: int,
        constant_s: float,
        end_s: float,
        view: "memoryview[float]",
        at: int,
    ) -> None:
        size, total, longest = batch.num_requests, batch.context_tokens, batch.max_context_tokens
        squares, tree, price = batch.context_tokens_squared, batch.tree, self.step_s
        for entry in range(at, at + num_steps):
            end_s += price(size, total, squares, longest, tree) + constant_s
            view[entry] = end_s
            squares += 2 * total + size
            total += size
            longest += 1

    def mixed_s(
        self,
        batch_size: int,
        context_tokens: int,
        squares: int,
        longest: int,
        tree: RunningTree | None,
        chunks: Sequence[PrefillChunk],
    ) -> float:
        """Seconds of a step with prefill chunks; its decodes, if any, in a call of their own."""
        chunks_s = self.prefill.chunks_s(chunks)
        if not batch_size:
            return chunks_s
        return self.step_s(batch_size, context_tokens, squares, longest, tree) + chunks_s

    def cascaded_tokens(
        self, batch_size: int, tree: RunningTree | None, chunks: Sequence[PrefillChunk]
    ) -> int:
        """Common tokens that a step with prefill chunks reads in a pass of their own."""
        return 0

    @abstractmethod
    def many_s(self, steps: DecodeSteps) -> FloatArray:
        """Seconds of the decodes of many steps, as if nothing else were in them."""

    @abstractmethod
    def savings(self, steps: DecodeSteps) -> Savings:
        """What the decodes of many steps need not read from HBM."""
