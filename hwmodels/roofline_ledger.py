"""Where the time and the bytes of an instance priced by the roofline went.

On the hot path only counts are kept (steps per batch size, tokens of mixed steps, chunks); cost
terms follow from them when somebody asks. Counts do not depend on how steps are grouped into runs.
"""

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from struct import Struct
from typing import TYPE_CHECKING

import numpy as np

from sim.cost_totals import CostTotals
from sim.interfaces import CostLedger, DecodeBatchView, PrefillChunk

if TYPE_CHECKING:
    from hwmodels.roofline import RooflineCost, TokenCost

_pack_chunk = Struct("2q").pack


class RooflineLedger(CostLedger):
    """Ledger of one instance.

    Args:
        cost: the cost model that prices the instance.
    """

    def __init__(self, cost: "RooflineCost") -> None:
        self._cost = cost
        self._decode_steps: dict[int, int] = {}
        self._mixed_tokens = array("i")
        self._mixed_sampled = array("i")
        self._context_tokens = 0
        self._chunks = array("q")
        self._log_chunk = self._chunks.frombytes
        self._prefill_s = 0.0

    def add_decode(self, batch: DecodeBatchView, num_steps: int) -> None:
        """Enter decode-only steps."""
        num_requests, steps = batch.num_requests, self._decode_steps
        grown_tokens = num_requests * (num_steps * (num_steps - 1) // 2)
        self._context_tokens += num_steps * batch.context_tokens + grown_tokens
        steps[num_requests] = steps.get(num_requests, 0) + num_steps

    def mixed_step_s(self, batch: DecodeBatchView, chunks: Sequence[PrefillChunk]) -> float:
        """Price and enter one step with prefill chunks, seconds."""
        cost, num_decodes, context_tokens = self._cost, batch.num_requests, batch.context_tokens
        num_tokens = num_sampled = num_decodes
        prefill_s = 0.0
        for new_tokens, prefix_tokens, is_last in chunks:
            num_tokens += new_tokens
            num_sampled += is_last
            self._log_chunk(_pack_chunk(new_tokens, prefix_tokens))
            compute_s = new_tokens * (2 * prefix_tokens + new_tokens + 1) * cost.half_pair_s
            memory_s = new_tokens * cost.chunk_token_s + prefix_tokens * cost.context_byte_s
            prefill_s += compute_s if compute_s > memory_s else memory_s
        self._prefill_s += prefill_s
        self._context_tokens += context_tokens
        self._mixed_tokens.append(num_tokens)
        self._mixed_sampled.append(num_sampled)
        try:  # this is `cost.constant_s`, spelled out because it runs for every mixed step
            tokens_s = cost.layers_s[num_tokens] + cost.logits_s[num_sampled]
        except KeyError:
            tokens_s = cost.tokens_s(num_tokens, num_sampled)
        constant_s = cost.overhead_s + tokens_s + num_decodes * cost.new_token_s
        return context_tokens * cost.context_token_s + constant_s + prefill_s

    def totals(self) -> CostTotals:
        """Cost terms so far; whole numbers exactly."""
        cost = self._cost
        totals = CostTotals()
        new_tokens, prefix_tokens = np.array(self._chunks).reshape(-1, 2).T
        prefill_tokens = int(new_tokens.sum())
        prefill_pairs = int((new_tokens * (2 * prefix_tokens + new_tokens + 1) // 2).sum())
        decode_only = sum(count * steps for count, steps in self._decode_steps.items())
        decode_tokens = decode_only + sum(self._mixed_tokens) - prefill_tokens
        for counts in (self._decode_steps, Counter(self._mixed_tokens)):
            _add_steps(totals, counts, (cost.layers_cost(n) for n in sorted(counts)))
        for counts in (self._decode_steps, Counter(self._mixed_sampled)):
            _add_steps(totals, counts, (cost.logits_cost(n) for n in sorted(counts)))
        num_steps = sum(self._decode_steps.values()) + len(self._mixed_tokens)
        totals.launch_s = num_steps * cost.overhead_s
        totals.attention_decode_s = (
            self._context_tokens * cost.context_token_s + decode_tokens * cost.new_token_s
        )
        totals.attention_prefill_s = self._prefill_s
        pairs = self._context_tokens + prefill_pairs
        totals.flops += pairs * cost.pair_flops
        totals.hbm_bytes += (
            self._context_tokens * cost.context_bytes
            + decode_tokens * cost.new_token_bytes
            + prefill_tokens * cost.chunk_token_bytes
            + int(prefix_tokens.sum()) * cost.context_bytes
        )
        return totals


def _add_steps(totals: CostTotals, counts: Mapping[int, int], costs: Iterable["TokenCost"]) -> None:
    """Add `counts[n]` times the cost of n tokens, costs in order of n."""
    for number, cost in zip(sorted(counts), costs, strict=True):
        steps = counts[number]
        totals.gemm_s += steps * cost.gemm_s
        totals.small_ops_s += steps * cost.small_ops_s
        totals.collective_s += steps * cost.collective_s
        totals.flops += steps * cost.flops
        totals.hbm_bytes += steps * cost.hbm_bytes
