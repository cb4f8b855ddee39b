"""Requests in the system over time: imbalance and the integral of N(t)."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.system_size import load_imbalance_ratio, mean_number_in_system
from tests.engine_runs import run_engine
from tests.twin.stories import Ask, workload_of
from tests.unit.sim.by_hand import result_of


def brute_imbalance(
    arrivals: list[float], finishes: list[float], where: list[int], num_instances: int
) -> float | None:
    """Between any two events: max over instances / mean over instances, weighted by time."""
    times = sorted({*arrivals, *finishes})
    weighted = total = 0.0
    for start, end in pairwise(times):
        sizes = [0] * num_instances
        for arrival, finish, instance in zip(arrivals, finishes, where, strict=True):
            sizes[instance] += arrival <= start and finish >= end
        if sum(sizes):
            weighted += (end - start) * max(sizes) * num_instances / sum(sizes)
            total += end - start
    return weighted / total if total else None


def test_imbalance_by_hand() -> None:
    # 0-1: (1, 0) is 2; 1-2: (1, 1) is 1; 2-4: (0, 1) is 2; 4-9 empty; 9-10: (2, 1) is 4/3.
    result = result_of(
        [0, 1, 9, 9, 9], [2, 4, 10, 10, 10], instance=[0, 1, 0, 0, 1], num_instances=2
    )
    expected = (2 * 1 + 1 * 1 + 2 * 2 + 4 / 3) / 5
    assert load_imbalance_ratio(result) == pytest.approx(expected, rel=1e-12)
    assert mean_number_in_system(result) == pytest.approx(2 + 3 + 3, rel=1e-12)


def test_one_instance_is_always_balanced() -> None:
    assert load_imbalance_ratio(result_of([0, 1], [5, 6])) == 1.0


def test_an_empty_system_has_no_imbalance() -> None:
    assert load_imbalance_ratio(result_of([], [])) is None
    assert load_imbalance_ratio(result_of([3.0], [3.0])) is None


def test_requests_that_never_entered_an_instance_do_not_count() -> None:
    result = result_of([0, 0, 0], [4, 4, np.nan], instance=[0, 1, -1], num_instances=2)
    assert load_imbalance_ratio(result) == 1.0
    assert mean_number_in_system(result) == 8.0


times = st.lists(
    st.tuples(st.integers(0, 30), st.integers(0, 12), st.integers(0, 2)), min_size=1, max_size=20
)


@settings(max_examples=150, deadline=None)
@given(rows=times, num_instances=st.sampled_from([3, 4]))
def test_imbalance_equals_that_counted_between_events(
    rows: list[tuple[int, int, int]], num_instances: int
) -> None:
    rows = sorted(rows)
    arrivals = [float(a) for a, _, _ in rows]
    finishes = [float(a + d) for a, d, _ in rows]
    where = [instance for _, _, instance in rows]
    result = result_of(arrivals, finishes, where, num_instances)
    expected = brute_imbalance(arrivals, finishes, where, num_instances)
    found = load_imbalance_ratio(result)
    assert found is None if expected is None else found == pytest.approx(expected, rel=1e-9)
    sojourns = sum(f - a for a, f in zip(arrivals, finishes, strict=True))
    assert mean_number_in_system(result) == pytest.approx(sojourns, rel=1e-9)


def test_many_instances_are_worked_through_in_pieces() -> None:
    rng = np.random.default_rng(1)
    num_instances = 4000  # 1,024 events at a time
    arrivals = np.sort(rng.random(1500) * 1500)
    finishes = arrivals + rng.exponential(2.0, 1500)
    where = rng.integers(0, num_instances, 1500)
    found = load_imbalance_ratio(
        result_of(arrivals.tolist(), finishes.tolist(), where.tolist(), num_instances)
    )
    few = np.unique(where, return_inverse=True)[1]
    small = result_of(arrivals.tolist(), finishes.tolist(), few.tolist(), int(few.max()) + 1)
    expected = load_imbalance_ratio(small)
    assert found is not None and expected is not None
    assert found / num_instances == pytest.approx(expected / (int(few.max()) + 1), rel=1e-9)


def test_the_integral_of_the_number_in_the_system_is_the_sum_of_sojourns_of_a_run() -> None:
    asks = [Ask(0.25 * k, 4, 1 + k % 5) for k in range(40)]
    result = run_engine(workload_of(asks), num_instances=3, seats=2)
    sojourns = result.requests.finish_s - result.workload.arrival_s
    assert mean_number_in_system(result) == pytest.approx(float(sojourns.sum()), rel=1e-12)
