"""One seat is one server: the engine as M/M/1, M/D/1 and M/G/1.

With `max_num_seqs` 1 a seat is freed exactly when the last token is out, so steps add no
granularity and the theory holds exactly. Services come from runs of decode steps in M/D/1 and from
prefills, one step each, in the others.
"""

from dataclasses import dataclass

import numpy as np
import pytest

from sim.interfaces import FloatArray
from sim.rng import stream
from tests.anchors.queues import (
    MG1,
    STEP_S,
    TOLERANCE_STANDARD_ERRORS,
    IntArray,
    Sample,
    TimePerPromptToken,
    exponential_prompts,
    lindley,
    poisson,
    run_decodes,
    run_prefills,
)


@dataclass(frozen=True)
class Queue:
    """A simulated queue, its theory, and what each service was to take."""

    sample: Sample
    theory: MG1
    nominal_service_s: FloatArray


def seconds(counts: IntArray, unit_s: float) -> FloatArray:
    return counts.astype(np.float64) * unit_s


def m_m_1(load: float) -> Queue:
    mean_s, n = 1.0, 100_000
    theory = MG1(load / mean_s, (mean_s, 2 * mean_s**2, 6 * mean_s**3, 24 * mean_s**4))
    prompts = exponential_prompts(mean_s, n, seed=1)
    sample = run_prefills(poisson(theory.rate_per_s, n, seed=1), prompts)
    return Queue(sample, theory, seconds(prompts, TimePerPromptToken.token_s))


def m_d_1(load: float) -> Queue:
    num_steps, n = 20, 60_000
    service_s = num_steps * STEP_S
    theory = MG1(load / service_s, (service_s, service_s**2, service_s**3, service_s**4))
    outputs = np.full(n, num_steps)
    sample = run_decodes(poisson(theory.rate_per_s, n, seed=2), outputs)
    return Queue(sample, theory, seconds(outputs, STEP_S))


def m_g_1(load: float) -> Queue:
    # Nine short prompts to one long one: squared coefficient of variation 2.25.
    short, long, p_long, n = 10_000, 110_000, 0.1, 100_000
    token_s = TimePerPromptToken.token_s
    m1, m2, m3, m4 = (
        (1 - p_long) * (short * token_s) ** k + p_long * (long * token_s) ** k for k in (1, 2, 3, 4)
    )
    theory = MG1(load / m1, (m1, m2, m3, m4))
    prompts = np.where(stream(3, "anchors.service").random(n) < p_long, long, short)
    sample = run_prefills(poisson(theory.rate_per_s, n, seed=3), prompts)
    return Queue(sample, theory, seconds(prompts, token_s))


@pytest.fixture(
    scope="module",
    params=[(kind, load) for kind in (m_m_1, m_d_1, m_g_1) for load in (0.5, 0.8)],
    ids=lambda p: f"{p[0].__name__}-{p[1]}",
)
def queue(request: pytest.FixtureRequest) -> Queue:
    kind, load = request.param
    simulated: Queue = kind(load)
    return simulated


def test_mean_wait_is_that_of_pollaczek_and_khinchine(queue: Queue) -> None:
    wait_s, theory = queue.sample.wait_s, queue.theory
    tolerance_s = TOLERANCE_STANDARD_ERRORS * theory.wait_standard_error_s(len(wait_s))
    assert tolerance_s < 0.2 * theory.mean_wait_s
    assert wait_s.mean() == pytest.approx(theory.mean_wait_s, abs=tolerance_s)


def test_the_share_of_arrivals_that_wait_is_the_load(queue: Queue) -> None:
    wait_s, theory = queue.sample.wait_s, queue.theory
    tolerance = TOLERANCE_STANDARD_ERRORS * theory.waiting_share_standard_error(len(wait_s))
    assert tolerance < 0.02
    assert np.mean(wait_s > 0) == pytest.approx(theory.load, abs=tolerance)


def test_service_takes_its_nominal_time(queue: Queue) -> None:
    # To the rounding of clock readings of up to 3e5 s.
    np.testing.assert_allclose(queue.sample.service_s, queue.nominal_service_s, rtol=0, atol=1e-9)


def test_every_single_wait_follows_lindleys_recursion(queue: Queue) -> None:
    sample = queue.sample
    expected_s = lindley(sample.arrival_s, sample.service_s)
    np.testing.assert_allclose(sample.wait_s, expected_s, rtol=0, atol=1e-6)


@pytest.mark.parametrize("load", [0.3, 0.5, 0.8])
def test_standard_error_of_m_m_1_is_that_of_daley(load: float) -> None:
    daley = load * (2 + 5 * load - 4 * load**2 + load**3) / (1 - load) ** 4
    theory = MG1(load, (1.0, 2.0, 6.0, 24.0))
    assert theory.wait_standard_error_s(1) ** 2 == pytest.approx(daley)
