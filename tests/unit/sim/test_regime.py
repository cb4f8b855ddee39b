"""Whether a run's averages describe a steady system."""

import numpy as np
import pytest

from sim.records import SimulationResult
from sim.system_size import regime_of
from tests.engine_runs import run_engine
from tests.twin.stories import Ask, workload_of
from tests.unit.sim.by_hand import result_of


def queue(seed: int, load: float, num_requests: int = 2000) -> SimulationResult:
    """One server, Poisson arrivals, exponential service of mean 1, first come first served."""
    rng = np.random.default_rng(seed)
    arrivals = np.cumsum(rng.exponential(1 / load, num_requests))
    services = rng.exponential(1.0, num_requests)
    # A departure is the latest of (arrival j + services j .. i) over j <= i.
    before = np.append(0.0, np.cumsum(services))
    finishes = np.maximum.accumulate(arrivals - before[:-1]) + before[1:]
    return result_of(arrivals.tolist(), finishes.tolist())


def test_at_load_0_7_a_run_is_hardly_ever_called_overloaded() -> None:
    alarms = sum(regime_of(queue(seed, 0.7)) == "overloaded" for seed in range(200))
    assert alarms <= 20


def test_at_load_0_7_most_runs_are_stable() -> None:
    regimes = [regime_of(queue(seed, 0.7)) for seed in range(100)]
    assert regimes.count("stable") >= 90


@pytest.mark.parametrize("num_requests", [2000, 400])
def test_at_load_1_2_nearly_every_run_is_called_overloaded(num_requests: int) -> None:
    found = sum(regime_of(queue(seed, 1.2, num_requests)) == "overloaded" for seed in range(100))
    assert found >= (95 if num_requests == 2000 else 75)


def test_far_above_capacity_every_run_is_overloaded() -> None:
    assert all(regime_of(queue(seed, 3.0, 200)) == "overloaded" for seed in range(50))


def test_a_constant_number_in_the_system_is_stable() -> None:
    arrivals = [float(k) for k in range(200)]
    assert regime_of(result_of(arrivals, [a + 5.0 for a in arrivals])) == "stable"


def test_a_burst_that_drains_long_after_the_last_arrival_is_backlogged() -> None:
    result = result_of([0.0] * 50, [float(k + 1) for k in range(50)])
    assert regime_of(result) == "backlogged"


@pytest.mark.parametrize(("drain_s", "regime"), [(9.0, "stable"), (12.0, "backlogged")])
def test_draining_may_take_a_tenth_of_the_makespan(drain_s: float, regime: str) -> None:
    result = result_of([0.0, 50.0, 90.0], [1.0, 51.0, 90.0 + drain_s])
    assert regime_of(result) == regime


def test_unfinished_requests_are_a_backlog() -> None:
    assert regime_of(result_of([0, 1], [1, np.nan], end_s=500)) == "backlogged"


def test_a_run_cut_by_a_horizon_can_be_overloaded() -> None:
    whole = queue(0, 2.0)
    finishes = whole.requests.finish_s
    arrivals = whole.workload.arrival_s
    cut = np.where(finishes <= arrivals[1000], finishes, np.nan)
    result = result_of(arrivals.tolist(), cut.tolist(), end_s=float(arrivals[1000]))
    assert regime_of(result) == "overloaded"


def test_nothing_served_is_stable() -> None:
    assert regime_of(result_of([], [])) == "stable"
    assert regime_of(run_engine(workload_of([Ask(0, 999, 1), Ask(3, 999, 1)]))) == "stable"


def test_rejected_requests_are_no_load() -> None:
    # Two arrivals per step on one seat, then nothing but requests that can never fit.
    served = [Ask(0.5 * k, 4, 1) for k in range(100)]
    refused = [Ask(50.0 + 0.1 * k, 4000, 1) for k in range(400)]
    assert regime_of(run_engine(workload_of(served), seats=1)) == "overloaded"
    assert regime_of(run_engine(workload_of([*served, *refused]), seats=1)) == "overloaded"
