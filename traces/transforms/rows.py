"""Transforms that leave rows out."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sim.errors import ConfigError
from sim.rng import stream
from traces.options import shown
from traces.schema import TraceTable
from traces.transforms.options import window_bounds
from traces.transforms.record import recorded
from traces.transforms.whole_sessions import whole_sessions


def keep_window(table: TraceTable, window_s: float | Sequence[float]) -> TraceTable:
    """Rows that arrive in [start, end); `start` becomes time 0."""
    start_s, end_s = window_bounds(window_s)
    first, stop = np.searchsorted(table.arrival_s, [start_s, end_s], side="left").tolist()
    if first == stop:
        raise ConfigError(
            f"trace.window_s=[{start_s:g}, {end_s:g}]: leaves no request, arrivals span "
            f"{table.arrival_s[0]:.9g} to {table.arrival_s[-1]:.9g} s"
        )
    table = table.slice(first, stop)
    arrival_s = table.arrival_s - start_s
    return recorded(replace(table, arrival_s=arrival_s), window_s=[start_s, end_s])


def keep_sample(table: TraceTable, share: float, seed: int) -> TraceTable:
    """Each session, or row that is in none, with probability `share`."""
    sessions = whole_sessions(table)
    is_kept = stream(seed, "trace.sample").random(sessions.num_groups) < share
    rows = np.flatnonzero(is_kept[sessions.group])
    if not len(rows):
        raise ConfigError(
            f"trace.sample={shown(share)}: leaves none of {table.num_requests:,} requests; "
            "give a larger share or another seed"
        )
    return recorded(table.take(rows), sample={"share": share, "seed": seed})


def keep_first(table: TraceTable, limit: int) -> TraceTable:
    """The first `limit` rows."""
    return recorded(table.slice(0, min(limit, table.num_requests)), limit=limit)
