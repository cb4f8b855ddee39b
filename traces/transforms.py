"""Transforms of a trace, applied in this order: window, limit, rate scale.

Each is recorded under `transforms` in the provenance. They come before compression: requests that
are left out share nothing.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sim.errors import ConfigError
from traces.options import require_int, require_number, require_rate, shown
from traces.schema import TraceTable


def transform(
    table: TraceTable,
    *,
    window_s: float | Sequence[float] | None = None,
    limit: int | None = None,
    rate_scale: float = 1.0,
) -> TraceTable:
    """Apply the window, then the limit, then the rate scale.

    Args:
        table: the trace.
        window_s: `[start, end]` keeps start <= arrival < end and makes `start` the new time 0; a
            single number is the end of a window from 0. Seconds of the trace's own time.
        limit: keep the first so many rows.
        rate_scale: divide arrival times; 2 is twice as fast.

    Raises:
        ConfigError: a value is out of range, or nothing is left.
    """
    if window_s is not None:
        table = keep_window(table, window_s)
    if limit is not None:
        table = keep_first(table, limit)
    return scale_rate(table, rate_scale)


def keep_window(table: TraceTable, window_s: float | Sequence[float]) -> TraceTable:
    """Rows that arrive in [start, end); `start` becomes time 0."""
    start_s, end_s = _bounds(window_s)
    first, stop = np.searchsorted(table.arrival_s, [start_s, end_s], side="left").tolist()
    if first == stop:
        raise ConfigError(
            f"trace.window_s=[{start_s:g}, {end_s:g}]: leaves no request, arrivals span "
            f"{table.arrival_s[0]:.9g} to {table.arrival_s[-1]:.9g} s"
        )
    table = table.slice(first, stop)
    arrival_s = table.arrival_s - start_s
    return _recorded(replace(table, arrival_s=arrival_s), "window_s", [start_s, end_s])


def keep_first(table: TraceTable, limit: int) -> TraceTable:
    """The first `limit` rows."""
    limit = require_int("trace.limit", limit, 1)
    return _recorded(table.slice(0, min(limit, table.num_requests)), "limit", limit)


def scale_rate(table: TraceTable, rate_scale: float) -> TraceTable:
    """Arrival times divided by `rate_scale`."""
    rate_scale = require_rate("trace.rate_scale", rate_scale)
    if rate_scale == 1.0:
        return table
    arrival_s = table.arrival_s / rate_scale
    return _recorded(replace(table, arrival_s=arrival_s), "rate_scale", rate_scale)


def _bounds(window_s: Any) -> tuple[float, float]:
    key = "trace.window_s"
    if not isinstance(window_s, Sequence) or isinstance(window_s, str):
        return 0.0, require_number(key, window_s, above=0)
    if len(window_s) != 2:
        raise ConfigError(f"{key}={shown(window_s)}: must be a length or [start, end], in seconds")
    start_s = require_number(f"{key}[0]", window_s[0])
    return start_s, require_number(f"{key}[1]", window_s[1], above=start_s, low=-math.inf)


def _recorded(table: TraceTable, name: str, value: Any) -> TraceTable:
    transforms = {**table.provenance.get("transforms", {}), name: value}
    return replace(table, provenance={**table.provenance, "transforms": transforms})
