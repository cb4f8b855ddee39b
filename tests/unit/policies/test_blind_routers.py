"""Routers that look at no load, or at that of two instances."""

import numpy as np
import pytest

from policies.routing.power_of_two import PowerOfTwo
from policies.routing.random_instance import Random
from policies.routing.round_robin import RoundRobin
from sim.interfaces import Router
from sim.rng import stream
from tests.unit.policies.clusters import choices, instances_of, live_view, play


def test_round_robin_takes_every_instance_in_turn_whatever_the_load() -> None:
    view = live_view([9, 0, 0], [9, 0, 0])
    assert choices(RoundRobin(), view, 7) == [0, 1, 2, 0, 1, 2, 0]


def test_round_robin_in_a_simulation() -> None:
    result = play(RoundRobin(), [0.0, 0.0, 0.0, 50.0], num_instances=3)
    assert instances_of(result) == [0, 1, 2, 0]


def test_random_scales_the_draws_of_its_named_stream() -> None:
    draws = stream(7, "routing.random").random(50)
    expected = np.floor(draws * 5).astype(int).tolist()
    assert choices(Random(seed=7), live_view([0] * 5, [0] * 5), 50) == expected


def test_random_is_uniform() -> None:
    num_requests, num_instances = 40_000, 8
    view = live_view([3] * num_instances, [0] * num_instances)
    counts = np.bincount(choices(Random(seed=1), view, num_requests), minlength=num_instances)
    expected = num_requests / num_instances
    chi_square = float(((counts - expected) ** 2 / expected).sum())
    assert chi_square < 24.3  # 99.9 % point of chi-square with 7 degrees of freedom


@pytest.mark.parametrize("policy", [Random, PowerOfTwo])
def test_one_instance_needs_no_luck(policy: type[Router]) -> None:
    assert choices(policy(), live_view([1], [1]), 20) == [0] * 20


@pytest.mark.parametrize("policy", [Random, PowerOfTwo])
def test_seeds_decide_everything(policy: type[Random] | type[PowerOfTwo]) -> None:
    view = live_view([0] * 9, [0] * 9)
    first = choices(policy(seed=3), view, 100)
    assert choices(policy(seed=3), view, 100) == first
    assert choices(policy(seed=4), view, 100) != first


def test_power_of_two_compares_two_distinct_instances() -> None:
    # With two instances the pair is always {0, 1}: the less loaded one is never missed.
    assert choices(PowerOfTwo(seed=0), live_view([0, 0], [1, 2]), 200) == [0] * 200
    assert choices(PowerOfTwo(seed=0), live_view([3, 0], [0, 2]), 200) == [1] * 200


def test_power_of_two_never_takes_the_most_loaded_instance() -> None:
    picked = choices(PowerOfTwo(seed=2), live_view([1, 2, 3, 4], [0] * 4), 12_000)
    # P(lowest of a pair out of 4): ranks 3/6, 2/6, 1/6, 0.
    shares = np.bincount(picked, minlength=4) / len(picked)
    assert shares[3] == 0
    np.testing.assert_allclose(shares[:3], [3 / 6, 2 / 6, 1 / 6], atol=0.015)


def test_power_of_two_breaks_ties_without_favour() -> None:
    picked = choices(PowerOfTwo(seed=1), live_view([1] * 4, [1] * 4), 12_000)
    np.testing.assert_allclose(np.bincount(picked) / len(picked), [0.25] * 4, atol=0.015)


def test_power_of_two_draws_the_pair_from_its_named_stream() -> None:
    rng = stream(11, "routing.power_of_two")
    loads = [4, 1, 3, 2, 5]
    expected = []
    for _ in range(60):
        first = int(rng.random() * 5)
        others = [i for i in range(5) if i != first]
        second = others[int(rng.random() * 4)]
        expected.append(min(first, second, key=lambda i: loads[i]))
    assert choices(PowerOfTwo(seed=11), live_view(loads, [0] * 5), 60) == expected
