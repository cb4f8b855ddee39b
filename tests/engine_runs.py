"""Runs of the engine for tests: tiny cost models, one-call clusters, tokens step by step."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from policies.batching.fcfs import FCFS
from policies.routing.least_requests import LeastRequests
from sim.cluster_spec import ClusterSpec
from sim.cost_totals import CostTotals
from sim.interfaces import (
    CostLedger,
    CostModel,
    DecodeBatchView,
    FloatArray,
    PrefillChunk,
    RunTable,
)
from sim.records import SimulationResult
from sim.simulation import simulate
from sim.vllm_v1 import VllmV1
from sim.workload import Workload


class CountingLedger(CostLedger):
    """Counts steps in `launch_s` and decoded tokens in `hbm_bytes`."""

    def __init__(self, cost: "ConstantCost") -> None:
        self._cost = cost
        self._totals = CostTotals()

    def add_decode(self, batch: DecodeBatchView, num_steps: int) -> None:
        self._totals.launch_s += num_steps
        self._totals.hbm_bytes += num_steps * batch.num_requests

    def mixed_step_s(self, batch: DecodeBatchView, chunks: Sequence[PrefillChunk]) -> float:
        self._totals.launch_s += 1
        self._totals.hbm_bytes += batch.num_requests
        return self._cost.mixed_step_s(batch, chunks)

    def totals(self, runs: RunTable, durations_s: FloatArray) -> CostTotals:
        return self._totals

    def run_costs(self, runs: RunTable, durations_s: FloatArray) -> FloatArray:
        raise AssertionError("nobody asked for these")


class ConstantCost(CostModel):
    """Every step takes `step_s` seconds."""

    uses_prefix_tree = False

    def __init__(self, step_s: float = 1.0) -> None:
        self.step_s = step_s

    def decode_step_s(self, batch: DecodeBatchView) -> float:
        return self.step_s

    def decode_run_s(self, batch: DecodeBatchView, num_steps: int) -> FloatArray:
        return np.full(num_steps, self.step_s)

    def mixed_step_s(self, batch: DecodeBatchView, chunks: Sequence[PrefillChunk]) -> float:
        return self.step_s

    def open_ledger(self) -> CostLedger:
        return CountingLedger(self)


class LinearCost(ConstantCost):
    """Steps cost time per request, per context token and per prefill token and prefix."""

    def decode_step_s(self, batch: DecodeBatchView) -> float:
        return batch.context_tokens * 1e-5 + (0.004 + batch.num_requests * 3e-4)

    def decode_run_s(self, batch: DecodeBatchView, num_steps: int) -> FloatArray:
        contexts = batch.context_tokens + batch.num_requests * np.arange(num_steps)
        return np.asarray(contexts * 1e-5 + (0.004 + batch.num_requests * 3e-4))

    def mixed_step_s(self, batch: DecodeBatchView, chunks: Sequence[PrefillChunk]) -> float:
        prefill = sum(c.new_tokens * (1e-4 + 1e-8 * c.prefix_tokens) for c in chunks)
        return self.decode_step_s(batch) + prefill


def cluster_of(**options: Any) -> ClusterSpec:
    """One checked FCFS instance under vLLM v1 rules; every option can be overridden."""
    seats, budget = options.pop("seats", 8), options.pop("budget", 64)
    rules = VllmV1(seats, budget, options.pop("is_async", False))
    spec: dict[str, Any] = {
        "num_instances": 1,
        "num_gpu_blocks": options.pop("usable_blocks", 100) + 1,
        "rules": rules,
        "cost": ConstantCost(),
        "batching": lambda _index: FCFS(),
        "router": LeastRequests(),
        "block_tokens": 4,
        "check": True,
    }
    return ClusterSpec(**{**spec, **options})


def run_engine(
    workload: Workload, horizon_s: float | None = None, **options: Any
) -> SimulationResult:
    """Simulate `workload` on `cluster_of(**options)`."""
    return simulate(workload, cluster_of(**options), horizon_s=horizon_s)


def token_steps(result: SimulationResult) -> list[list[int]]:
    """Steps (of its instance, from 1) in which each request got a token."""
    requests = result.requests
    steps: list[list[int]] = []
    for row in range(len(requests.status)):
        first, last = int(requests.first_step[row]), int(requests.last_step[row])
        pairs = requests.more_intervals.get(row, (first, last) if first else ())
        steps.append(
            [s for k in range(0, len(pairs), 2) for s in range(pairs[k], pairs[k + 1] + 1)]
        )
    return steps
