"""Steps that wait for their scheduler: a cost model around the one of the GPU.

Planning a step takes CPU time c. A synchronous engine plans when the step before has ended, so the
step takes c longer. An asynchronous one plans while the step before executes, from its start on, so
the step waits max(0, c - its duration); the first one after an idle time waits c.

A run of n steps is planned once, but an engine plans each of them: they cost the time per running
request. The operations of the policy are those of the first one; a policy that counts is asked in
every step while anything waits (`Instance`), and does nothing while nothing waits.

A wait is part of the step whose plan it is for. It is taken off the durations which the ledger of
the GPU sees, and becomes the cost term `scheduler_s`.
"""

from array import array
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from sim.cost_totals import COST_COLUMNS, CostTotals
from sim.interfaces import (
    BatchPolicy,
    CostLedger,
    CostModel,
    DecodeBatchView,
    FloatArray,
    PrefillChunk,
    RunTable,
)
from sim.scheduler_cost import NOTHING_DONE, SchedulerCost

if TYPE_CHECKING:
    from sim.instance import Instance


class ScheduledCost(CostModel):
    """Cost model of one instance. It keeps what it has priced, so it serves that one only.

    Args:
        cost: what a step costs on the GPU.
        scheduler: what planning costs.
        policy: batch policy of the instance.
        is_overlapped: whether a step is planned while its predecessor executes.
    """

    def __init__(
        self,
        cost: CostModel,
        scheduler: SchedulerCost,
        policy: BatchPolicy,
        is_overlapped: bool,
    ) -> None:
        self.uses_prefix_tree = cost.uses_prefix_tree
        self._cost = cost
        self._scheduler = scheduler
        self._policy = policy
        self._is_overlapped = is_overlapped
        self._counted = NOTHING_DONE
        self._instance: Instance | None = None
        # Per step of the instance: CPU time, what of it the step waits for, time on the GPU.
        self._cpu_s, self._wait_s, self._gpu_s = array("d"), array("d"), array("d")

    def watch(self, instance: "Instance") -> None:
        """Take the instance whose steps are priced; before the first one."""
        self._instance = instance

    def decode_step_s(self, batch: DecodeBatchView) -> float:
        """Duration of the next step if it only decodes `batch`, seconds."""
        return self.step_s(self._cost.decode_step_s(batch), batch.num_requests)

    def decode_run_s(self, batch: DecodeBatchView, num_steps: int) -> FloatArray:
        """Durations of the next `num_steps` decode-only steps, seconds. Shape (num_steps,)."""
        gpu_s = self._cost.decode_run_s(batch, num_steps)
        first = self._forget_cut_steps()
        cpu_s = np.full(num_steps, self._scheduler.request_s * batch.num_requests)
        cpu_s[0] += self._policy_s()
        wait_s = cpu_s
        if self._is_overlapped:
            hidden_s = np.append(self._hidden_s(first), gpu_s[:-1])
            wait_s = np.maximum(cpu_s - hidden_s, 0.0)
        for noted, values in ((self._cpu_s, cpu_s), (self._wait_s, wait_s), (self._gpu_s, gpu_s)):
            noted.frombytes(np.ascontiguousarray(values).tobytes())
        total_s: FloatArray = gpu_s + wait_s
        return total_s

    def mixed_step_s(self, batch: DecodeBatchView, chunks: Sequence[PrefillChunk]) -> float:
        """Duration of the next step if it decodes `batch` and prefills `chunks`, seconds."""
        gpu_s = self._cost.mixed_step_s(batch, chunks)
        return self.step_s(gpu_s, batch.num_requests + len(chunks))

    def open_ledger(self) -> CostLedger:
        """The ledger of the GPU, with the waits beside it."""
        return ScheduledLedger(self._cost.open_ledger(), self)

    # -- one step --------------------------------------------------------------------------------

    def step_s(self, gpu_s: float, num_requests: int) -> float:
        """Duration of the next step from its time on the GPU, seconds; notes its parts."""
        first = self._forget_cut_steps()
        wait_s = cpu_s = self._scheduler.request_s * num_requests + self._policy_s()
        if self._is_overlapped:
            wait_s = max(cpu_s - self._hidden_s(first), 0.0)
        self._cpu_s.append(cpu_s)
        self._wait_s.append(wait_s)
        self._gpu_s.append(gpu_s)
        return gpu_s + wait_s

    def _policy_s(self) -> float:
        """CPU time of what the policy has done since it was last asked for, seconds."""
        operations = self._policy.operations
        if operations is None:
            return 0.0
        before, self._counted = self._counted, operations.values
        return self._scheduler.policy_s(self._counted, before)

    def _forget_cut_steps(self) -> int:
        """Drop steps that were priced and never executed; returns the number of the next one."""
        assert self._instance is not None
        step = self._instance.batch.step
        for noted in (self._cpu_s, self._wait_s, self._gpu_s):
            del noted[step:]
        return step

    def _hidden_s(self, step: int) -> float:
        """CPU time that the step before `step` (from 0) hides, seconds."""
        assert self._instance is not None
        return self._gpu_s[step - 1] if self._instance.is_step_in_flight else 0.0

    # -- records ---------------------------------------------------------------------------------

    def cpu_total_s(self, num_steps: int) -> float:
        """CPU time of the first `num_steps` steps, seconds."""
        return float(np.array(self._cpu_s[:num_steps]).sum())

    def wait_total_s(self, num_steps: int) -> float:
        """What the first `num_steps` steps waited, seconds."""
        return float(np.array(self._wait_s[:num_steps]).sum())

    def run_waits_s(self, runs: RunTable) -> FloatArray:
        """What the steps of each of `runs`, the first ones, waited. Shape (runs,)."""
        if not len(runs):
            return np.zeros(0)
        waits = np.array(self._wait_s[: num_steps_of(runs)])
        waits_s: FloatArray = np.add.reduceat(waits, runs["first_step"])
        return waits_s


class ScheduledLedger(CostLedger):
    """Ledger of one instance whose steps wait for their scheduler.

    Args:
        ledger: what is noted of the GPU.
        cost: prices the steps.
    """

    add_decode: Callable[[DecodeBatchView, int], None] | None

    def __init__(self, ledger: CostLedger, cost: ScheduledCost) -> None:
        self._ledger = ledger
        self._cost = cost
        self.add_decode = ledger.add_decode

    def mixed_step_s(self, batch: DecodeBatchView, chunks: Sequence[PrefillChunk]) -> float:
        """Duration of the next step with prefills, which is entered at once, seconds."""
        gpu_s = self._ledger.mixed_step_s(batch, chunks)
        return self._cost.step_s(gpu_s, batch.num_requests + len(chunks))

    def totals(self, runs: RunTable, durations_s: FloatArray) -> CostTotals:
        """Sums over `runs`, the first ones of the instance."""
        totals = self._ledger.totals(runs, durations_s - self._cost.run_waits_s(runs))
        return replace(totals, scheduler_s=self._cost.wait_total_s(num_steps_of(runs)))

    def run_costs(self, runs: RunTable, durations_s: FloatArray) -> FloatArray:
        """Cost terms of each of `runs`. Shape (runs, fields of `CostTotals`)."""
        waits_s = self._cost.run_waits_s(runs)
        costs = self._ledger.run_costs(runs, durations_s - waits_s)
        costs[:, COST_COLUMNS.index("scheduler_s")] = waits_s
        return costs


def num_steps_of(runs: RunTable) -> int:
    """Steps in the first runs of an instance."""
    return int(runs[-1]["first_step"] + runs[-1]["num_steps"]) if len(runs) else 0
