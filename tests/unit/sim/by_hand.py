"""Results written by hand, without an engine."""

from collections.abc import Sequence

import numpy as np

from sim.cost_totals import CostTotals
from sim.recorder import COMPLETED, RUN_COLUMNS, UNFINISHED
from sim.records import InstanceRecords, RequestRecords, SimulationResult
from sim.workload import Workload


def result_of(
    arrivals: Sequence[float],
    finishes: Sequence[float],
    instance: Sequence[int] | None = None,
    num_instances: int = 1,
    end_s: float | None = None,
) -> SimulationResult:
    """One-token requests that arrive and finish at given times; NaN is unfinished."""
    n = len(arrivals)
    finish_s = np.array(finishes, dtype=np.float64)
    is_done = ~np.isnan(finish_s)
    workload = Workload.without_sharing(
        np.array(arrivals, dtype=np.float64), np.ones(n, np.int64), np.ones(n, np.int64)
    )
    requests = RequestRecords(
        status=np.where(is_done, COMPLETED, UNFINISHED).astype(np.int8),
        reject_reason=np.zeros(n, np.int8),
        instance=np.zeros(n, np.int64) if instance is None else np.array(instance, np.int64),
        cached_tokens=np.zeros(n, np.int64),
        num_preemptions=np.zeros(n, np.int64),
        arrival_s=workload.arrival_s,
        admitted_s=workload.arrival_s.copy(),
        first_token_s=finish_s.copy(),
        finish_s=finish_s,
        first_step=is_done.astype(np.int64),
        last_step=is_done.astype(np.int64),
        more_intervals={},
    )
    nothing = InstanceRecords(
        step_end_s=np.empty(0),
        runs=np.empty((0, len(RUN_COLUMNS)), np.int64),
        busy_from_step=np.empty(0, np.int64),
        busy_from_s=np.empty(0),
        costs=CostTotals(),
    )
    last = max([*arrivals, *finish_s[is_done].tolist()], default=0.0)
    return SimulationResult(
        workload=workload,
        requests=requests,
        instances=(nothing,) * num_instances,
        num_gpu_blocks=101,
        block_tokens=4,
        end_s=last if end_s is None else end_s,
        is_interrupted=False,
    )
