"""A recorded trace as the work of a fixed number of users."""

from dataclasses import replace

import numpy as np

from sim.workload import IntArray
from traces.schema import TraceTable
from traces.transforms.record import recorded


def at_concurrency(table: TraceTable, num_users: int, think_time_s: float) -> TraceTable:
    """The same requests in the same order, sent by `num_users` users.

    A user takes the next request, or session, `think_time_s` after the end of its last one. The
    turns of a session follow one another after the delays of the trace, `think_time_s` where it has
    none. Recorded times no longer count.
    """
    after = _after_turn_before(table) if table.after is None else table.after
    delay_s = np.full(table.num_requests, float(think_time_s))
    if table.after is not None and table.delay_s is not None:
        delay_s = np.where(table.after >= 0, table.delay_s, delay_s)
    replayed = replace(
        table,
        arrival_s=np.zeros(table.num_requests),
        after=after,
        delay_s=delay_s,
        concurrency=num_users,
    )
    done = {"num_users": num_users, "think_time_s": float(think_time_s)}
    return recorded(replayed, replay_concurrency=done)


def _after_turn_before(table: TraceTable) -> IntArray | None:
    """Row before each one in its session, -1 where there is none; None without sessions."""
    session_id = table.session_id
    if session_id is None:
        return None
    rows = np.argsort(session_id, kind="stable")
    is_next = np.append(False, np.diff(session_id[rows]) == 0) & (session_id[rows] >= 0)
    after = np.full(table.num_requests, -1, dtype=np.int64)
    after[rows] = np.where(is_next, np.append(-1, rows[:-1]), -1)
    return after
