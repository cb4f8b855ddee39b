"""`simulate()`: run a workload through a cluster and return the records."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from sim.arrivals import requests_of
from sim.checked_instance import CheckedInstance
from sim.closed_loop import ClosedLoop, EndLog
from sim.cluster import Cluster
from sim.cluster_spec import ClusterSpec
from sim.cost_totals import CostTotals
from sim.disaggregation.cluster import DisaggregatedCluster
from sim.disaggregation.invariants import check_handover
from sim.disaggregation.outcome import handover_records
from sim.disaggregation.records import HandoverLog, HandoverRecords
from sim.errors import InvalidDecisionError
from sim.front_end import entry_times
from sim.front_end_records import front_end_records
from sim.garbage import rare_collections
from sim.instance import Instance
from sim.interrupts import stop_on_interrupt
from sim.invariants import check_littles_law, check_result
from sim.recorder import COMPLETED, UNFINISHED, RequestLog
from sim.records import FloatArray, InstanceRecords, RequestRecords, SimulationResult
from sim.request import DECODING, Request
from sim.scheduler_cost_steps import ScheduledCost
from sim.step_clock import StepClock
from sim.tiers.records import tier_records
from sim.workload import Workload

Progress = Callable[[float, int], None]
"""Called with (simulated time in seconds, requests done)."""


def simulate(
    workload: Workload,
    spec: ClusterSpec,
    *,
    horizon_s: float | None = None,
    progress: Progress | None = None,
) -> SimulationResult:
    """Simulate `workload` on the cluster `spec` until everything is served.

    The same input gives the same records, byte for byte.

    Args:
        workload: requests in order of arrival.
        spec: the cluster and its policies.
        horizon_s: stop at this simulated time, seconds; what runs then is unfinished.
        progress: told of the progress every few hundred finished requests.

    Returns:
        The records. On Ctrl-C those of what was complete by then (`is_interrupted`).

    Raises:
        ConfigError: the spec contradicts itself.
        InvalidDecisionError: a policy returned something impossible.
        InvariantError: with `spec.check`, the simulator broke one of its invariants.
        KeyboardInterrupt: Ctrl-C came again, because an event did not end.
    """
    workload.validate()
    clock = StepClock()
    report = None if progress is None else lambda done: progress(clock.now, done)
    cluster, arrival_s, entry_s = _open_cluster(workload, spec, clock, report)
    log = cluster.log
    is_interrupted = False
    try:
        with rare_collections(), stop_on_interrupt(clock):
            clock.run_calls(None if horizon_s is None else float(horizon_s))
    except KeyboardInterrupt:
        if clock.is_torn:
            raise
        is_interrupted = True
    if not is_interrupted and horizon_s is None:
        _refuse_abandoned(cluster)
    end_s = clock.now
    ended = [instance.stop(end_s) for instance in cluster.instances]
    if log.num_done < workload.num_requests:
        _note_unfinished(cluster, log, ended)
    handover = None
    if isinstance(cluster, DisaggregatedCluster):
        handover = handover_records(cluster, end_s)
    result = SimulationResult(
        workload=workload,
        requests=_request_records(log, cluster.instances, arrival_s, end_s, handover),
        instances=tuple(
            _instance_records(instance, num_steps, spec.record_costs)
            for instance, num_steps in zip(cluster.instances, ended, strict=True)
        ),
        num_gpu_blocks=spec.num_gpu_blocks,
        block_tokens=spec.block_tokens,
        end_s=end_s,
        is_interrupted=is_interrupted,
        handover=handover,
        decisions=None if cluster.decisions is None else cluster.decisions.records(),
    )
    if cluster.executed:
        done = zip(cluster.executed, result.instances, strict=True)
        result = replace(result, executor=tuple(one.records(i.runs) for one, i in done))
    if cluster.tiers is not None:
        tiers = tier_records(cluster.tiers, workload.num_requests, end_s)
        result = replace(result, tiers=tiers)
    if spec.front_end is not None:
        records = front_end_records(
            spec.front_end,
            result.requests,
            result.instances,
            workload.prompt_tokens,
            entry_s,
            cluster.hashers,
        )
        result = replace(result, front_end=records)
    if spec.check:
        _check(result, spec, cluster, is_whole=not is_interrupted and horizon_s is None)
    return result


def _open_cluster(
    workload: Workload, spec: ClusterSpec, clock: StepClock, report: Callable[[int], None] | None
) -> tuple[Cluster, FloatArray, FloatArray]:
    """The cluster with its arrivals to come, and the columns where their times are or will be.

    The second column has the times at the router, which differ from the arrivals behind a front
    end.
    """
    if workload.is_closed_loop:
        end_log = EndLog(workload.num_requests, report)
        cluster = _cluster(spec, clock, None, workload, end_log)
        loop = ClosedLoop(workload, clock, cluster, end_log)
        return cluster, loop.arrival_s, loop.entry_s
    log = RequestLog(workload.num_requests, report)
    arrival_s = entry_s = workload.arrival_s
    if spec.front_end is not None:
        spec.validate()
        entry_s = entry_times(workload, spec.front_end)
        workload = replace(workload, arrival_s=entry_s)
    requests = requests_of(workload, spec.max_model_len)
    return _cluster(spec, clock, requests, workload, log), arrival_s, entry_s


def _cluster(
    spec: ClusterSpec,
    clock: StepClock,
    requests: Iterator[Request] | None,
    workload: Workload,
    log: RequestLog,
) -> Cluster:
    if spec.disaggregation is None:
        return Cluster(spec, clock, requests, workload.tree, log)
    handover_log = HandoverLog(workload.num_requests)
    return DisaggregatedCluster(spec, clock, requests, workload.tree, log, handover_log)


def _check(
    result: SimulationResult, spec: ClusterSpec, cluster: Cluster, *, is_whole: bool
) -> None:
    check_result(
        result,
        max_num_batched_tokens=[i.rules.max_num_batched_tokens for i in cluster.instances],
        max_model_len=spec.max_model_len,
        admits_in_arrival_order=spec.batching(0).admits_in_arrival_order,
        is_whole=is_whole,
    )
    checked = [i for i in cluster.instances if isinstance(i, CheckedInstance)]
    request_seconds = sum(i.request_seconds for i in checked)
    if isinstance(cluster, DisaggregatedCluster):
        request_seconds += cluster.handover.request_seconds
        check_handover(result, cluster, is_whole=is_whole)
    check_littles_law(result, request_seconds)


def _refuse_abandoned(cluster: Cluster) -> None:
    """A policy must not leave requests waiting for ever on an instance that does nothing."""
    if isinstance(cluster, DisaggregatedCluster):
        cluster.handover.refuse_abandoned()
    for instance in cluster.instances:
        if instance.is_idle and instance.waiting:
            raise InvalidDecisionError(
                type(instance.policy).__name__,
                f"left {len(instance.waiting)} requests waiting on idle instance "
                f"{instance.instance_id}",
            )


def _note_unfinished(cluster: Cluster, log: RequestLog, ended: list[int]) -> None:
    """Write the rows of requests still in the system, with the tokens of the steps that ended."""
    for instance, num_steps in zip(cluster.instances, ended, strict=True):
        live: dict[int, Request] = {**instance.waiting, **instance.running}
        live.update((r.request_id, r) for r in instance.zombies)
        for request in live.values():
            if request.phase == DECODING:
                request.intervals += (request.decode_start_step, request.finish_step)
            request.intervals = _intervals_until(request.intervals, num_steps)
            log.close(request, instance.instance_id, UNFINISHED)
    if isinstance(cluster, DisaggregatedCluster):
        for moving in cluster.handover.moving.values():
            if moving.is_prefilled:
                log.close(moving.request, max(moving.instance_id, moving.source_id), UNFINISHED)


def _intervals_until(intervals: tuple[int, ...], ended: int) -> tuple[int, ...]:
    """Pairs (first, last) cut after step `ended`."""
    kept: list[int] = []
    for k in range(0, len(intervals), 2):
        if intervals[k] <= ended:
            kept += (intervals[k], min(intervals[k + 1], ended))
    return tuple(kept)


def _request_records(
    log: RequestLog,
    instances: list[Instance],
    arrival_s: FloatArray,
    end_s: float,
    handover: HandoverRecords | None,
) -> RequestRecords:
    table = log.table()
    instance = table["instance"].astype(np.int64)
    # One that has come, but is still in the front end, has an arrival and no instance.
    is_absent = (table["status"] == UNFINISHED) & (instance < 0) & ~(arrival_s < end_s)
    first_step, last_step = table["first_step"].copy(), table["last_step"].copy()
    admitted_s = table["admitted_s"].copy()
    admitted_s[admitted_s < 0] = np.nan
    first_token_s = _times_of(first_step, instance, instances)
    if handover is not None:
        moved = handover.is_handed_over
        at_prefill = _times_of(handover.prefill_step, handover.prefill_instance, instances)
        first_token_s[moved] = at_prefill[moved]
    finish_s = _times_of(last_step, instance, instances)
    finish_s[table["status"] != COMPLETED] = np.nan
    return RequestRecords(
        status=table["status"].copy(),
        reject_reason=table["reject_reason"].copy(),
        instance=instance,
        cached_tokens=table["cached_tokens"].astype(np.int64),
        num_preemptions=table["num_preemptions"].astype(np.int64),
        arrival_s=np.where(is_absent, np.nan, arrival_s) if is_absent.any() else arrival_s,
        admitted_s=admitted_s,
        first_token_s=first_token_s,
        finish_s=finish_s,
        first_step=first_step,
        last_step=last_step,
        more_intervals=log.more_intervals,
    )


def _times_of(
    steps: npt.NDArray[np.int64], instance: npt.NDArray[np.int64], instances: list[Instance]
) -> FloatArray:
    """End times of steps (from 1) of the instances of requests, NaN for step 0."""
    times = np.full(len(steps), np.nan)
    for index, server in enumerate(instances):
        rows = np.flatnonzero((instance == index) & (steps > 0))
        times[rows] = server.step_ends.times[steps[rows] - 1]
    return times


def _instance_records(instance: Instance, num_steps: int, with_costs: bool) -> InstanceRecords:
    """Records of an instance up to its step `num_steps`, the last one that ended."""
    rows = instance.run_log.table()
    rows = rows[: np.searchsorted(rows["first_step"], num_steps)]
    if len(rows) and rows[-1]["first_step"] + rows[-1]["num_steps"] > num_steps:
        rows = rows.copy()
        rows[-1]["num_steps"] = num_steps - rows[-1]["first_step"]
    records = InstanceRecords(
        step_end_s=instance.step_ends.times[:num_steps],
        runs=rows,
        busy_from_step=np.frombuffer(instance.run_log.busy_from_step, dtype=np.int64),
        busy_from_s=np.frombuffer(instance.run_log.busy_from_s, dtype=np.float64),
        costs=CostTotals(),
    )
    ledger, durations_s, cost = instance.ledger, records.run_durations_s, instance.cost
    return replace(
        records,
        costs=ledger.totals(rows, durations_s),
        run_costs=ledger.run_costs(rows, durations_s) if with_costs else None,
        scheduler_cpu_s=cost.cpu_total_s(num_steps) if isinstance(cost, ScheduledCost) else None,
    )
