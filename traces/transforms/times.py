"""Transforms of arrival times."""

from dataclasses import replace

import numpy as np

from sim.errors import ConfigError
from sim.rng import stream
from sim.workload import FloatArray
from traces.schema import TraceTable
from traces.transforms.record import recorded
from traces.transforms.whole_sessions import whole_sessions


def scale_rate(table: TraceTable, rate_scale: float) -> TraceTable:
    """Arrival times divided by `rate_scale`; delays after other requests stay."""
    _refuse_users(table, "rate_scale", rate_scale)
    arrival_s = table.arrival_s / rate_scale
    return recorded(replace(table, arrival_s=arrival_s), rate_scale=rate_scale)


def shift(table: TraceTable, shift_s: float) -> TraceTable:
    """Arrival times plus `shift_s`."""
    arrival_s = table.arrival_s + shift_s
    if arrival_s[0] < 0:
        raise ConfigError(
            f"trace.shift_s={shift_s:g}: must be >= {-table.arrival_s[0]:.9g}, for the first "
            "request must not arrive before time 0"
        )
    return recorded(replace(table, arrival_s=arrival_s), shift_s=shift_s)


def poissonise(table: TraceTable, seed: int) -> TraceTable:
    """Arrivals of a Poisson process, given their number and the trace's length (`period_s`).

    Given its number, arrivals of a Poisson process are uniform. Sessions start so, in their old
    order, and keep the distances of their turns.
    """
    _refuse_users(table, "poissonise", True)
    sessions = whole_sessions(table)
    start_s = table.arrival_s[sessions.first_row]
    length_s = period_s(start_s)
    if not length_s > 0:
        raise ConfigError(
            "trace.poissonise=true: must have starts of requests or sessions at two times at "
            f"least, all {len(start_s):,} of this trace are at {start_s[0]:.9g} s"
        )
    # Sums of exponentials over the sum of one more of them are uniform draws in order.
    draws = stream(seed, "trace.poissonise").standard_exponential(sessions.num_groups + 1)
    passed = np.cumsum(draws)
    new_start_s = start_s[0] + length_s * passed[:-1] / passed[-1]
    arrival_s = sessions.moved(table.arrival_s, new_start_s)
    moved = replace(table, arrival_s=arrival_s)
    if (np.diff(arrival_s) < 0).any():
        moved = moved.take(np.argsort(arrival_s, kind="stable"))
    return recorded(moved, poissonise={"seed": seed})


def period_s(arrival_s: FloatArray) -> float:
    """Length of a trace in which the next arrival would come a mean gap after the last."""
    n = len(arrival_s)
    return 0.0 if n < 2 else float(arrival_s[-1] - arrival_s[0]) * n / (n - 1)


def _refuse_users(table: TraceTable, name: str, value: object) -> None:
    if table.concurrency is not None:
        shown = str(value).lower() if isinstance(value, bool) else value
        raise ConfigError(
            f"trace.{name}={shown} has no effect: {table.concurrency} users send the requests of "
            "this trace, each when its last one has ended; leave it out"
        )
