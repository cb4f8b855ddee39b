"""Flood throughput of several policies."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from experiments.capacity.points import Answer, Bench, Point, Policy
from experiments.capacity.steady import SteadyRate, steady_rate_of
from experiments.results.load import ResultError, load_run
from experiments.results.metrics_frame import by_replication
from experiments.results.warmup import counted
from experiments.sweep.intervals import half_width

KEY = "trace.flood"


@dataclass(slots=True)
class FloodAnswer:
    """What a policy serves when all requests are there at once.

    Attributes:
        policy: the policy.
        rates_per_s: requests that finish per second while others wait, per seed; None where
            none finished.
        does_drain_dominate: whether a seed's rate is finished requests / makespan instead.
        job_keys: keys of the jobs.
        fault: why its jobs cannot run, empty if they can.
    """

    policy: Policy
    rates_per_s: list[float | None] = field(default_factory=list)
    does_drain_dominate: list[bool] = field(default_factory=list)
    job_keys: list[str] = field(default_factory=list)
    fault: str = ""

    @property
    def mean_per_s(self) -> float | None:
        """Mean over the seeds, None where one of them finished nothing."""
        known = [rate for rate in self.rates_per_s if rate is not None]
        return float(sum(known)) / len(known) if known and len(known) == self.num_runs else None

    @property
    def half_width_per_s(self) -> float | None:
        """Half the 95 % interval of that mean, None for a single seed."""
        known = [rate for rate in self.rates_per_s if rate is not None]
        return half_width(known) if len(known) == self.num_runs else None

    @property
    def num_runs(self) -> int:
        """Jobs."""
        return len(self.rates_per_s)


def measure_floods(bench: Bench, policies: Sequence[Policy]) -> list[FloodAnswer]:
    """Simulate all policies with all requests at time 0.

    Raises:
        KeyboardInterrupt: Ctrl-C came; what is complete stays.
    """
    answers = bench.ask([Point(policy, KEY, True) for policy in policies])
    return [_answer(policy, answer) for policy, answer in zip(policies, answers, strict=True)]


def _answer(policy: Policy, answer: Answer) -> FloodAnswer:
    if answer.fault:
        return FloodAnswer(policy=policy, fault=answer.fault)
    floods = [_flood_in(directory) for directory in answer.directories]
    return FloodAnswer(
        policy=policy,
        rates_per_s=[one.rate_per_s for one in floods],
        does_drain_dominate=[one.does_drain_dominate for one in floods],
        job_keys=[one["job_key"] for one in answer.documents],
    )


def _flood_in(directory: Path) -> SteadyRate:
    """Rate of a job, mean over its replications; None if one of them finished nothing."""
    run = load_run(directory)
    names = ["request_id", "arrival_s", "admitted_s", "finish_s", "replication"]
    table = run.read_table("requests.parquet", names)
    if table is None:
        raise ResultError(f"{directory}: has no requests.parquet")
    rows = by_replication(counted(table, run.config))
    found = [steady_rate_of(one) for _, one in rows]
    known = [one.rate_per_s for one in found if one.rate_per_s is not None]
    mean_per_s = float(sum(known)) / len(known) if known and len(known) == len(found) else None
    return SteadyRate(mean_per_s, any(one.does_drain_dominate for one in found))
