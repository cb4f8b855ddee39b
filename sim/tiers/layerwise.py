"""Steps that wait for loads layer by layer: a ledger around the one of the GPU.

The loads of a step go over the link one after the other, first layer of all of them first. With n
layers, a load of l seconds that begins at b, and a step that begins at s and computes for c
seconds, layer k can begin when its KV is there, at b + k l / n, so that the step ends at

    max(s + c, b + l / n + c, b + l + c / n)

What exceeds s + c is its wait. It is taken off the durations which the ledger of the GPU sees.
"""

from collections.abc import Callable, Sequence

import numpy as np

from sim.cost_totals import CostTotals
from sim.interfaces import CostLedger, DecodeBatchView, FloatArray, PrefillChunk, RunTable
from sim.request import Request
from sim.tiers.spec import TierSpec


class LayerwiseLedger(CostLedger):
    """Ledger of one instance whose steps wait for loads.

    Args:
        ledger: what is noted of the GPU.
        spec: the tiers.

    Attributes:
        num_bytes: loaded so far.
    """

    add_decode: Callable[[DecodeBatchView, int], None] | None

    def __init__(self, ledger: CostLedger, spec: TierSpec) -> None:
        self._ledger = ledger
        self.add_decode = ledger.add_decode
        self.write_chunk_ends = ledger.write_chunk_ends
        self._link = spec.host_link
        self._num_layers = spec.num_layers
        self._free_s = 0.0
        self._begin_s = 0.0
        self._step_bytes = 0
        self._requests: list[Request] = []
        self._waits_s: dict[int, float] = {}
        self.num_bytes = 0

    def add(self, request: Request, num_bytes: int, now_s: float) -> None:
        """Load KV of a request for the step that is planned at `now_s`."""
        self._begin_s = now_s
        self._step_bytes += num_bytes
        self._requests.append(request)

    def wait(self, step: int, start_s: float, compute_s: float) -> tuple[float, list[Request]]:
        """What the planned step waits for its loads, seconds; and whose they are."""
        requests, self._requests = self._requests, []
        load_s = self._step_bytes / self._link.bytes_per_s
        begin_s = max(self._begin_s, self._free_s)
        self._free_s = begin_s + load_s
        self.num_bytes += self._step_bytes
        self._step_bytes = 0
        begin_s += self._link.latency_s
        n = self._num_layers
        ends_s = (begin_s + load_s / n + compute_s, begin_s + load_s + compute_s / n)
        wait_s = max(0.0, max(ends_s) - (start_s + compute_s))
        self._waits_s[step] = wait_s
        return wait_s, requests

    def mixed_step_s(self, batch: DecodeBatchView, chunks: Sequence[PrefillChunk]) -> float:
        """Duration of the next step on the GPU, which is entered at once, seconds."""
        return self._ledger.mixed_step_s(batch, chunks)

    def totals(self, runs: RunTable, durations_s: FloatArray) -> CostTotals:
        """Sums over `runs`, the first ones of the instance."""
        return self._ledger.totals(runs, durations_s - self._run_waits_s(runs))

    def run_costs(self, runs: RunTable, durations_s: FloatArray) -> FloatArray:
        """Cost terms of each of `runs`. Shape (runs, fields of `CostTotals`)."""
        return self._ledger.run_costs(runs, durations_s - self._run_waits_s(runs))

    def _run_waits_s(self, runs: RunTable) -> FloatArray:
        """What the steps of each of `runs` waited; such a step is a run of its own."""
        waits = [self._waits_s.get(step, 0.0) for step in runs["first_step"].tolist()]
        return np.array(waits, dtype=np.float64)
