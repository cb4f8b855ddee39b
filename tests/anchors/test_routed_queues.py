"""Several servers: what routers and seats do to a Poisson stream, against closed forms."""

from functools import cache

import numpy as np
import pytest
from scipy.optimize import brentq

from policies.routing.jsq import JSQ
from policies.routing.least_requests import LeastRequests
from policies.routing.power_of_two import PowerOfTwo
from policies.routing.random_instance import Random
from policies.routing.round_robin import RoundRobin
from sim.interfaces import Router
from sim.rng import stream
from tests.anchors.queues import (
    MG1,
    STEP_S,
    TOLERANCE_STANDARD_ERRORS,
    Sample,
    erlang_c,
    exponential_prompts,
    poisson,
    run_decodes,
    run_prefills,
    standard_error,
)

NUM_SERVERS = 4
LOAD = 0.7
NUM_REQUESTS = 30_000


@cache
def routed(policy: type[Router]) -> Sample:
    """Exponential service of mean 1 s on four servers, the same requests for every router."""
    arrival_s = poisson(NUM_SERVERS * LOAD, NUM_REQUESTS, seed=4)
    prompts = exponential_prompts(1.0, NUM_REQUESTS, seed=4)
    return run_prefills(arrival_s, prompts, policy(), NUM_SERVERS)


def tolerance_s(sample: Sample) -> float:
    return TOLERANCE_STANDARD_ERRORS * standard_error(sample.wait_s)


def test_random_routing_makes_independent_m_m_1_queues() -> None:
    theory = MG1(LOAD, (1.0, 2.0, 6.0, 24.0))
    tolerance = TOLERANCE_STANDARD_ERRORS * theory.wait_standard_error_s(NUM_REQUESTS)
    assert tolerance < 0.2 * theory.mean_wait_s
    wait_s = routed(Random).wait_s
    assert wait_s.mean() == pytest.approx(theory.mean_wait_s, abs=tolerance)


def test_round_robin_makes_queues_with_erlang_arrivals() -> None:
    # E_c/M/1: W = sigma / (mu * (1 - sigma)), sigma = A*(mu * (1 - sigma)), A* the transform of a
    # sum of c exponential gaps.
    def excess(sigma: float) -> float:
        rate = NUM_SERVERS * LOAD
        transform: float = (rate / (rate + 1 - sigma)) ** NUM_SERVERS
        return transform - sigma

    sigma = brentq(excess, 0.0, 0.99)
    expected_s = sigma / (1 - sigma)
    sample = routed(RoundRobin)
    assert tolerance_s(sample) < 0.25 * expected_s
    assert sample.wait_s.mean() == pytest.approx(expected_s, abs=tolerance_s(sample))


def test_better_informed_routers_wait_less_and_none_beats_one_common_queue() -> None:
    policies: list[type[Router]] = [Random, RoundRobin, PowerOfTwo, LeastRequests]
    waits_s = [float(routed(policy).wait_s.mean()) for policy in policies]
    assert waits_s == sorted(waits_s, reverse=True)
    common_queue_s = erlang_c(NUM_SERVERS, NUM_SERVERS * LOAD) / (NUM_SERVERS * (1 - LOAD))
    assert waits_s[-1] > common_queue_s


def test_jsq_with_one_seat_is_least_requests() -> None:
    # A busy server has one running and k waiting: 5 k + 1 and k + 1 have the same order.
    assert routed(JSQ).instance.tolist() == routed(LeastRequests).instance.tolist()


def test_seats_of_one_instance_are_the_servers_of_m_m_c() -> None:
    # Geometric outputs of 100 steps on average stand for exponential service; admission at step
    # ends and the discrete service shift the wait by less than one step.
    mean_steps, n = 100, 40_000
    mean_s = mean_steps * STEP_S
    outputs = stream(5, "anchors.service").geometric(1 / mean_steps, n)
    arrival_s = poisson(NUM_SERVERS * LOAD / mean_s, n, seed=5)
    sample = run_decodes(arrival_s, outputs, max_num_seqs=NUM_SERVERS)
    expected_s = erlang_c(NUM_SERVERS, NUM_SERVERS * LOAD) * mean_s / (NUM_SERVERS * (1 - LOAD))
    assert tolerance_s(sample) < 0.25 * expected_s
    assert sample.wait_s.mean() == pytest.approx(expected_s, abs=tolerance_s(sample) + STEP_S)


def test_power_of_two_approaches_its_mean_field() -> None:
    # Time in system for many servers: sum over i >= 1 of load ** (2 ** i - 2), in service times
    # (Mitzenmacher 2001, d = 2). Finite systems miss it by the order of 1 / num_servers.
    num_servers, load, n = 64, 0.8, 40_000
    arrival_s = poisson(num_servers * load, n, seed=6)
    sample = run_prefills(arrival_s, exponential_prompts(1.0, n, seed=6), PowerOfTwo(), num_servers)
    warm = sample.wait_s[n // 10 :]
    expected_s = sum(load ** (2**i - 2) for i in range(1, 12)) - 1
    tolerance = TOLERANCE_STANDARD_ERRORS * standard_error(warm) + 1 / num_servers
    assert tolerance < 0.12 * expected_s
    assert warm.mean() == pytest.approx(expected_s, abs=tolerance)


def test_routers_share_the_work_evenly() -> None:
    for policy in (Random, RoundRobin, PowerOfTwo, LeastRequests):
        shares = np.bincount(routed(policy).instance, minlength=NUM_SERVERS) / NUM_REQUESTS
        np.testing.assert_allclose(shares, 1 / NUM_SERVERS, atol=0.01)


@pytest.mark.parametrize(
    ("num_servers", "offered", "probability"),
    [(1, 0.5, 0.5), (2, 1.0, 1 / 3), (2, 1.5, 9 / 14)],
)
def test_erlang_c_against_hand_computed_values(
    num_servers: int, offered: float, probability: float
) -> None:
    assert erlang_c(num_servers, offered) == pytest.approx(probability)
