"""Steps of graphs of fixed shape: one for the decodes, one for each prefill chunk.

The decode graph is the one of the smallest window that holds the longest context; changing to
another one takes time. Prefills run in graphs of their own, one after the other.
"""

from array import array
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from hwmodels.executors.executor import REPLAY_IN_HOST_S
from hwmodels.executors.fixed_graphs import WHOLE, FixedGraphs, padded_chunk
from hwmodels.executors.kernel_prices import host_s
from hwmodels.executors.step_notes import StepNotes, num_steps_of
from sim.cost_totals import COST_COLUMNS, CostTotals
from sim.executed_cost import ExecutedCost, ExecutorRecords
from sim.interfaces import CostLedger, DecodeBatchView, FloatArray, PrefillChunk, RunTable

if TYPE_CHECKING:
    from sim.instance import Instance


class FixedShapeCost(ExecutedCost):
    """Cost model of steps of fixed shape.

    Args:
        graphs: what graphs take on the GPU.
        windows: tokens that a slot of each decode graph reads, growing.
        submit_s: host time to submit a graph, seconds.
        switch_s: time to change to another decode graph, seconds.
        max_request_tokens: longest prompt plus output; None: a longer context than the last window
            is cut to it.
    """

    uses_prefix_tree = False
    columns: tuple[str, ...] = ("window", "launch_s", "switches")
    """What is noted of every step."""

    def __init__(
        self,
        graphs: FixedGraphs,
        windows: Sequence[int],
        submit_s: float,
        switch_s: float = 0.0,
        max_request_tokens: int | None = None,
    ) -> None:
        self.max_request_tokens = max_request_tokens
        self.graphs = graphs
        self.windows = np.array(windows, dtype=np.int64)
        self._submit_s = submit_s
        self._switch_s = switch_s
        self._decode_s = np.array([graphs.decode(window).gpu_s for window in windows])
        self._notes: StepNotes | None = None
        self._shapes: dict[PrefillChunk, int] = {}
        self._chunk_shapes = array("q")

    def for_instance(self) -> "FixedShapeCost":
        """The same prices, with the smallest graph loaded."""
        own = (self.graphs, self.windows.tolist(), self._submit_s, self._switch_s)
        return FixedShapeCost(*own, self.max_request_tokens)

    def watch(self, instance: "Instance") -> None:
        """Take the instance whose steps are priced; before the first one."""
        self._notes = StepNotes(instance, *self.columns)

    def decode_step_s(self, batch: DecodeBatchView) -> float:
        """Duration of the next decode-only step, seconds."""
        return self._step_s(batch, ())

    def decode_run_s(self, batch: DecodeBatchView, num_steps: int) -> FloatArray:
        """Durations of the next `num_steps` decode-only steps, seconds. Shape (num_steps,)."""
        loaded = self._loaded()
        contexts = batch.max_context_tokens + np.arange(num_steps)
        window = np.minimum(np.searchsorted(self.windows, contexts), len(self.windows) - 1)
        switches = (window != np.concatenate([[loaded], window[:-1]])).astype(np.float64)
        launch_s = self._launch_s(batch.num_requests, 0) + self._switch_s * switches
        if self._notes is not None:
            self._notes.add_run(
                window=window.astype(np.float64), launch_s=launch_s, switches=switches
            )
        durations_s: FloatArray = self._decode_s[window] + launch_s
        return durations_s

    def mixed_step_s(self, batch: DecodeBatchView, chunks: Sequence[PrefillChunk]) -> float:
        """Duration of the next step with decodes and prefill chunks, seconds."""
        return self._step_s(batch, chunks)

    def _step_s(self, batch: DecodeBatchView, chunks: Sequence[PrefillChunk]) -> float:
        window = loaded = self._loaded()
        gpu_s = 0.0
        if batch.num_requests:
            window = self._window_of(batch)
            gpu_s = float(self._decode_s[window])
        gpu_s += self._prefill_s(chunks)
        switches = float(window != loaded)
        launch_s = self._launch_s(batch.num_requests, len(chunks)) + self._switch_s * switches
        if self._notes is not None:
            self._notes.add(window=window, launch_s=launch_s, switches=switches)
        return gpu_s + launch_s

    def _prefill_s(self, chunks: Sequence[PrefillChunk]) -> float:
        """Time of the graphs of chunks, seconds; notes their shapes."""
        seconds = 0.0
        for chunk in chunks:
            shape = padded_chunk(chunk)
            seconds += self.graphs.prefill(shape).gpu_s
            if self._notes is not None:
                self._chunk_shapes.append(self._shapes.setdefault(shape, len(self._shapes)))
        return seconds

    def _window_of(self, batch: DecodeBatchView) -> int:
        place = int(np.searchsorted(self.windows, batch.max_context_tokens))
        return min(place, len(self.windows) - 1)

    def _loaded(self) -> int:
        """Decode graph that the step before left loaded."""
        if self._notes is None:
            return 0
        self._notes.forget_cut_steps()
        return int(self._notes.last("window", 0))

    def _launch_s(self, num_decodes: int, num_chunks: int) -> float:
        """Host time of a step without changes of graphs, seconds."""
        num_graphs = num_chunks + (num_decodes > 0)
        fitted_s = host_s(self.graphs.cost, num_decodes + num_chunks) - REPLAY_IN_HOST_S
        return fitted_s + num_graphs * self._submit_s

    def open_ledger(self) -> CostLedger:
        """An empty ledger for one instance."""
        return FixedShapeLedger(self)

    def records(self, runs: RunTable) -> ExecutorRecords:
        """How often graphs were changed."""
        assert self._notes is not None
        return ExecutorRecords(num_switches=self._notes.of_runs("switches", runs))

    # -- for the ledger --------------------------------------------------------------------------

    def graph_counts(self, runs: RunTable) -> tuple[FloatArray, FloatArray]:
        """Graphs that each of `runs` executed, and cost terms of one of each.

        Shapes (runs, graphs) and (graphs, fields of `CostTotals`).
        """
        assert self._notes is not None
        num_windows = len(self.windows)
        counts = np.zeros((len(runs), num_windows + len(self._shapes)))
        run_of_step = np.repeat(np.arange(len(runs)), runs["num_steps"])
        window = self._notes.of_steps("window", num_steps_of(runs)).astype(np.int64)
        has_decodes = runs["num_decodes"][run_of_step] > 0
        np.add.at(counts, (run_of_step[has_decodes], window[has_decodes]), 1)
        run_of_chunk = np.repeat(np.arange(len(runs)), runs["num_prefills"])
        shapes = np.array(self._chunk_shapes[: len(run_of_chunk)], dtype=np.int64)
        np.add.at(counts, (run_of_chunk, num_windows + shapes), 1)
        prices = [self.graphs.decode(tokens) for tokens in self.windows.tolist()]
        prices += [self.graphs.prefill(shape) for shape in self._shapes]
        return counts, np.array([price.terms for price in prices])

    def added_terms(self, runs: RunTable) -> dict[str, FloatArray]:
        """Cost terms of each of `runs` beside those of its graphs. Shape (runs,) each."""
        assert self._notes is not None
        return {"launch_s": self._notes.of_runs("launch_s", runs)}


class FixedShapeLedger(CostLedger):
    """Ledger of one instance whose steps have fixed shapes: it counts graphs.

    Args:
        cost: prices the steps, and notes them.
    """

    add_decode: Callable[[DecodeBatchView, int], None] | None = None

    def __init__(self, cost: FixedShapeCost) -> None:
        self._cost = cost

    def mixed_step_s(self, batch: DecodeBatchView, chunks: Sequence[PrefillChunk]) -> float:
        """Duration of the next step with prefills, which is entered at once, seconds."""
        return self._cost.mixed_step_s(batch, chunks)

    def totals(self, runs: RunTable, durations_s: FloatArray) -> CostTotals:
        """Sums over `runs`, the first ones of the instance; whole numbers exactly."""
        totals = CostTotals()
        counts, terms = self._cost.graph_counts(runs)
        added = self._cost.added_terms(runs)
        executed = counts.sum(axis=0).astype(np.int64).tolist()
        for column, name in enumerate(COST_COLUMNS):
            each = terms[:, column].tolist()
            if name in WHOLE:
                whole = sum(n * round(x) for n, x in zip(executed, each, strict=True))
                more = int(added[name].astype(np.int64).sum()) if name in added else 0
                setattr(totals, name, whole + more)
            else:
                seconds = sum(n * x for n, x in zip(executed, each, strict=True))
                setattr(totals, name, seconds + float(added[name].sum() if name in added else 0))
        return totals

    def run_costs(self, runs: RunTable, durations_s: FloatArray) -> FloatArray:
        """Cost terms of each of `runs`. Shape (runs, fields of `CostTotals`)."""
        counts, terms = self._cost.graph_counts(runs)
        costs: FloatArray = counts @ terms
        for name, values in self._cost.added_terms(runs).items():
            costs[:, COST_COLUMNS.index(name)] += values
        return costs
