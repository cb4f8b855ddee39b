"""Where the time of an instance priced by calibrated kernels went.

FLOPs and bytes are counted as by the roofline, less the bytes that L2 or the kernel saves. What a
step takes besides attention follows from its numbers of tokens; attention is the rest of it. Only
where prices depend on the prefix tree does the hot path note anything: which tree it was.
"""

from collections.abc import Callable, Iterator, Sequence
from struct import Struct
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from mypy_extensions import mypyc_attr

from hwmodels.attention.decode_steps import DecodeSteps, NotedTrees
from hwmodels.attention.l2_reads import HIT_TOKENS
from hwmodels.attention.tree_log import TreeLog
from hwmodels.roofline_ledger import IntArray, RooflineLedger, Terms, pack_chunk
from sim.interfaces import DecodeBatchView, FloatArray, PrefillChunk, RunTable

if TYPE_CHECKING:
    from hwmodels.calibrated import CalibratedCost, TokenTimes

_NOTE_DTYPE = np.dtype([("longest", "<i8"), ("tree", "<i4"), ("cascaded", "<i4")])
_pack_note = Struct("<qii").pack

_MAX_STEPS = 1 << 18
"""Steps whose savings are worked out at once."""


@mypyc_attr(allow_interpreted_subclasses=True)
class CalibratedLedger(RooflineLedger):
    """Ledger of one instance.

    Args:
        cost: the cost model that prices the instance.
    """

    def __init__(self, cost: "CalibratedCost") -> None:
        super().__init__(cost.roofline)
        self._kernels = cost
        self._mixed_s = cost.attention.mixed_s
        self._is_cascaded = cost.kernel.name == "flash_cascade"
        self._mixes_by_sums = cost.attention.mixes_by_sums
        self._largest_special = cost.attention.largest_special
        self._notes = bytearray()
        self._log_note = self._notes.extend
        self._has_common = cost.kernel.reads_nodes_once
        self._tree_log = TreeLog(has_common=self._has_common)
        if cost.uses_prefix_tree:
            self.add_decode = self._note_tree

    def _note_tree(self, batch: DecodeBatchView, num_steps: int) -> None:
        """Note what the requests of a run share."""
        tree, log = batch.tree, self._tree_log
        if tree is None:  # nothing in the workload is shared
            return
        number = log.number  # asked for only where it may have changed
        if tree.version != log.version or self._has_common or tree is not log.tree:
            number = log.note(tree)
        # In a batch that is not split, nothing that is saved depends on the longest context.
        is_special = batch.num_requests <= self._largest_special
        self._log_note(_pack_note(batch.max_context_tokens if is_special else 1, number, -1))

    def mixed_step_s(self, batch: DecodeBatchView, chunks: Sequence[PrefillChunk]) -> float:
        """Price one step with prefill chunks and note them, seconds."""
        cost, tree = self._kernels, batch.tree
        tokens = sampled = size = batch.num_requests
        for new_tokens, prefix_tokens, is_last in chunks:
            tokens += new_tokens
            sampled += is_last
            self._log_chunk(pack_chunk(new_tokens, prefix_tokens, is_last))
        longest = batch.max_context_tokens
        if tree is not None:
            log, cascaded = self._tree_log, 0
            number = log.number
            if tree.version != log.version or self._has_common or tree is not log.tree:
                number = log.note(tree)
            if self._is_cascaded:
                cascaded = cost.attention.cascaded_tokens(size, tree, chunks)
            self._log_note(_pack_note(longest, number, cascaded))
        squares = 0 if self._mixes_by_sums else batch.context_tokens_squared
        attention_s = self._mixed_s(size, batch.context_tokens, squares, longest, tree, chunks)
        try:  # this is `cost.tokens_s`, spelled out because it runs for every mixed step
            tokens_s = cost.layers_s[tokens] + cost.logits_s[sampled]
        except KeyError:
            tokens_s = cost.tokens_s(tokens, sampled)
        host_s = cost.overhead_s + (size + len(chunks)) * cost.overhead_request_s
        return host_s + tokens_s + attention_s

    def _terms(self, runs: RunTable, durations_s: FloatArray) -> Terms:
        """Cost terms of each run, by the names of `CostTotals`. Shape (runs,) each."""
        cost, terms = self._kernels, super()._terms(runs, durations_s)
        steps, decodes, contexts, num_chunks = (
            runs[name].astype(np.int64)
            for name in ("num_steps", "num_decodes", "context_tokens", "num_prefills")
        )
        chunk_runs, _, _, is_last = self._noted_chunks(num_chunks)
        completing = np.bincount(chunk_runs, is_last, len(runs)).astype(np.int64)
        layers = _lookup(cost.layer_times, decodes + runs["prefill_tokens"])
        logits = _lookup(cost.logits_times, decodes + completing)
        gemm_s, small_ops_s, collective_s = (layers + logits).T
        host_s = cost.host_s(decodes + num_chunks)
        rest_s = steps * (gemm_s + small_ops_s + collective_s + host_s)
        notes, trees = self._noted_trees(len(runs))
        decode_s, prefill_s = self._attention(
            runs, notes, trees, num_chunks > 0, np.maximum(durations_s - rest_s, 0.0)
        )
        unread, hit = self._savings(runs, notes, trees, steps)
        logical_tokens = steps * contexts + decodes * (steps * (steps - 1) // 2)
        read = logical_tokens * cost.roofline.context_bytes - unread
        none = np.zeros(len(runs), dtype=np.int64)
        return {
            **terms,
            "gemm_s": steps * gemm_s,
            "attention_decode_s": decode_s,
            "attention_prefill_s": prefill_s,
            "collective_s": steps * collective_s,
            "small_ops_s": steps * small_ops_s,
            "launch_s": steps * host_s,
            "hbm_bytes": terms["hbm_bytes"]
            - unread
            - hit
            - self._chunks_unread(notes, decodes, num_chunks),
            "l2_read_bytes": read if cost.uses_l2 else none,
            "l2_hit_bytes": hit,
        }

    def _attention(
        self,
        runs: RunTable,
        notes: npt.NDArray[np.void],
        trees: NotedTrees,
        has_chunks: npt.NDArray[np.bool_],
        attention_s: FloatArray,
    ) -> tuple[FloatArray, FloatArray]:
        """Attention of decodes and of chunks in each run, seconds. Shape (runs,) each.

        In a step with chunks the decodes are charged what they would take alone if they were
        equally long, and the chunks the rest.
        """
        decode_s = np.where(has_chunks, 0.0, attention_s)
        both = np.flatnonzero(has_chunks & (runs["num_decodes"] > 0))
        if len(both):
            size = runs["num_decodes"][both].astype(np.float64)
            total = runs["context_tokens"][both].astype(np.float64)
            alone = DecodeSteps(
                batch_size=size,
                context_tokens=total,
                squares=total * total / size,
                longest=total / size,
                cascaded=notes["cascaded"][both].astype(np.int64),
                tree=notes["tree"][both].astype(np.int64),
                trees=trees,
            )
            alone_s = self._kernels.attention.many_s(alone)
            decode_s[both] = np.minimum(alone_s, attention_s[both])
        return decode_s, attention_s - decode_s

    def _savings(
        self,
        runs: RunTable,
        notes: npt.NDArray[np.void],
        trees: NotedTrees,
        steps: IntArray,
    ) -> tuple[IntArray, IntArray]:
        """KV bytes that the decodes of each run need not read, and those that they read from L2.

        Shape (runs,) each.
        """
        token_bytes = self._kernels.roofline.context_bytes
        unread, hit = np.zeros(len(runs), dtype=np.int64), np.zeros(len(runs), dtype=np.int64)
        sharing = np.flatnonzero((runs["num_decodes"] > 0) & (notes["tree"] > 0))
        for piece in _pieces(steps[sharing]):
            rows = sharing[piece]
            first, counts, batch = self._stretches(runs[rows], notes[rows], steps[rows], trees)
            savings = self._kernels.attention.savings(batch)
            for found, tokens in zip((unread, hit), savings, strict=True):
                found[rows] = np.add.reduceat(counts * _whole(tokens * token_bytes), first)
        return unread, hit

    def _chunks_unread(
        self, notes: npt.NDArray[np.void], decodes: IntArray, num_chunks: IntArray
    ) -> IntArray:
        """KV bytes that the chunks of each run need not read, for a cascade does once for all.

        Shape (runs,).
        """
        common = np.where(num_chunks > 0, np.maximum(notes["cascaded"], 0), 0)
        spared = np.maximum(num_chunks - (decodes == 0), 0)
        unread: IntArray = common * spared * self._kernels.roofline.context_bytes
        return unread

    def _stretches(
        self, runs: RunTable, notes: npt.NDArray[np.void], steps: IntArray, trees: NotedTrees
    ) -> tuple[IntArray, IntArray, DecodeSteps]:
        """Stretches of steps that save the same: the first one of each run, their steps, and the
        first step of each; squared contexts do not matter."""
        size, total = runs["num_decodes"].astype(np.int64), runs["context_tokens"].astype(np.int64)
        per_block = HIT_TOKENS * size
        num_stretches = (total + (steps - 1) * size) // per_block - total // per_block + 1
        is_special = size <= self._kernels.attention.largest_special
        num_stretches = np.where(is_special, steps, num_stretches)
        first = np.cumsum(num_stretches) - num_stretches
        run = np.repeat(np.arange(len(runs)), num_stretches)
        number = np.arange(len(run)) - first[run]
        boundary = (total // per_block)[run] * per_block[run] + number * per_block[run]
        step = -(-(boundary - total[run]) // size[run])
        step = np.where(is_special[run], number, np.where(number == 0, 0, step))
        end = np.append(step[1:], 0)
        end[first[1:] - 1] = steps[:-1]
        end[-1] = steps[-1]
        batch = DecodeSteps(
            batch_size=size[run].astype(np.float64),
            context_tokens=(total[run] + size[run] * step).astype(np.float64),
            squares=np.zeros(len(run)),
            longest=(notes["longest"][run] + step).astype(np.float64),
            cascaded=notes["cascaded"][run].astype(np.int64),
            tree=notes["tree"][run].astype(np.int64),
            trees=trees,
        )
        return first, end - step, batch

    def _noted_trees(self, num_runs: int) -> tuple[npt.NDArray[np.void], NotedTrees]:
        """A note per run; those of steps that were planned but never executed are left out."""
        if not self._notes:
            return np.zeros(num_runs, dtype=_NOTE_DTYPE), self._tree_log.trees()
        notes = np.frombuffer(bytes(self._notes), dtype=_NOTE_DTYPE)
        return notes[:num_runs], self._tree_log.trees()


def _whole(values: FloatArray) -> IntArray:
    whole: IntArray = np.rint(values).astype(np.int64)
    return whole


def _pieces(steps: IntArray) -> Iterator[npt.NDArray[np.intp]]:
    """Indices of runs in pieces of bounded total steps."""
    if not len(steps):
        return
    piece = np.cumsum(steps) // _MAX_STEPS
    yield from np.split(np.arange(len(steps)), np.flatnonzero(np.diff(piece)) + 1)


def _lookup(times_of: "Callable[[int], TokenTimes]", sizes: IntArray) -> FloatArray:
    """Times by term of steps of so many tokens. Shape (sizes, terms)."""
    distinct, index = np.unique(sizes, return_inverse=True)
    table = np.array([times_of(size) for size in distinct.tolist()]).reshape(-1, 3)
    times: FloatArray = table[index]
    return times
