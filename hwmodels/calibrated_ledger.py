"""Where the time of an instance priced by calibrated kernels went.

FLOPs and bytes are counted as by the roofline. Seconds follow, when somebody asks, from the run
table and the moments of the contexts that are noted for every run.
"""

from collections.abc import Callable, Iterator, Sequence
from struct import Struct
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from hwmodels.roofline_ledger import IntArray, RooflineLedger, Terms
from sim.interfaces import DecodeBatchView, FloatArray, PrefillChunk, RunTable

if TYPE_CHECKING:
    from hwmodels.calibrated import CalibratedCost, TokenTimes

_MOMENTS_DTYPE = np.dtype([("squares", "<i8"), ("longest", "<i8")])
_pack_moments = Struct("<qq").pack

_MAX_STEPS = 1 << 18
"""Steps whose attention is priced at once."""


class CalibratedLedger(RooflineLedger):
    """Ledger of one instance.

    Args:
        cost: the cost model that prices the instance.
    """

    def __init__(self, cost: "CalibratedCost") -> None:
        super().__init__(cost.roofline)
        self._kernels = cost
        self._moments = bytearray()

    def add_decode(self, batch: DecodeBatchView, num_steps: int) -> None:  # type: ignore[override]
        """Note the moments of a run's contexts."""
        self._note(batch)

    def mixed_step_s(self, batch: DecodeBatchView, chunks: Sequence[PrefillChunk]) -> float:
        """Price one step with prefill chunks and note them, seconds."""
        super().mixed_step_s(batch, chunks)
        self._note(batch)
        return self._kernels.mixed_step_s(batch, chunks)

    def _note(self, batch: DecodeBatchView) -> None:
        moments = _pack_moments(batch.context_tokens_squared, batch.max_context_tokens)
        self._moments.extend(moments)

    def _terms(self, runs: RunTable) -> Terms:
        """Cost terms of each run, by the names of `CostTotals`. Shape (runs,) each."""
        cost, steps = self._kernels, runs["num_steps"].astype(np.int64)
        decodes = runs["num_decodes"].astype(np.int64)
        chunk_runs, new_tokens, prefix_tokens, is_last = self._noted_chunks(
            runs["num_prefills"].astype(np.int64)
        )
        completing = np.bincount(chunk_runs, is_last, len(runs)).astype(np.int64)
        layers = _lookup(cost.layer_times, decodes + runs["prefill_tokens"])
        logits = _lookup(cost.logits_times, decodes + completing)
        chunks_s = np.empty(0)
        if len(new_tokens):
            chunks_s = cost.prefill_attention_s(new_tokens, prefix_tokens)
        gemm_s, small_ops_s, collective_s = (layers + logits).T
        return {
            **super()._terms(runs),
            "gemm_s": steps * gemm_s,
            "attention_decode_s": self._decode_attention_s(runs, steps, decodes),
            "attention_prefill_s": np.bincount(chunk_runs, chunks_s, len(runs)),
            "collective_s": steps * collective_s,
            "small_ops_s": steps * small_ops_s,
            "launch_s": steps * cost.overhead_s,
        }

    def _decode_attention_s(self, runs: RunTable, steps: IntArray, decodes: IntArray) -> FloatArray:
        """Decode attention of each run, seconds. Shape (runs,)."""
        moments = np.frombuffer(bytes(self._moments), dtype=_MOMENTS_DTYPE)
        seconds = np.zeros(len(runs))
        for rows in _pieces(np.flatnonzero(decodes), steps):
            repeats = steps[rows]
            first = np.cumsum(repeats) - repeats
            step = np.arange(repeats.sum()) - np.repeat(first, repeats)
            columns = (
                decodes[rows],
                runs["context_tokens"][rows],
                moments["squares"][rows],
                moments["longest"][rows],
            )
            wide = [np.repeat(column.astype(np.float64), repeats) for column in columns]
            step_s = self._kernels.decode_attention_s(step.astype(np.float64), *wide)
            seconds[rows] = np.add.reduceat(step_s, first)
        return seconds


def _pieces(rows: npt.NDArray[np.intp], steps: IntArray) -> Iterator[npt.NDArray[np.intp]]:
    """Rows in pieces of bounded total steps."""
    if not len(rows):
        return
    piece = np.cumsum(steps[rows]) // _MAX_STEPS
    yield from np.split(rows, np.flatnonzero(np.diff(piece)) + 1)


def _lookup(times_of: "Callable[[int], TokenTimes]", sizes: IntArray) -> FloatArray:
    """Times by term of steps of so many tokens. Shape (sizes, terms)."""
    distinct, index = np.unique(sizes, return_inverse=True)
    table = np.array([times_of(size) for size in distinct.tolist()]).reshape(-1, 3)
    times: FloatArray = table[index]
    return times
