"""The way in of a front end against M/D/1: Poisson arrivals, equal work."""

import numpy as np
import pytest

from sim.front_end import FrontEnd, entry_times
from sim.workload import Workload

NUM_REQUESTS = 200_000
WORK_S = 0.5


@pytest.mark.parametrize("load", [0.3, 0.6, 0.8])
def test_the_mean_wait_on_the_way_in_is_that_of_m_d_1(load: float) -> None:
    rng = np.random.default_rng(7)
    arrival_s = np.cumsum(rng.exponential(WORK_S / load, NUM_REQUESTS))
    ones = np.ones(NUM_REQUESTS, np.int64)
    workload = Workload.without_sharing(arrival_s, 250 * ones, ones)
    front_end = FrontEnd(delay_s=3.0, request_s=0.25, token_s=0.001)
    wait_s = entry_times(workload, front_end) - arrival_s - WORK_S - 3.0
    assert wait_s.mean() == pytest.approx(load / (2 * (1 - load)) * WORK_S, rel=0.03)
