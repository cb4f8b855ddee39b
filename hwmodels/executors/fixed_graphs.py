"""What graphs of fixed shape take: a decode of all slots over a window, and padded prefills.

A graph computes and reads its whole shape, whatever is in it: idle slots and padding cost as much
as requests. Its price is that of the cost model for a batch of that shape which shares nothing.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hwmodels.executors.executor import KernelCost
from hwmodels.executors.kernel_prices import host_s
from hwmodels.executors.uniform_batch import NOTHING, UniformBatch
from sim.cost_totals import COST_COLUMNS
from sim.interfaces import FloatArray, PrefillChunk
from sim.recorder import RUN_DTYPE

WHOLE = ("hbm_bytes", "flops", "l2_read_bytes", "l2_hit_bytes")
"""Cost terms that are whole numbers."""


class GraphPrice(NamedTuple):
    """What a graph takes.

    Attributes:
        gpu_s: time on the GPU, seconds.
        terms: the same and its traffic, by the fields of `CostTotals`; `launch_s` is 0.
    """

    gpu_s: float
    terms: FloatArray


class FixedGraphs:
    """Prices of graphs on one GPU model, each worked out once.

    Args:
        cost: what steps take.
        num_slots: requests of a decode graph, present or not.
    """

    def __init__(self, cost: KernelCost, num_slots: int) -> None:
        self.cost = cost
        self.num_slots = num_slots
        self._decodes: dict[int, GraphPrice] = {}
        self._prefills: dict[PrefillChunk, GraphPrice] = {}

    def decode(self, window_tokens: int) -> GraphPrice:
        """A decode of all slots, each of which reads a window."""
        price = self._decodes.get(window_tokens)
        if price is None:
            batch = UniformBatch(self.num_slots, window_tokens)
            ledger, priced_s = self.cost.open_ledger(), self.cost.decode_step_s(batch)
            if ledger.add_decode is not None:
                ledger.add_decode(batch, 1)
            row = (0, 1, self.num_slots, 0, 0, batch.context_tokens, 0, 0)
            terms = _terms(ledger.run_costs(_run(row), np.array([priced_s])))
            price = GraphPrice(priced_s - host_s(self.cost, self.num_slots), terms)
            self._decodes[window_tokens] = price
        return price

    def prefill(self, shape: PrefillChunk) -> GraphPrice:
        """A prefill of a padded chunk."""
        price = self._prefills.get(shape)
        if price is None:
            ledger = self.cost.open_ledger()
            priced_s = ledger.mixed_step_s(NOTHING, [shape])
            terms = _terms(
                ledger.run_costs(
                    _run((0, 1, 0, 1, shape.new_tokens, 0, 0, 0)), np.array([priced_s])
                )
            )
            price = GraphPrice(priced_s - host_s(self.cost, 1), terms)
            self._prefills[shape] = price
        return price


def padded_chunk(chunk: PrefillChunk) -> PrefillChunk:
    """The shape of the graph that prefills a chunk: both lengths up to the next power of two."""
    new_tokens, prefix_tokens, is_last = chunk
    return PrefillChunk(_padded(new_tokens), _padded(prefix_tokens), is_last)


def _padded(num_tokens: int) -> int:
    return 1 << (num_tokens - 1).bit_length() if num_tokens else 0


def _run(row: tuple[int, ...]) -> npt.NDArray[np.void]:
    return np.array([row], dtype=RUN_DTYPE)


def _terms(costs: FloatArray) -> FloatArray:
    terms: FloatArray = costs[0].copy()
    terms[COST_COLUMNS.index("launch_s")] = 0.0
    return terms
