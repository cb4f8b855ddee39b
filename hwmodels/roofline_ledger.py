"""Where the time and the bytes of an instance priced by the roofline went.

On the hot path only what was priced is noted, in packed rows; cost terms follow from them when
somebody asks. Sums do not depend on how steps are grouped into runs.
"""

from collections.abc import Callable, Sequence
from dataclasses import fields
from struct import Struct
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sim.cost_totals import CostTotals
from sim.interfaces import CostLedger, DecodeBatchView, FloatArray, PrefillChunk

if TYPE_CHECKING:
    from hwmodels.roofline import RooflineCost, TokenCost

IntArray = npt.NDArray[np.int64]
Terms = dict[str, npt.NDArray[np.float64] | npt.NDArray[np.int64]]

_RUN_DTYPE = np.dtype(
    [
        ("steps", "<i4"),
        ("decodes", "<i4"),
        ("tokens", "<i8"),
        ("sampled", "<i4"),
        ("context_tokens", "<i8"),
        ("chunks", "<i4"),
    ]
)
_CHUNK_DTYPE = np.dtype([("new_tokens", "<i4"), ("prefix_tokens", "<i4")])
_pack_run, _pack_chunk = Struct("<iiqiqi").pack, Struct("<ii").pack


class RooflineLedger(CostLedger):
    """Ledger of one instance.

    Args:
        cost: the cost model that prices the instance.
    """

    def __init__(self, cost: "RooflineCost") -> None:
        self._cost = cost
        self._runs, self._chunks = bytearray(), bytearray()
        self._log_run, self._log_chunk = self._runs.extend, self._chunks.extend

    def add_decode(self, batch: DecodeBatchView, num_steps: int) -> None:
        """Enter decode-only steps."""
        size = batch.num_requests
        self._log_run(_pack_run(num_steps, size, size, size, batch.context_tokens, 0))

    def mixed_step_s(self, batch: DecodeBatchView, chunks: Sequence[PrefillChunk]) -> float:
        """Price and enter one step with prefill chunks, seconds."""
        cost, decodes, context_tokens = self._cost, batch.num_requests, batch.context_tokens
        tokens = sampled = decodes
        prefill_s = 0.0
        for new_tokens, prefix_tokens, is_last in chunks:
            tokens += new_tokens
            sampled += is_last
            self._log_chunk(_pack_chunk(new_tokens, prefix_tokens))
            compute_s = new_tokens * (2 * prefix_tokens + new_tokens + 1) * cost.half_pair_s
            memory_s = new_tokens * cost.chunk_token_s + prefix_tokens * cost.context_byte_s
            prefill_s += compute_s if compute_s > memory_s else memory_s
        self._log_run(_pack_run(1, decodes, tokens, sampled, context_tokens, len(chunks)))
        try:  # this is `cost.constant_s`, spelled out because it runs for every mixed step
            tokens_s = cost.layers_s[tokens] + cost.logits_s[sampled]
        except KeyError:
            tokens_s = cost.tokens_s(tokens, sampled)
        constant_s = cost.overhead_s + tokens_s + decodes * cost.new_token_s
        return context_tokens * cost.context_token_s + constant_s + prefill_s

    def totals(self) -> CostTotals:
        """Cost terms so far; whole numbers exactly."""
        totals = CostTotals()
        for name, values in self._terms().items():
            setattr(totals, name, values.sum().item())
        return totals

    def run_costs(self) -> FloatArray:
        """Cost terms of every entry. Shape (entries, fields of `CostTotals`)."""
        terms = self._terms()
        none = np.zeros(len(self._runs) // _RUN_DTYPE.itemsize)
        columns = [terms.get(item.name, none) for item in fields(CostTotals)]
        return np.column_stack(columns).astype(np.float64)

    def _terms(self) -> Terms:
        """Cost terms of every entry, by the names of `CostTotals`. Shape (entries,) each."""
        cost = self._cost
        steps, decodes, tokens, sampled, contexts, num_chunks = _columns(self._runs, _RUN_DTYPE)
        layers = _lookup(cost.layers_cost, tokens)
        logits = _lookup(cost.logits_cost, sampled)
        prefill_s, pairs, prefill_bytes = self._prefill(num_chunks)
        read_tokens = steps * contexts + decodes * (steps * (steps - 1) // 2)
        new_tokens = steps * decodes
        read_s = read_tokens * cost.context_token_s
        return {
            "gemm_s": steps * (layers["gemm_s"] + logits["gemm_s"]),
            "attention_decode_s": read_s + new_tokens * cost.new_token_s,
            "attention_prefill_s": prefill_s,
            "collective_s": steps * (layers["collective_s"] + logits["collective_s"]),
            "small_ops_s": steps * layers["small_ops_s"],
            "launch_s": steps * cost.overhead_s,
            "flops": steps * (layers["flops"] + logits["flops"])
            + (read_tokens + pairs) * cost.pair_flops,
            "hbm_bytes": steps * (layers["hbm_bytes"] + logits["hbm_bytes"])
            + read_tokens * cost.context_bytes
            + new_tokens * cost.new_token_bytes
            + prefill_bytes,
        }

    def _prefill(self, num_chunks: IntArray) -> tuple[FloatArray, IntArray, IntArray]:
        """Prefill attention of every entry: (seconds, pairs, bytes). Shape (entries,) each."""
        cost = self._cost
        new_tokens, prefix_tokens = _columns(self._chunks, _CHUNK_DTYPE)
        rows = np.repeat(np.arange(len(num_chunks)), num_chunks)
        products = new_tokens * (2 * prefix_tokens + new_tokens + 1)
        memory_s = new_tokens * cost.chunk_token_s + prefix_tokens * cost.context_byte_s
        seconds = np.zeros(len(num_chunks))
        np.add.at(seconds, rows, np.maximum(products * cost.half_pair_s, memory_s))
        pairs, moved = np.zeros_like(num_chunks), np.zeros_like(num_chunks)
        np.add.at(pairs, rows, products // 2)
        own_bytes = new_tokens * cost.chunk_token_bytes
        np.add.at(moved, rows, own_bytes + prefix_tokens * cost.context_bytes)
        return seconds, pairs, moved


def _columns(rows: bytearray, dtype: np.dtype[np.void]) -> list[IntArray]:
    """Packed rows as columns. Shape (rows,) each."""
    table = np.frombuffer(bytes(rows), dtype=dtype)
    return [table[name].astype(np.int64) for name in dtype.names or ()]


def _lookup(cost_of: "Callable[[int], TokenCost]", sizes: IntArray) -> dict[str, npt.NDArray[Any]]:
    """Costs of steps of `sizes` tokens, by term. Shape (sizes,) each."""
    distinct, index = np.unique(sizes, return_inverse=True)
    costs = [cost_of(size) for size in distinct.tolist()]
    names = ("gemm_s", "small_ops_s", "collective_s", "flops", "hbm_bytes")
    return {name: np.array([getattr(cost, name) for cost in costs])[index] for name in names}
