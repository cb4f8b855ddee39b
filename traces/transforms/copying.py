"""Several copies of a trace at once."""

from dataclasses import replace

import numpy as np

from sim.errors import ConfigError
from sim.rng import stream
from sim.workload import FloatArray
from traces.options import MAX_REQUESTS
from traces.schema import TraceTable
from traces.transforms.record import recorded
from traces.transforms.repeating import repeat_rows
from traces.transforms.times import period_s
from traces.transforms.whole_sessions import whole_sessions


def copy_trace(table: TraceTable, copies: int, offsets: str, seed: int) -> TraceTable:
    """So many copies, each begun elsewhere in the trace; what would come after its end comes first.

    The copies share what all prompts of the trace begin with and nothing else. Whole sessions move:
    one that starts near the end may outlast it, as long as itself at most. With a concurrency there
    are as many times more users.

    Args:
        table: the trace.
        copies: number of copies; the first one stays where it is.
        offsets: `even` starts copy k at k / copies of the trace's length, `random` at a uniform
            draw; more copies leave the draws of the others as they are.
        seed: of the draws.
    """
    n = table.num_requests
    if n * copies > MAX_REQUESTS:
        raise ConfigError(
            f"trace.copies={copies}: {copies:,} x {n:,} requests, allowed: {MAX_REQUESTS:,} in all"
        )
    done: dict[str, object] = {"copies": copies, "offsets": offsets}
    if offsets == "even":
        shares = np.arange(1, copies) / copies
    else:
        shares = stream(seed, "trace.copies").random(copies - 1)
        done["seed"] = seed
    arrival_s = _arrivals(table, np.append(0.0, shares))
    concurrency = None if table.concurrency is None else copies * table.concurrency
    row, copy = np.tile(np.arange(n), copies), np.repeat(np.arange(copies), n)
    many = repeat_rows(table, row, part=copy, copy=copy)
    many = replace(many, arrival_s=arrival_s, concurrency=concurrency)
    return recorded(many.take(np.lexsort((copy, row, arrival_s))), copies=done)


def _arrivals(table: TraceTable, shares: FloatArray) -> FloatArray:
    """Arrivals of all copies, copy by copy."""
    sessions = whole_sessions(table)
    start_s = table.arrival_s[sessions.first_row]
    length_s = period_s(table.arrival_s)
    copies = [table.arrival_s]
    for share in shares[1:].tolist():
        since_s = start_s - start_s[0] + share * length_s
        since_s -= length_s * (since_s >= length_s)
        copies.append(sessions.moved(table.arrival_s, start_s[0] + np.maximum(since_s, 0.0)))
    return np.concatenate(copies)
