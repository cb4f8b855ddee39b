"""Runs with tiers behind the prefix cache for tests: one call, few defaults."""

from collections.abc import Iterable
from typing import Any

from sim.arrivals import requests_of
from sim.cluster import Cluster
from sim.cluster_spec import ClusterSpec
from sim.disaggregation.spec import LinkSpec
from sim.recorder import RequestLog
from sim.records import SimulationResult
from sim.simulation import simulate
from sim.step_clock import StepClock
from sim.tiers.records import TierRecords, tier_records
from sim.tiers.spec import TierSpec
from sim.workload import Workload
from tests.engine_runs import cluster_of

TIER_OPTIONS = frozenset(TierSpec.__dataclass_fields__) | {"bytes_per_s", "latency_s"}


def tiers_of(**options: Any) -> TierSpec:
    """Host memory of 100 blocks of one byte; a link that moves 1,000 of them per second."""
    link = LinkSpec(
        latency_s=options.pop("latency_s", 0.0), bytes_per_s=options.pop("bytes_per_s", 1000.0)
    )
    spec: dict[str, Any] = {"host_blocks": 100, "block_bytes": 1, "host_link": link}
    return TierSpec(**{**spec, **options})


def tiered_cluster_of(**options: Any) -> ClusterSpec:
    """`cluster_of` with tiers; options of both."""
    of_tiers = {name: options.pop(name) for name in list(options) if name in TIER_OPTIONS}
    return cluster_of(tiers=tiers_of(**of_tiers), **options)


def run_tiered(workload: Workload, **options: Any) -> SimulationResult:
    """Simulate `workload` on `tiered_cluster_of(**options)`."""
    return simulate(workload, tiered_cluster_of(**options))


def run_to_tiers(workload: Workload, **options: Any) -> tuple[Cluster, TierRecords]:
    """The cluster at the end of an open loop, and what its tiers did."""
    spec, clock = tiered_cluster_of(**options), StepClock()
    log = RequestLog(workload.num_requests)
    cluster = Cluster(spec, clock, requests_of(workload, None), workload.tree, log)
    clock.run_calls()
    _stop(cluster.instances, clock.now)
    assert cluster.tiers is not None
    return cluster, tier_records(cluster.tiers, workload.num_requests, clock.now)


def _stop(instances: Iterable[Any], end_s: float) -> None:
    for instance in instances:
        instance.stop(end_s)
