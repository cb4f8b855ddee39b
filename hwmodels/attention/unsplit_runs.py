"""Ends of runs of decode steps whose contexts are not split: what most of a simulation asks for.

The prices of `DecodePricer.attention_s` with the savings of `L2Reads`, to the last bit, because the
operations are the same and in the same order. They are spelled out here in one piece, with all that
depends on the number of requests alone worked out once, for this runs for every run of steps.
"""

from abc import abstractmethod

from mypy_extensions import mypyc_attr

from hwmodels.attention.l2_reads import HIT_TOKENS, L2Reads
from hwmodels.attention.prefill_pricer import PrefillPricer
from hwmodels.attention.pricer import AttentionPricer
from hwmodels.decode_pricer import DecodePricer
from sim.interfaces import DecodeBatchView, RunningTree

_ABOVE_ONE = 1.0 + 1e-9
"""Keeps two bounds that are equal but for rounding from passing as different ones."""

_MAX_TREES = 1024
"""Trees, one per instance, for which savings are kept; beyond that all are worked out anew."""

_NOTHING: tuple[int, int, dict[float, float]] = (-1, 0, {})
"""What is kept of a tree that has not come up."""

_Waves = tuple[float, float, bool, float, bool, float, float, float, int, float, float, list[float]]
"""What a batch size decides about its waves of thread blocks; times are those of all layers, where
not said else in seconds per context token of the batch:

all full waves, their thread blocks being alone; the same, waiting for the memory; whether they may
wait; the last wave, if it is not full, its thread blocks being alone, else 0; whether it may wait;
a full wave that waits; the last wave that waits; a thread block alone; tokens by which contexts
grow together until hit ratios change; tokens by which requests of a wave run apart, times the
requests; the number of waves; and those that read a node, by its number of members.
"""


@mypyc_attr(allow_interpreted_subclasses=True)
class UnsplitRuns(AttentionPricer):
    """What a kernel with the decode form prices itself of runs: others may be split or cascaded.

    Args:
        prefill: prices prefill chunks.
        decode: prices the decode steps.
        reads: what L2 saves.
    """

    _largest_special: int
    """Batches up to this size may be split or cascaded, or are priced step by step."""

    def __init__(self, prefill: PrefillPricer, decode: DecodePricer, reads: L2Reads) -> None:
        super().__init__(prefill)
        self._decode = decode
        self._reads = reads
        self._has_l2 = reads.has_l2
        self._curve = (*reads.curve, decode.saved_share)
        # By tree: its version, the batch size, and the tokens saved by the bound of the contexts.
        # The step with chunks that ends a run mostly asks for what the run has asked for.
        self._saved: dict[RunningTree, tuple[int, int, dict[float, float]]] = {}
        # By batch size: fixed time, straggler per token and request, slope without savings, waves.
        self._prices: dict[int, tuple[float, float, float, _Waves]] = {}

    def write_run_ends(
        self,
        batch: DecodeBatchView,
        num_steps: int,
        constant_s: float,
        end_s: float,
        view: "memoryview[float]",
        at: int,
    ) -> None:
        """Write the ends of the next decode steps, in stretches whose times lie on a line."""
        batch_size, total, tree = batch.num_requests, batch.context_tokens, batch.tree
        price = self._prices.get(batch_size)
        if price is None:
            if batch_size <= self._largest_special:
                self._write_special(batch, num_steps, constant_s, end_s, view, at)
                return
            price = self._price(batch_size)
        fixed_s, token_s, slope_s, waves = price
        # This is `hwmodels.decode_pricer.straggler`.
        fixed_s += (batch_size * batch.max_context_tokens - total) * token_s
        late_s = (batch_size * batch.context_tokens_squared - total * total) * token_s
        context, size = total + 0.0, batch_size + 0.0  # whole, so exact, and quicker as floats
        if tree is None or not self._has_l2 or not tree.tokens_by_members:
            for entry in range(at, at + num_steps):
                end_s += fixed_s + (context * slope_s - late_s / context) + constant_s
                view[entry] = end_s
                context += size
            return
        (
            full_alone_s,
            full_memory_s,
            full_may_wait,
            rest_alone_s,
            rest_may_wait,
            wave_s,
            rest_s,
            alone_s,
            block_tokens,
            drift_tokens,
            num_waves,
            in_waves,
        ) = waves
        scale, exponent, largest, saved_share = self._curve
        # This is `L2Reads.saved_tokens`.
        spread = once = tree.shared_tokens + 0.0
        path = tree.path_tokens + 0.0
        if num_waves > 1.0:
            spread = 0.0
            for members, tokens in tree.tokens_by_members.items():
                spread += tokens * in_waves[members]
        less, within_waves, across_waves = once - path, path - spread, spread - once
        beyond = total % block_tokens
        steps = -((beyond - block_tokens) // batch_size)
        bound = total - beyond + block_tokens + 0.0
        known = self._new_savings(tree, batch_size)
        while True:
            if steps > num_steps:
                steps = num_steps
            wave = within = (bound - path + spread) / num_waves * scale
            drift = drift_tokens / bound
            if drift < 1.0:
                within *= drift
            missed = 1.0
            if within < largest:
                odds = within**exponent
                missed = odds / (1.0 + odds)
            saved = less + within_waves * missed
            if num_waves > 1.0:
                missed = 1.0
                if wave < largest:
                    odds = wave**exponent
                    missed = odds / (1.0 + odds)
                saved += across_waves * missed
            known[bound] = saved
            base_s, line_s = fixed_s, slope_s
            if saved:
                saved *= saved_share
                line_s, offset_s = full_alone_s, 0.0
                # A wave that may wait for the memory goes on to do so once it does, for its time
                # grows faster than that of a thread block.
                if full_may_wait:
                    if context * alone_s <= (context + saved) * wave_s:
                        line_s = full_memory_s
                        offset_s = saved * full_memory_s
                    elif steps > 1:
                        last = context + (steps - 1) * size
                        if last * alone_s <= (last + saved) * wave_s:
                            steps = 1  # another bound binds in between
                if not rest_may_wait:
                    line_s += rest_alone_s
                elif context * alone_s <= (context + saved) * rest_s:
                    line_s += rest_s
                    offset_s += saved * rest_s
                else:
                    line_s += alone_s
                    last = context + (steps - 1) * size
                    if last * alone_s <= (last + saved) * rest_s:
                        steps = 1
                base_s += offset_s
            for entry in range(at, at + steps):
                end_s += base_s + (context * line_s - late_s / context) + constant_s
                view[entry] = end_s
                context += size
            num_steps -= steps
            if not num_steps:
                return
            at += steps
            steps = HIT_TOKENS
            if context >= bound:
                bound += block_tokens
            else:
                steps = int(-((context - bound) // size))

    def _mixed_saved(
        self, batch_size: int, context_tokens: int, longest: int, tree: RunningTree
    ) -> float:
        """Context tokens that do not come from HBM in a step with prefill chunks, as a negative
        number: `L2Reads.saved_tokens`, mostly known from the run before."""
        bound = (context_tokens // (HIT_TOKENS * batch_size) + 1) * (HIT_TOKENS * batch_size)
        version, size, known = self._saved.get(tree, _NOTHING)
        is_known = version == tree.version and size == batch_size
        saved = known.get(bound) if is_known else None
        if saved is None:
            per_wave = self._decode.price(batch_size, longest).requests_per_wave
            saved = self._reads.saved_tokens(batch_size, context_tokens, tree, per_wave)
            if batch_size > self._largest_special:  # else it depends on the longest context too
                if not is_known:
                    known = self._new_savings(tree, batch_size)
                known[bound] = saved
        return saved

    def _new_savings(self, tree: RunningTree, batch_size: int) -> dict[float, float]:
        """Where to keep what a batch saves while its tree stays as it is."""
        if len(self._saved) > _MAX_TREES:
            self._saved.clear()
        known: dict[float, float] = {}
        self._saved[tree] = tree.version, batch_size, known
        return known

    @abstractmethod
    def _write_special(
        self,
        batch: DecodeBatchView,
        num_steps: int,
        constant_s: float,
        end_s: float,
        view: "memoryview[float]",
        at: int,
    ) -> None:
        """`write_run_ends` for batches up to the largest special one."""

    def _price(self, batch_size: int) -> tuple[float, float, float, _Waves]:
        price = self._decode.price(batch_size, 1)
        assert price.splits == 1
        alone_s, full_waves = price.alone_token_s, price.full_waves
        waves = (
            full_waves * alone_s,
            full_waves * price.wave_token_s,
            full_waves > 0 and price.wave_token_s * _ABOVE_ONE >= alone_s,
            alone_s if price.has_rest else 0.0,
            price.has_rest and price.rest_token_s * _ABOVE_ONE >= alone_s,
            price.wave_token_s,
            price.rest_token_s,
            alone_s,
            HIT_TOKENS * batch_size,
            self._reads.drift_tokens * batch_size,
            *self._reads.waves(batch_size, price.requests_per_wave),
        )
        found = price.fixed_s, price.straggler_token_s / batch_size, price.slope_s, waves
        self._prices[batch_size] = found
        return found
