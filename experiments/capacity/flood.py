"""Flood throughput: what a cluster serves per second when all requests are there at once."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from experiments.capacity.steady import steady_rate
from experiments.deployment import Deployment
from experiments.progress import Progress
from experiments.schema.job import JobConfig
from experiments.sweep.replication import at_once, load_workload
from sim.front_end_records import user_view
from sim.simulation import simulate
from sim.workload import Workload


@dataclass(frozen=True, slots=True)
class Flood:
    """A trace and what a cluster makes of it.

    Attributes:
        flood_rate_per_s: requests that finish per second while others wait, all arrivals at 0;
            None if none finished.
        trace_rate_per_s: requests / span of the arrivals of the trace; None if it has no rate.
        does_drain_dominate: too few finish while others wait, so that the flood rate is finished
            requests / makespan.
    """

    flood_rate_per_s: float | None
    trace_rate_per_s: float | None
    does_drain_dominate: bool


def flood_of(
    job: JobConfig,
    deployment: Deployment,
    show_progress: Callable[[int, str], AbstractContextManager[Progress | None]],
) -> Flood:
    """Simulate all requests of a job at time 0.

    Args:
        job: the configuration, with `flood`.
        deployment: what serves; not used before.
        show_progress: makes the progress callback from the number of requests and a label.

    Raises:
        KeyboardInterrupt: Ctrl-C came.
        FlocksimError: the trace cannot be loaded.
    """
    workload = load_workload(replace(job, flood=False))
    with show_progress(workload.num_requests, "flood") as progress:
        result = simulate(at_once(workload), deployment.spec, progress=progress)
    if result.is_interrupted:
        raise KeyboardInterrupt
    steady = steady_rate(result.requests.admitted_s, user_view(result).requests.finish_s)
    return Flood(steady.rate_per_s, rate_of(workload), steady.does_drain_dominate)


def rate_of(workload: Workload) -> float | None:
    """Requests / span of their arrivals, per second; None if that does not say how fast they come.

    It does not where all come at once, or some when others end.
    """
    span_s = float(workload.arrival_s[-1] - workload.arrival_s[0])
    if workload.is_closed_loop or span_s <= 0:
        return None
    return workload.num_requests / span_s
