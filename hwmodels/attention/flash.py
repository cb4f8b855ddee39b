"""`flash` and `flash_cascade`: the decode form, with hits in L2 and vLLM's common prefix."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from mypy_extensions import mypyc_attr

from hwmodels.attention.cascade_rule import CascadeRule
from hwmodels.attention.choice import KernelChoice
from hwmodels.attention.decode_steps import DecodeSteps, saved_tokens
from hwmodels.attention.l2_reads import HIT_TOKENS, L2Reads
from hwmodels.attention.prefill_pricer import PrefillPricer
from hwmodels.attention.pricer import Savings
from hwmodels.attention.unsplit_runs import UnsplitRuns
from hwmodels.decode_pricer import BLOCK_TOKENS, BatchPrice, DecodePricer, straggler
from hwmodels.kernels.decode_attention import DecodeAttentionModel
from hwmodels.kernels.l2_curve import L2Curve
from hwmodels.kernels.shared_prefix import SharedPrefixModel
from hwmodels.mixed_pricer import MixedPricer
from hwmodels.model_shape import ModelShape
from sim.interfaces import DecodeBatchView, FloatArray, PrefillChunk, RunningTree

_KV_BYTES = 4
_TILE_QUERIES = 64
_ALL_BATCHES = 1 << 62


@mypyc_attr(allow_interpreted_subclasses=True)
class FlashPricer(UnsplitRuns):
    """FlashAttention.

    Args:
        decode: form of the decode kernel.
        prefill: prices prefill chunks.
        mixed: prices decodes and chunks in one call; None: they run apart.
        shared: constants of locality and of the merge; None without L2 and cascade.
        l2: hit curve; None: every byte comes from HBM.
        shard: the part of the model that the GPU holds.
        choice: variant of the kernel.
        block_tokens: tokens of a KV block.
    """

    def __init__(
        self,
        decode: DecodeAttentionModel,
        prefill: PrefillPricer,
        mixed: MixedPricer | None,
        shared: SharedPrefixModel | None,
        l2: L2Curve | None,
        shard: ModelShape,
        choice: KernelChoice,
        block_tokens: int,
    ) -> None:
        can_split = choice.family == "split_kv"
        l2_rate = None if l2 is None else l2.l2_bytes_per_s
        self._token_bytes = _KV_BYTES * shard.num_kv_heads * shard.head_dim
        self._drift_tokens = shared.drift_tokens if shared is not None else 0.0
        super().__init__(
            prefill,
            DecodePricer(decode, shard, l2_rate, can_split),
            L2Reads(l2, self._token_bytes, self._drift_tokens, choice.member_order),
        )
        self._shard = shard
        self._choice = choice
        self._mixed = mixed
        self._l2 = l2
        self._is_padded = choice.family == "padded"
        self._model = decode if can_split else replace(decode, split_slots=1)
        self._slots = decode.split_slots
        self._cascade: CascadeRule | None = None
        if choice.name == "flash_cascade":
            assert shared is not None
            self._cascade = CascadeRule(decode, prefill, shared, shard, block_tokens)
        self.uses_tree = l2 is not None or self._cascade is not None
        self.largest_special = self._decode.largest_split
        if self._cascade is not None:
            self.largest_special = _ALL_BATCHES
        self._goes_step_by_step = self._is_padded or self._decode.is_tabled
        self._largest_special = self.largest_special
        if self._goes_step_by_step:
            self._largest_special = _ALL_BATCHES
        self.mixes_by_sums = self._mixed is not None and not self._is_padded

    def step_s(
        self,
        batch_size: int,
        context_tokens: int,
        squares: int,
        longest: int,
        tree: RunningTree | None,
    ) -> float:
        """Seconds of a decode step."""
        common, extra_s, scale = self._cascaded(batch_size, tree)
        if common:
            squares += common * (batch_size * common - 2 * context_tokens)
            context_tokens -= batch_size * common
            longest -= common
        saved = self._saved_tokens(batch_size, context_tokens, longest, tree, common)
        if self._is_padded:
            context_tokens = batch_size * longest
            squares = context_tokens * longest
        attention_s = self._decode.attention_s(batch_size, context_tokens, squares, longest, saved)
        return (attention_s + extra_s) * scale

    def _cascaded(self, batch_size: int, tree: RunningTree | None) -> tuple[int, float, float]:
        """Common tokens that a decode step cascades, its seconds beside the suffixes, and the
        factor on all of it."""
        if self._cascade is None or tree is None:
            return 0, 0.0, 1.0
        common = self._cascade.decode_tokens(batch_size, tree)
        if not common:
            return 0, 0.0, 1.0
        return common, self._cascade.extra_s(batch_size, common), self._cascade.scale

    def _saved_tokens(
        self,
        batch_size: int,
        context_tokens: int,
        longest: int,
        tree: RunningTree | None,
        common: int,
    ) -> float:
        """Context tokens that do not come from HBM, `common` ones aside; not positive."""
        if tree is None or not tree.tokens_by_members or not self._reads.has_l2:
            return 0.0
        per_wave = self._decode.price(batch_size, longest).requests_per_wave
        return self._reads.saved_tokens(batch_size, context_tokens, tree, per_wave, common)

    def _write_special(
        self,
        batch: DecodeBatchView,
        num_steps: int,
        constant_s: float,
        end_s: float,
        view: "memoryview[float]",
        at: int,
    ) -> None:
        """Write the ends of a run of a batch that may be split or cascaded, or step by step."""
        if self._goes_step_by_step:
            self._write_step_by_step(batch, num_steps, constant_s, end_s, view, at)
            return
        batch_size, context_tokens, tree = batch.num_requests, batch.context_tokens, batch.tree
        squares, longest = batch.context_tokens_squared, batch.max_context_tokens
        common, extra_s, scale = self._cascaded(batch_size, tree)
        if common:
            squares += common * (batch_size * common - 2 * context_tokens)
            context_tokens -= batch_size * common
            longest -= common
        decode, reads = self._decode, self._reads
        shares = tree is not None and bool(tree.tokens_by_members) and reads.has_l2
        per_block = HIT_TOKENS * batch_size
        can_split = batch_size <= decode.largest_split
        price: BatchPrice | None = None
        while num_steps:
            if price is None or can_split:
                price = decode.price(batch_size, longest)
                fixed_s, late_s = straggler(price, batch_size, context_tokens, squares, longest)
            steps, saved = num_steps, 0.0
            if shares:
                assert tree is not None
                per_wave = price.requests_per_wave
                saved = reads.saved_tokens(batch_size, context_tokens, tree, per_wave, common)
            if shares or can_split:
                steps = min(steps, -(-(per_block - context_tokens % per_block) // batch_size))
            if can_split:
                steps = min(steps, -longest % BLOCK_TOKENS + 1)
                if not context_tokens % (BLOCK_TOKENS * batch_size):
                    steps = 1  # parts grow by a block right after it
            line = decode.line(price, batch_size, context_tokens, saved)
            after = context_tokens + steps * batch_size
            if steps > 1 and decode.line(price, batch_size, after - batch_size, saved) != line:
                steps, after = 1, context_tokens + batch_size  # another bound binds in between
            times_s = fixed_s + line[0], line[1], late_s, extra_s, scale, constant_s
            context = float(context_tokens)
            end_s = _write_line(context, float(batch_size), times_s, end_s, view, at, at + steps)
            squares += steps * (2 * context_tokens + (steps - 1) * batch_size + batch_size)
            context_tokens = after
            longest += steps
            num_steps -= steps
            at += steps

    def mixed_s(
        self,
        batch_size: int,
        context_tokens: int,
        squares: int,
        longest: int,
        tree: RunningTree | None,
        chunks: Sequence[PrefillChunk],
    ) -> float:
        """Seconds of a step with prefill chunks, in one call with the decodes or in two."""
        mixed = self._mixed
        if batch_size and mixed is not None and self.mixes_by_sums and self._cascade is None:
            hbm = float(context_tokens)  # most mixed steps, so with few steps in between
            if tree is not None and tree.tokens_by_members:
                saved = self._mixed_saved(batch_size, context_tokens, longest, tree)
                hbm += saved * self._decode.saved_share
            return mixed.attention_s(batch_size, context_tokens, longest, chunks, hbm)
        common, extra_s = 0, 0.0
        if self._cascade is not None:
            common = self.cascaded_tokens(batch_size, tree, chunks)
            if common:
                queries = batch_size + sum([chunk.new_tokens for chunk in chunks])
                extra_s = self._cascade.extra_s(queries, common)
                squares += common * (batch_size * common - 2 * context_tokens)
                context_tokens -= batch_size * common
                longest -= common
                chunks = [PrefillChunk(n, prefix - common, last) for n, prefix, last in chunks]
        if not batch_size:
            attention_s = self.prefill.chunks_s(chunks)
        elif self.mixes_by_sums:
            assert self._mixed is not None
            hbm = float(context_tokens)
            if tree is not None and tree.tokens_by_members:
                per_wave = self._decode.price(batch_size, longest).requests_per_wave
                saved = self._reads.saved_tokens(batch_size, context_tokens, tree, per_wave, common)
                hbm += saved * self._decode.saved_share
            attention_s = self._mixed.attention_s(batch_size, context_tokens, longest, chunks, hbm)
        else:
            attention_s = self._apart_s(
                batch_size, context_tokens, squares, longest, tree, chunks, common
            )
        if not common:
            return attention_s
        assert self._cascade is not None
        return (attention_s + extra_s) * self._cascade.scale

    def _apart_s(
        self,
        batch_size: int,
        context_tokens: int,
        squares: int,
        longest: int,
        tree: RunningTree | None,
        chunks: Sequence[PrefillChunk],
        common: int,
    ) -> float:
        """A step with prefill chunks over contexts less the `common` tokens of a cascade, where the
        longest context counts for all or chunks have a call of their own."""
        saved = self._saved_tokens(batch_size, context_tokens, longest, tree, common)
        if self._is_padded:
            context_tokens = batch_size * longest
            squares = context_tokens * longest
        if self._mixed is not None:
            hbm = context_tokens + saved * self._decode.saved_share
            return self._mixed.attention_s(batch_size, context_tokens, longest, chunks, hbm)
        decode_s = self._decode.attention_s(batch_size, context_tokens, squares, longest, saved)
        return decode_s + self.prefill.chunks_s(chunks)

    def cascaded_tokens(
        self, batch_size: int, tree: RunningTree | None, chunks: Sequence[PrefillChunk]
    ) -> int:
        """Common tokens that a step with prefill chunks reads in a pass of their own."""
        if self._cascade is None or tree is None:
            return 0
        return self._cascade.mixed_tokens(batch_size, tree, chunks)

    def many_s(self, steps: DecodeSteps) -> FloatArray:
        """Seconds of the decodes of many steps, as if nothing else were in them."""
        shard = self._shard
        steps, _, cascades_s = self._suffixes(steps)
        total, squares = steps.context_tokens, steps.squares
        saved = self._many_saved(steps) * self._decode.saved_share
        if self._is_padded:
            total = steps.batch_size * steps.longest
            squares = total * steps.longest
        times_s: FloatArray = self._model.time_s(
            steps.batch_size,
            total,
            steps.longest,
            squares,
            shard.num_attention_heads,
            shard.num_kv_heads,
            shard.head_dim,
            hbm_bytes=(total + saved) * self._token_bytes,
        )
        seconds: FloatArray = shard.num_layers * times_s + cascades_s
        if self._cascade is not None:
            seconds = np.where(cascades_s > 0, seconds * self._cascade.scale, seconds)
        return seconds

    def savings(self, steps: DecodeSteps) -> Savings:
        """What the decodes of many steps need not read from HBM."""
        steps, common, _ = self._suffixes(steps)
        return Savings(common * (steps.batch_size - 1.0), -self._many_saved(steps))

    def _suffixes(self, steps: DecodeSteps) -> tuple[DecodeSteps, FloatArray, FloatArray]:
        """The steps without what a cascade reads apart, that, and its seconds."""
        if self._cascade is None:
            none = np.zeros(len(steps))
            return steps, none, none
        common, cascades_s = self._cascade.many(steps)
        return steps.without_common(common), common, cascades_s

    def _many_saved(self, steps: DecodeSteps) -> FloatArray:
        if self._l2 is None:
            return np.zeros(len(steps))
        shard = self._shard
        heads = (shard.num_attention_heads, shard.num_kv_heads)
        splits = self._model.splits(steps.batch_size, steps.longest, *heads)
        query_tiles = -(-heads[0] // (heads[1] * _TILE_QUERIES))
        return saved_tokens(
            steps,
            self._l2,
            token_bytes=self._token_bytes,
            requests_per_wave=self._slots / (heads[1] * query_tiles * splits),
            drift_tokens=self._drift_tokens,
            member_order=self._choice.member_order,
        )


def _write_line(
    context: float,
    size: float,
    times_s: tuple[float, float, float, float, float, float],
    end_s: float,
    view: "memoryview[float]",
    first: int,
    last: int,
) -> float:
    """Ends of steps whose streams take a time per context token, and the last of them.

    The same operations in the same order as `DecodePricer.attention_s` and `FlashPricer.step_s`;
    whole numbers as floats, which are exact and quicker.
    """
    fixed_s, slope_s, late_s, extra_s, scale, constant_s = times_s
    if not extra_s:  # adding 0 and multiplying by 1 would change no bit
        for entry in range(first, last):
            end_s += fixed_s + (context * slope_s - late_s / context) + constant_s
            view[entry] = end_s
            context += size
        return end_s
    for entry in range(first, last):
        attention_s = fixed_s + (context * slope_s - late_s / context)
        end_s += (attention_s + extra_s) * scale + constant_s
        view[entry] = end_s
        context += size
    return end_s
