"""Conversations: turns of each, and the time between them."""

from dataclasses import dataclass

import numpy as np

from sim.workload import Workload
from traces.analysis.spread import Spread


@dataclass(frozen=True, slots=True)
class Sessions:
    """Conversations of a workload.

    Attributes:
        num_sessions: how many there are.
        num_requests: requests that belong to one.
        turns: turns per session.
        gap_s: seconds from a turn's arrival to the next one's, service and think time together; in
            a closed loop these are nominal.
        delay_s: seconds from the end of a request to the arrival of one that waits for it; None
            where none waits.
    """

    num_sessions: int
    num_requests: int
    turns: Spread
    gap_s: Spread | None
    delay_s: Spread | None


def sessions_of(workload: Workload) -> Sessions | None:
    """Sessions of a workload, None if it has none."""
    if workload.session_id is None or not (workload.session_id >= 0).any():
        return None
    rows = np.flatnonzero(workload.session_id >= 0)
    rows = rows[np.argsort(workload.session_id[rows], kind="stable")]
    session = workload.session_id[rows]
    starts = np.flatnonzero(np.diff(session, prepend=-1))
    turns = Spread.of(np.diff(np.append(starts, len(rows))))
    assert turns is not None
    is_next = np.diff(session) == 0
    return Sessions(
        num_sessions=len(starts),
        num_requests=len(rows),
        turns=turns,
        gap_s=Spread.of(np.diff(workload.arrival_s[rows])[is_next]),
        delay_s=_delays(workload),
    )


def _delays(workload: Workload) -> Spread | None:
    if workload.after is None or workload.delay_s is None:
        return None
    return Spread.of(workload.delay_s[workload.after >= 0])
