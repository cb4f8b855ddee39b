"""Throughput while requests wait, without the time in which the last ones drain."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

_FILL_PARTS = 10
"""The window begins when one part in so many of the requests has finished."""

_LEAST_PARTS = 5
"""A window with less than one part in so many of the requests says too little."""


@dataclass(frozen=True, slots=True)
class SteadyRate:
    """Requests that a cluster finishes per second while others wait.

    Attributes:
        rate_per_s: the rate; None if nothing finished.
        does_drain_dominate: too few finish while others wait, so that the rate is finished
            requests / makespan, drain included.
    """

    rate_per_s: float | None
    does_drain_dominate: bool


def steady_rate(admitted_s: FloatArray, finish_s: FloatArray) -> SteadyRate:
    """Completions per second from the time when 10 % have finished to the last first admission.

    Requests that never finish (rejected ones) are not counted. Where fewer than 20 % finish in
    that window, finished requests / time of the last finish.

    Args:
        admitted_s: first admission of each request, all of which arrive at 0, seconds; NaN where
            there is none. Shape (n,).
        finish_s: its finish; NaN where there is none. Shape (n,).
    """
    finishes_s = np.sort(finish_s[~np.isnan(finish_s)])
    num_finished = len(finishes_s)
    if not num_finished or not finishes_s[-1] > 0:
        return SteadyRate(None, does_drain_dominate=True)
    begin_s = float(finishes_s[-(-num_finished // _FILL_PARTS) - 1])
    end_s = float(np.fmax.reduce(admitted_s))
    first, last = np.searchsorted(finishes_s, [begin_s, end_s], side="right").tolist()
    if _LEAST_PARTS * (last - first) < num_finished:
        return SteadyRate(num_finished / float(finishes_s[-1]), does_drain_dominate=True)
    return SteadyRate((last - first) / (end_s - begin_s), does_drain_dominate=False)


def steady_rate_of(requests: Any) -> SteadyRate:
    """The rate in a table of requests.

    Args:
        requests: a `pandas.DataFrame` with `admitted_s` and `finish_s`.
    """
    admitted_s, finish_s = (
        requests[name].to_numpy(dtype=np.float64, na_value=np.nan)
        for name in ("admitted_s", "finish_s")
    )
    return steady_rate(admitted_s, finish_s)
