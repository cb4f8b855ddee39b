"""Another trace of the same kind from one recording, for intervals over replications.

The recording is cut into stretches of equal length by the starts of its sessions (of its requests,
where it names no sessions), and as many stretches are drawn with replacement and put one behind the
other. Within a stretch everything stays as recorded: bursts, sessions, what prompts share. One that
is drawn again shares with its earlier occurrence only what all prompts of the trace begin with, so
that the draw itself makes no cache hits. Turns that would come after the end of the trace come at
its start instead, like turns of sessions that began before it did: the rate stays even, and they
follow no request there.

Source: block bootstrap for dependent data (Kuensch 1989), with blocks at fixed places.
"""

from dataclasses import replace

import numpy as np

from sim.errors import ConfigError
from sim.rng import stream
from sim.workload import FloatArray, IntArray
from traces.schema import TraceTable
from traces.transforms.record import recorded
from traces.transforms.repeating import repeat_rows
from traces.transforms.times import period_s
from traces.transforms.whole_sessions import whole_sessions

NUM_STRETCHES = 16
"""Stretches of a recording: long against a session, and enough to draw from."""


def resample_stretches(table: TraceTable, seed: int) -> TraceTable:
    """A new trace of the same length from stretches of the old one, drawn with replacement.

    Raises:
        ConfigError: all arrivals are at one time, or users send the requests one after the other.
    """
    if table.concurrency is not None:
        raise ConfigError(
            f"replications: {table.concurrency} users send the requests of this trace in order, so "
            "there are no stretches of time to draw from; leave replications out"
        )
    groups = whole_sessions(table)
    start_s = table.arrival_s[groups.first_row]
    whole_s = max(period_s(start_s), float(start_s[-1] - start_s[0]))
    length_s = whole_s / NUM_STRETCHES
    if not length_s > 0:
        raise ConfigError(
            "replications: all requests of this trace arrive at the same time, so there are no "
            "stretches of time to draw from; leave replications out"
        )
    stretch_of_group = np.floor((start_s - start_s[0]) / length_s).astype(np.int64)
    stretch = np.minimum(stretch_of_group, NUM_STRETCHES - 1)[groups.group]
    drawn = stream(seed, "trace.resample").integers(0, NUM_STRETCHES, NUM_STRETCHES)
    rows = [np.flatnonzero(stretch == one) for one in drawn.tolist()]
    counts = [len(one) for one in rows]
    copies = [int((drawn[:place] == one).sum()) for place, one in enumerate(drawn.tolist())]
    row, part = np.concatenate(rows), np.repeat(np.arange(NUM_STRETCHES), counts)
    if not len(row):
        raise ConfigError(
            "replications: the stretches drawn from this trace hold no request; its arrivals lie "
            "too unevenly to be resampled"
        )
    moved_s = np.repeat((np.arange(NUM_STRETCHES) - drawn) * length_s, counts)
    since_s = table.arrival_s[row] + moved_s - start_s[0]
    lap = np.floor(since_s / whole_s).clip(min=0.0)
    arrival_s = start_s[0] + np.maximum(since_s - lap * whole_s, 0.0)
    many = repeat_rows(table, row, part, np.repeat(copies, counts))
    many = replace(
        many,
        arrival_s=arrival_s,
        parent_id=_in_same_lap(many.parent_id, lap),
        after=_in_same_lap(many.after, lap),
    )
    order = np.lexsort((np.arange(len(row)), arrival_s))
    return recorded(many.take(order), resampled={"stretches": NUM_STRETCHES, "seed": seed})


def _in_same_lap(other: IntArray | None, lap: FloatArray) -> IntArray | None:
    """Rows that others continue or wait for, -1 where those came to the start and these did not."""
    if other is None:
        return None
    return np.where((other >= 0) & (lap[other] == lap), other, -1)
