"""Where the time and the bytes of an instance priced by the roofline went.

On the hot path only what was priced is noted, in packed rows; cost terms follow from them when
somebody asks. They do not depend on how steps are grouped into runs.
"""

from array import array
from collections.abc import Callable, Sequence
from struct import Struct
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sim.cost_totals import CostTotals
from sim.interfaces import CostLedger, DecodeBatchView, PrefillChunk

if TYPE_CHECKING:
    from hwmodels.roofline import RooflineCost, TokenCost

IntArray = npt.NDArray[np.int64]

_pack_decode = Struct("3q").pack
_pack_mixed = Struct("4q").pack
_pack_chunk = Struct("2q").pack


class RooflineLedger(CostLedger):
    """Ledger of one instance.

    Args:
        cost: the cost model that prices the instance.
    """

    def __init__(self, cost: "RooflineCost") -> None:
        self._cost = cost
        self._decode_rows = array("q")
        self._mixed_rows = array("q")
        self._chunk_rows = array("q")
        self._log_decode = self._decode_rows.frombytes
        self._log_mixed = self._mixed_rows.frombytes
        self._log_chunk = self._chunk_rows.frombytes
        self._prefill_s = 0.0

    def add_decode(self, batch: DecodeBatchView, num_steps: int) -> None:
        """Enter decode-only steps."""
        self._log_decode(_pack_decode(batch.num_requests, num_steps, batch.context_tokens))

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
        self._log_mixed(_pack_mixed(num_decodes, num_tokens, num_sampled, context_tokens))
        try:  # this is `cost.constant_s`, spelled out because it runs for every mixed step
            tokens_s = cost.layers_s[num_tokens] + cost.logits_s[num_sampled]
        except KeyError:
            tokens_s = cost.tokens_s(num_tokens, num_sampled)
        constant_s = cost.overhead_s + tokens_s + num_decodes * cost.new_token_s
        return context_tokens * cost.context_token_s + constant_s + prefill_s

    def totals(self) -> CostTotals:
        """Cost terms so far; whole numbers exactly."""
        cost, totals = self._cost, CostTotals()
        batch, steps, contexts = _columns(self._decode_rows, 3)
        decodes, tokens, sampled, mixed_contexts = _columns(self._mixed_rows, 4)
        new_tokens, prefix_tokens = _columns(self._chunk_rows, 2)
        once = np.ones_like(tokens)
        _add_steps(totals, cost.layers_cost, np.append(batch, tokens), np.append(steps, once))
        _add_steps(totals, cost.logits_cost, np.append(batch, sampled), np.append(steps, once))
        grown = batch * (steps * (steps - 1) // 2)
        read_tokens = int((steps * contexts + grown).sum()) + int(mixed_contexts.sum())
        decode_tokens = int((batch * steps).sum()) + int(decodes.sum())
        pairs = int((new_tokens * (2 * prefix_tokens + new_tokens + 1) // 2).sum())
        totals.launch_s = (int(steps.sum()) + len(tokens)) * cost.overhead_s
        decode_s = read_tokens * cost.context_token_s + decode_tokens * cost.new_token_s
        totals.attention_decode_s = decode_s
        totals.attention_prefill_s = self._prefill_s
        totals.flops += (read_tokens + pairs) * cost.pair_flops
        totals.hbm_bytes += (read_tokens + int(prefix_tokens.sum())) * cost.context_bytes
        totals.hbm_bytes += decode_tokens * cost.new_token_bytes
        totals.hbm_bytes += int(new_tokens.sum()) * cost.chunk_token_bytes
        return totals


def _columns(rows: "array[int]", width: int) -> IntArray:
    """Packed rows as columns. Shape (width, rows)."""
    return np.array(rows, dtype=np.int64).reshape(-1, width).T


def _add_steps(
    totals: CostTotals, cost_of: "Callable[[int], TokenCost]", sizes: IntArray, steps: IntArray
) -> None:
    """Add the cost of `steps[i]` steps of `sizes[i]` tokens, sizes in order."""
    distinct, index = np.unique(sizes, return_inverse=True)
    counts = np.zeros(len(distinct), dtype=np.int64)
    np.add.at(counts, index, steps)
    for size, count in zip(distinct.tolist(), counts.tolist(), strict=True):
        cost = cost_of(size)
        totals.gemm_s += count * cost.gemm_s
        totals.small_ops_s += count * cost.small_ops_s
        totals.collective_s += count * cost.collective_s
        totals.flops += count * cost.flops
        totals.hbm_bytes += count * cost.hbm_bytes
