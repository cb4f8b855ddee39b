"""Cost terms of every single run of steps, for who wants to see where each step's time went."""

from array import array
from collections.abc import Sequence
from dataclasses import astuple, fields

import numpy as np
import numpy.typing as npt

from sim.cost_totals import CostTotals
from sim.interfaces import CostLedger, CostModel, DecodeBatchView, PrefillChunk

COST_COLUMNS = tuple(item.name for item in fields(CostTotals))
"""Columns of the table of costs per run, in the order of `CostTotals`."""


class CostRecorder(CostLedger):
    """A ledger that also keeps the terms of each run, in the order in which runs are entered.

    Several times slower than the cost model's own ledger, which it fills as well.

    Args:
        cost: the cost model.
    """

    def __init__(self, cost: CostModel) -> None:
        self._cost = cost
        self._ledger = cost.open_ledger()
        self._rows = array("d")

    def add_decode(self, batch: DecodeBatchView, num_steps: int) -> None:
        """Enter decode-only steps as one run."""
        alone = self._cost.open_ledger()
        alone.add_decode(batch, num_steps)
        self._ledger.add_decode(batch, num_steps)
        self._rows.extend(map(float, astuple(alone.totals())))

    def mixed_step_s(self, batch: DecodeBatchView, chunks: Sequence[PrefillChunk]) -> float:
        """Price and enter one step with prefill chunks as one run, seconds."""
        alone = self._cost.open_ledger()
        duration_s = alone.mixed_step_s(batch, chunks)
        self._ledger.mixed_step_s(batch, chunks)
        self._rows.extend(map(float, astuple(alone.totals())))
        return duration_s

    def totals(self) -> CostTotals:
        """Sums so far, exactly those of the cost model's own ledger."""
        return self._ledger.totals()

    def table(self) -> npt.NDArray[np.float64]:
        """Terms per run. Shape (runs, `COST_COLUMNS`)."""
        return np.array(self._rows).reshape(-1, len(COST_COLUMNS))
