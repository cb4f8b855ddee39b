"""Executors whose kernels read real lengths: launched one by one, in pieces, or as a whole graph.

A step takes the price of the cost model, what its rows are padded by, and what of its launches the
GPU cannot hide. Launches are asynchronous: they cost nothing until they take longer than the GPU.
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from hwmodels.calibrated import TokenTimes
from hwmodels.executors.executor import KernelCost
from hwmodels.executors.kernel_prices import NO_TIME, host_s
from hwmodels.executors.step_notes import StepNotes, num_steps_of
from sim.cost_totals import COST_COLUMNS, CostTotals
from sim.executed_cost import ExecutedCost, ExecutorRecords
from sim.interfaces import CostLedger, DecodeBatchView, FloatArray, PrefillChunk, RunTable

if TYPE_CHECKING:
    from sim.instance import Instance


class Launch(NamedTuple):
    """How a step is launched.

    Attributes:
        padding: what padded rows and other all-reduces add to it, seconds.
        floor_s: shortest time on the GPU that hides its launches, seconds.
        submit_s: what is added whatever the GPU does, seconds; negative where less is submitted
            than the fitted host time holds.
    """

    padding: TokenTimes = NO_TIME
    floor_s: float = 0.0
    submit_s: float = 0.0


class Launcher(Protocol):
    """Says how steps are launched. Stateless: the same step, the same launch."""

    @abstractmethod
    def decode(self, batch: DecodeBatchView) -> Launch:
        """A decode-only step; the same for all steps of a run."""

    @abstractmethod
    def mixed(self, batch: DecodeBatchView, chunks: Sequence[PrefillChunk]) -> Launch:
        """A step with prefill chunks."""

    @abstractmethod
    def padding(self, num_decodes: int, num_tokens: int) -> TokenTimes:
        """`Launch.padding` of a step from its decodes and all its tokens."""


class LaunchedCost(ExecutedCost):
    """Cost model of launched steps.

    Args:
        cost: what they take on the GPU, host time included.
        launcher: how they are launched.
    """

    def __init__(self, cost: KernelCost, launcher: Launcher) -> None:
        self.uses_prefix_tree = cost.uses_prefix_tree
        self._cost = cost
        self._launcher = launcher
        self._notes: StepNotes | None = None

    def for_instance(self) -> "LaunchedCost":
        """The same prices, with notes of their own."""
        return LaunchedCost(self._cost, self._launcher)

    def watch(self, instance: "Instance") -> None:
        """Take the instance whose steps are priced; before the first one."""
        self._notes = StepNotes(instance, "launch_s")

    def decode_step_s(self, batch: DecodeBatchView) -> float:
        """Duration of the next decode-only step, seconds."""
        launch = self._launcher.decode(batch)
        return self._step_s(self._cost.decode_step_s(batch), batch.num_requests, launch)

    def decode_run_s(self, batch: DecodeBatchView, num_steps: int) -> FloatArray:
        """Durations of the next `num_steps` decode-only steps, seconds. Shape (num_steps,)."""
        launch = self._launcher.decode(batch)
        priced_s = self._cost.decode_run_s(batch, num_steps)
        gpu_s = priced_s - host_s(self._cost, batch.num_requests) + launch.padding.total_s
        launch_s = np.maximum(0.0, launch.floor_s - gpu_s) + launch.submit_s
        if self._notes is not None:
            self._notes.forget_cut_steps()
            self._notes.add_run(launch_s=launch_s)
        durations_s: FloatArray = priced_s + launch.padding.total_s + launch_s
        return durations_s

    def mixed_step_s(self, batch: DecodeBatchView, chunks: Sequence[PrefillChunk]) -> float:
        """Duration of the next step with decodes and prefill chunks, seconds."""
        if not chunks:
            return self.decode_step_s(batch)
        return self.launched_s(self._cost.mixed_step_s(batch, chunks), batch, chunks)

    def launched_s(
        self, priced_s: float, batch: DecodeBatchView, chunks: Sequence[PrefillChunk]
    ) -> float:
        """Duration of the next step with chunks from its price, seconds; notes its launch."""
        launch = self._launcher.mixed(batch, chunks)
        return self._step_s(priced_s, batch.num_requests + len(chunks), launch)

    def _step_s(self, priced_s: float, num_requests: int, launch: Launch) -> float:
        gpu_s = priced_s - host_s(self._cost, num_requests) + launch.padding.total_s
        launch_s = max(0.0, launch.floor_s - gpu_s) + launch.submit_s
        if self._notes is not None:
            self._notes.forget_cut_steps()
            self._notes.add(launch_s=launch_s)
        return priced_s + launch.padding.total_s + launch_s

    def open_ledger(self) -> CostLedger:
        """The ledger of the GPU, with launches and padding beside it."""
        return LaunchedLedger(self._cost.open_ledger(), self)

    def records(self, runs: RunTable) -> ExecutorRecords:
        """Nothing but the cost terms."""
        return ExecutorRecords()

    # -- for the ledger --------------------------------------------------------------------------

    def launch_total_s(self, runs: RunTable) -> float:
        """What launches added to the steps of `runs`, the first ones, seconds."""
        assert self._notes is not None
        return float(self._notes.of_steps("launch_s", num_steps_of(runs)).sum())

    def run_launches_s(self, runs: RunTable) -> FloatArray:
        """What launches added to each of `runs`, the first ones. Shape (runs,)."""
        assert self._notes is not None
        return self._notes.of_runs("launch_s", runs)

    def run_padding_s(self, runs: RunTable) -> FloatArray:
        """What padding added to each of `runs`, by the fields of `TokenTimes`. Shape (runs, 3)."""
        keys = np.stack([runs["num_decodes"], runs["num_decodes"] + runs["prefill_tokens"]])
        distinct, index = np.unique(keys, axis=1, return_inverse=True)
        times = [self._launcher.padding(*key) for key in distinct.T.tolist()]
        table = np.array(times).reshape(-1, len(TokenTimes._fields))
        padding_s: FloatArray = table[index.reshape(-1)] * runs["num_steps"][:, None]
        return padding_s


class LaunchedLedger(CostLedger):
    """Ledger of one instance whose steps are launched.

    Args:
        ledger: what is noted of the GPU.
        cost: prices the steps.
    """

    add_decode: Callable[[DecodeBatchView, int], None] | None

    def __init__(self, ledger: CostLedger, cost: LaunchedCost) -> None:
        self._ledger = ledger
        self._cost = cost
        self.add_decode = ledger.add_decode

    def mixed_step_s(self, batch: DecodeBatchView, chunks: Sequence[PrefillChunk]) -> float:
        """Duration of the next step with prefills, which is entered at once, seconds."""
        priced_s = self._ledger.mixed_step_s(batch, chunks)
        return self._cost.launched_s(priced_s, batch, chunks)

    def totals(self, runs: RunTable, durations_s: FloatArray) -> CostTotals:
        """Sums over `runs`, the first ones of the instance; padded rows count as time alone."""
        padding_s, launches_s = self._cost.run_padding_s(runs), self._cost.run_launches_s(runs)
        totals = self._ledger.totals(runs, durations_s - padding_s.sum(axis=1) - launches_s)
        added = dict(zip(TokenTimes._fields, padding_s.sum(axis=0).tolist(), strict=True))
        added["launch_s"] = self._cost.launch_total_s(runs)
        return replace(totals, **{k: getattr(totals, k) + v for k, v in added.items()})

    def run_costs(self, runs: RunTable, durations_s: FloatArray) -> FloatArray:
        """Cost terms of each of `runs`. Shape (runs, fields of `CostTotals`)."""
        padding_s, launches_s = self._cost.run_padding_s(runs), self._cost.run_launches_s(runs)
        costs = self._ledger.run_costs(runs, durations_s - padding_s.sum(axis=1) - launches_s)
        for column, name in enumerate(TokenTimes._fields):
            costs[:, COST_COLUMNS.index(name)] += padding_s[:, column]
        costs[:, COST_COLUMNS.index("launch_s")] += launches_s
        return costs
