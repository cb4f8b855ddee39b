"""A fixed number of users: the engine as a closed queueing network, against closed forms.

One seat per instance and exponential services make product-form networks: users who think are an
infinite-server station, whose distribution does not matter (Baskett, Chandy, Muntz, Palacios 1975).
"""

from dataclasses import dataclass, replace
from math import perm

import numpy as np
import pytest

from policies.batching.fcfs import FCFS
from policies.routing.random_instance import Random
from policies.routing.round_robin import RoundRobin
from sim.cluster_spec import ClusterSpec
from sim.interfaces import FloatArray, Router
from sim.records import SimulationResult
from sim.rng import stream
from sim.simulation import simulate
from sim.system_size import mean_number_in_system
from sim.vllm_v1 import VllmV1
from sim.workload import Workload
from tests.anchors.queues import (
    NUM_BLOCKS,
    TOLERANCE_STANDARD_ERRORS,
    TimePerPromptToken,
    exponential_prompts,
    standard_error,
)

SERVICE_S = 1.0


def run_users(
    num_users: int, think_s: FloatArray, router: Router | None = None, num_instances: int = 1
) -> SimulationResult:
    """As many requests as think times, exponential service of mean `SERVICE_S`."""
    n = len(think_s)
    prompts = exponential_prompts(SERVICE_S, n, seed=7)
    workload = Workload.without_sharing(np.zeros(n), prompts, np.ones_like(prompts))
    spec = ClusterSpec(
        num_instances=num_instances,
        num_gpu_blocks=NUM_BLOCKS,
        rules=VllmV1(1, 1 << 40),
        cost=TimePerPromptToken(),
        batching=lambda _: FCFS(),
        router=RoundRobin() if router is None else router,
    )
    result = simulate(replace(workload, delay_s=think_s, concurrency=num_users), spec)
    assert result.num_finished == n
    return result


@dataclass(frozen=True)
class Repairman:
    """M/M/1//N: N users, each thinking for `think_s` on average, share one server.

    p_n = p_0 N! / (N - n)! (service / think)^n of n users at the server.
    """

    num_users: int
    think_s: float

    @property
    def probabilities(self) -> list[float]:
        """Probability of n = 0, 1, ..., N users at the server."""
        ratio = SERVICE_S / self.think_s
        weights = [perm(self.num_users, n) * ratio**n for n in range(self.num_users + 1)]
        return [weight / sum(weights) for weight in weights]

    @property
    def rate_per_s(self) -> float:
        """Requests per second: the server works unless nobody is there."""
        return (1 - self.probabilities[0]) / SERVICE_S

    @property
    def mean_number(self) -> float:
        """Users at the server."""
        return sum(n * p for n, p in enumerate(self.probabilities))


def test_two_users_by_hand() -> None:
    # Weights 1, 2 / 2, 2 / 4 for a think time of two services.
    theory = Repairman(2, 2.0)
    assert theory.probabilities == pytest.approx([0.4, 0.4, 0.2])
    assert (theory.rate_per_s, theory.mean_number) == pytest.approx((0.6, 0.8))


def think_times(kind: str, mean_s: float, size: int) -> FloatArray:
    if kind == "constant":
        return np.full(size, mean_s)
    return stream(7, "anchors.think").exponential(mean_s, size)


@pytest.mark.parametrize("kind", ["exponential", "constant"])
@pytest.mark.parametrize(("num_users", "think_s"), [(5, 4.0), (12, 10.0)])
def test_users_who_think_are_the_machines_of_one_repairman(
    kind: str, num_users: int, think_s: float
) -> None:
    n = 40_000
    theory = Repairman(num_users, think_s)
    result = run_users(num_users, think_times(kind, think_s, n), num_instances=1)
    requests, warm = result.requests, n // 20
    gaps_s = np.diff(requests.finish_s)[warm:]
    response_s = (requests.finish_s - requests.arrival_s)[np.argsort(requests.arrival_s)][warm:]
    gap_error_s, response_error_s = standard_error(gaps_s), standard_error(response_s)
    mean_gap_s = 1 / theory.rate_per_s
    mean_response_s = theory.mean_number / theory.rate_per_s
    assert gap_error_s < 0.01 * mean_gap_s
    assert response_error_s < 0.03 * mean_response_s
    limit = TOLERANCE_STANDARD_ERRORS
    assert gaps_s.mean() == pytest.approx(mean_gap_s, abs=limit * gap_error_s)
    assert response_s.mean() == pytest.approx(mean_response_s, abs=limit * response_error_s)


@pytest.mark.parametrize(("num_users", "think_s"), [(5, 4.0), (12, 10.0), (3, 0.0)])
def test_users_are_the_throughput_times_response_and_think_time(
    num_users: int, think_s: float
) -> None:
    # N = X (R + Z), but for the first think times, which nobody thinks, and the end of the run.
    n = 40_000
    thinking_s = think_times("exponential", think_s, n) if think_s else np.zeros(n)
    result = run_users(num_users, thinking_s)
    requests = result.requests
    makespan_s = requests.finish_s.max()
    rate_per_s = n / makespan_s
    response_s = float((requests.finish_s - requests.arrival_s).mean())
    law = rate_per_s * (response_s + float(thinking_s[num_users:].mean()))
    assert law == pytest.approx(num_users, rel=1e-3)
    mean_number = mean_number_in_system(result) / makespan_s
    assert mean_number == pytest.approx(rate_per_s * response_s, rel=1e-9)


@pytest.mark.parametrize(("num_users", "num_instances"), [(6, 3), (2, 2)])
def test_users_who_are_spread_at_random_keep_each_instance_busy_as_gordon_and_newell_say(
    num_users: int, num_instances: int
) -> None:
    # Every way of spreading N users over M equal stations is equally likely: N / (N + M - 1).
    n = 40_000
    result = run_users(num_users, np.zeros(n), Random(), num_instances)
    gaps_s = np.diff(np.sort(result.requests.finish_s))[n // 20 :]
    rate_per_s = num_instances * num_users / (num_users + num_instances - 1) / SERVICE_S
    error_s = standard_error(gaps_s)
    assert error_s < 0.01 / rate_per_s
    limit_s = TOLERANCE_STANDARD_ERRORS * error_s
    assert gaps_s.mean() == pytest.approx(1 / rate_per_s, abs=limit_s)


def test_users_who_never_think_wait_for_each_other() -> None:
    # One seat, one second each: every answer takes as long as there are users.
    n, num_users = 60, 5
    ones = np.ones(n, np.int64)
    workload = Workload.without_sharing(np.zeros(n), 1_000_000 * ones, ones)
    spec = ClusterSpec(
        num_instances=1,
        num_gpu_blocks=NUM_BLOCKS,
        rules=VllmV1(1, 1 << 40),
        cost=TimePerPromptToken(),
        batching=lambda _: FCFS(),
        router=RoundRobin(),
        check=True,
    )
    requests = simulate(replace(workload, concurrency=num_users), spec).requests
    response_s = requests.finish_s - requests.arrival_s
    assert response_s[:num_users].tolist() == [1, 2, 3, 4, 5]
    assert (response_s[num_users:] == num_users).all()
