"""Flood throughput of several policies."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from experiments.capacity.points import Bench, Point, Policy
from experiments.sweep.intervals import half_width

KEY = "trace.flood"


@dataclass(slots=True)
class FloodAnswer:
    """What a policy serves when all requests are there at once.

    Attributes:
        policy: the policy.
        rates_per_s: finished requests / makespan, per seed; None where none finished.
        job_keys: keys of the jobs.
        fault: why its jobs cannot run, empty if they can.
    """

    policy: Policy
    rates_per_s: list[float | None] = field(default_factory=list)
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
    return [
        FloodAnswer(
            policy=policy,
            rates_per_s=[one["metrics"]["request_rate_per_s"] for one in answer.documents],
            job_keys=[one["job_key"] for one in answer.documents],
            fault=answer.fault,
        )
        for policy, answer in zip(policies, answers, strict=True)
    ]
