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
from mypy_extensions import mypyc_attr

from sim.cost_totals import CostTotals
from sim.interfaces import CostLedger, DecodeBatchView, FloatArray, PrefillChunk, RunTable
from sim.step_ends import StepEnds

if TYPE_CHECKING:
    from hwmodels.roofline import RooflineCost, TokenCost

IntArray = npt.NDArray[np.int64]
Terms = dict[str, npt.NDArray[np.float64] | npt.NDArray[np.int64]]

_CHUNK_DTYPE = np.dtype([("new_tokens", "<i4"), ("prefix_tokens", "<i4"), ("is_last", "<i4")])
pack_chunk = Struct("<iii").pack
"""Makes the bytes of the note of a chunk."""


@mypyc_attr(allow_interpreted_subclasses=True)
class RooflineLedger(CostLedger):
    """Ledger of one instance.

    Args:
        cost: the cost model that prices the instance.
    """

    add_decode: Callable[[DecodeBatchView, int], None] | None = None

    def __init__(self, cost: "RooflineCost") -> None:
        self._cost = cost
        self._chunks = bytearray()
        self._log_chunk = self._chunks.extend

    def mixed_step_s(self, batch: DecodeBatchView, chunks: Sequence[PrefillChunk]) -> float:
        """Price one step with prefill chunks and note them, seconds."""
        cost, decodes, context_tokens = self._cost, batch.num_requests, batch.context_tokens
        tokens = sampled = decodes
        prefill_s = len(chunks) * cost.overhead_request_s
        for new_tokens, prefix_tokens, is_last in chunks:
            tokens += new_tokens
            sampled += is_last
            self._log_chunk(pack_chunk(new_tokens, prefix_tokens, is_last))
            compute_s = new_tokens * (2 * prefix_tokens + new_tokens + 1) * cost.half_pair_s
            memory_s = new_tokens * cost.chunk_token_s + prefix_tokens * cost.context_byte_s
            prefill_s += compute_s if compute_s > memory_s else memory_s
        try:  # this is `cost.constant_s`, spelled out because it runs for every mixed step
            tokens_s = cost.layers_s[tokens] + cost.logits_s[sampled]
        except KeyError:
            tokens_s = cost.tokens_s(tokens, sampled)
        constant_s = cost.overhead_s + tokens_s + decodes * cost.decode_s
        return context_tokens * cost.context_token_s + constant_s + prefill_s

    def price_chunks(
        self,
        batch: DecodeBatchView,
        chunk: PrefillChunk,
        num_steps: int,
        start_s: float,
        ends: StepEnds,
        at: int,
    ) -> None:
        """Price steps that prefill chunk after chunk of one prompt, and note them.

        Same operations in the same order as `mixed_step_s`, so that every end is the same bit for
        bit.
        """
        cost, decodes, context_tokens = self._cost, batch.num_requests, batch.context_tokens
        new_tokens, prefix_tokens, _ = chunk
        tokens_s = cost.tokens_s(decodes + new_tokens, decodes)
        constant_s = cost.overhead_s + tokens_s + decodes * cost.decode_s
        context_token_s, context_byte_s = cost.context_token_s, cost.context_byte_s
        half_pair_s, request_s = cost.half_pair_s, 1 * cost.overhead_request_s
        own_s = new_tokens * cost.chunk_token_s
        view, end_s = ends.view, start_s
        for entry in range(at, at + num_steps):
            self._log_chunk(pack_chunk(new_tokens, prefix_tokens, False))
            compute_s = new_tokens * (2 * prefix_tokens + new_tokens + 1) * half_pair_s
            memory_s = own_s + prefix_tokens * context_byte_s
            prefill_s = request_s + (compute_s if compute_s > memory_s else memory_s)
            end_s += context_tokens * context_token_s + constant_s + prefill_s
            view[entry] = end_s
            prefix_tokens += new_tokens
            context_tokens += decodes

    def totals(self, runs: RunTable, durations_s: FloatArray) -> CostTotals:
        """Sums over `runs`, the first ones of the instance; whole numbers exactly."""
        totals = CostTotals()
        for name, values in self._terms(runs, durations_s).items():
            setattr(totals, name, values.sum().item())
        return totals

    def run_costs(self, runs: RunTable, durations_s: FloatArray) -> FloatArray:
        """Cost terms of each of `runs`. Shape (runs, fields of `CostTotals`)."""
        terms = self._terms(runs, durations_s)
        none = np.zeros(len(runs))
        columns = [terms.get(item.name, none) for item in fields(CostTotals)]
        return np.column_stack(columns).astype(np.float64)

    def _terms(self, runs: RunTable, durations_s: FloatArray) -> Terms:
        """Cost terms of each run, by the names of `CostTotals`. Shape (runs,) each.

        Seconds follow from the rows alone; the durations are for finer cost models.
        """
        cost = self._cost
        steps, decodes, contexts, num_chunks = (
            runs[name].astype(np.int64)
            for name in ("num_steps", "num_decodes", "context_tokens", "num_prefills")
        )
        prefill_s, pairs, prefill_bytes, completing = self._prefill(num_chunks)
        layers = _lookup(cost.layers_cost, decodes + runs["prefill_tokens"])
        logits = _lookup(cost.logits_cost, decodes + completing)
        read_tokens = steps * contexts + decodes * (steps * (steps - 1) // 2)
        new_tokens = steps * decodes
        read_s = read_tokens * cost.context_token_s
        host_s = cost.overhead_s + (decodes + num_chunks) * cost.overhead_request_s
        return {
            "gemm_s": steps * (layers["gemm_s"] + logits["gemm_s"]),
            "attention_decode_s": read_s + new_tokens * cost.new_token_s,
            "attention_prefill_s": prefill_s,
            "collective_s": steps * (layers["collective_s"] + logits["collective_s"]),
            "small_ops_s": steps * layers["small_ops_s"],
            "launch_s": steps * host_s,
            "flops": steps * (layers["flops"] + logits["flops"])
            + (read_tokens + pairs) * cost.pair_flops,
            "hbm_bytes": steps * (layers["hbm_bytes"] + logits["hbm_bytes"])
            + read_tokens * cost.context_bytes
            + new_tokens * cost.new_token_bytes
            + prefill_bytes,
        }

    def _noted_chunks(self, num_chunks: IntArray) -> tuple[IntArray, IntArray, IntArray, IntArray]:
        """(run, new tokens, prefix tokens, completes its prompt) of the chunks of runs.

        Shape (chunks,) each. Chunks of a step that was planned but never executed are left out.
        """
        runs = np.repeat(np.arange(len(num_chunks)), num_chunks)
        noted = np.frombuffer(bytes(self._chunks), dtype=_CHUNK_DTYPE)[: len(runs)]
        columns = (noted[name].astype(np.int64) for name in _CHUNK_DTYPE.names or ())
        new_tokens, prefix_tokens, is_last = columns
        return runs, new_tokens, prefix_tokens, is_last

    def _prefill(self, num_chunks: IntArray) -> tuple[FloatArray, IntArray, IntArray, IntArray]:
        """Prefill attention of each run: (seconds, pairs, bytes), and the prompts it completes.

        Shape (runs,) each.
        """
        cost = self._cost
        rows, new_tokens, prefix_tokens, is_last = self._noted_chunks(num_chunks)
        seconds = np.zeros(len(num_chunks))
        pairs, moved, completing = (np.zeros_like(num_chunks) for _ in range(3))
        products = new_tokens * (2 * prefix_tokens + new_tokens + 1)
        memory_s = new_tokens * cost.chunk_token_s + prefix_tokens * cost.context_byte_s
        np.add.at(seconds, rows, np.maximum(products * cost.half_pair_s, memory_s))
        np.add.at(pairs, rows, products // 2)
        own_bytes = new_tokens * cost.chunk_token_bytes
        np.add.at(moved, rows, own_bytes + prefix_tokens * cost.context_bytes)
        np.add.at(completing, rows, is_last)
        return seconds, pairs, moved, completing


def _lookup(cost_of: "Callable[[int], TokenCost]", sizes: IntArray) -> dict[str, npt.NDArray[Any]]:
    """Costs of steps of `sizes` tokens, by term. Shape (sizes,) each."""
    distinct, index = np.unique(sizes, return_inverse=True)
    costs = [cost_of(size) for size in distinct.tolist()]
    names = ("gemm_s", "small_ops_s", "collective_s", "flops", "hbm_bytes")
    return {name: np.array([getattr(cost, name) for cost in costs])[index] for name in names}
