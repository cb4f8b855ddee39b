"""How many other requests a server had while it answered one."""

import numpy as np

from experiments.calibrate.against.measured_run import MeasuredRun
from sim.workload import FloatArray


def mean_in_flight(run: MeasuredRun) -> FloatArray:
    """Requests that were started and not ended, mean over the decode of each. Shape (n,).

    That of the moment of the first token where a request got one alone.
    """
    first_s = run.arrival_s + run.ttft_s
    last_s = run.arrival_s + run.e2e_s
    times_s = np.concatenate([run.arrival_s, last_s])
    order = np.argsort(times_s, kind="stable")
    times_s = times_s[order]
    change = np.repeat([1.0, -1.0], run.num_requests)[order]
    number = np.cumsum(change)
    request_s = np.append(0.0, np.cumsum(number[:-1] * np.diff(times_s)))
    area = np.interp(last_s, times_s, request_s) - np.interp(first_s, times_s, request_s)
    at_first = number[np.searchsorted(times_s, first_s, side="right") - 1]
    span_s = last_s - first_s
    mean: FloatArray = np.where(span_s > 0, area / np.where(span_s > 0, span_s, 1.0), at_first)
    return mean
