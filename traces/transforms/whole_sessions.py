"""Which rows belong together: the turns of a session and what a row waits for."""

from dataclasses import dataclass

import numpy as np

from sim.workload import FloatArray, IntArray
from traces.schema import TraceTable


@dataclass(frozen=True, slots=True)
class RowGroups:
    """Rows in groups, numbered by their first row.

    Attributes:
        group: group of each row. Shape (n,).
        first_row: first row of each group, increasing. Shape (num_groups,).
    """

    group: IntArray
    first_row: IntArray

    @property
    def num_groups(self) -> int:
        """Number of groups."""
        return len(self.first_row)

    def moved(self, arrival_s: FloatArray, start_s: FloatArray) -> FloatArray:
        """Arrivals when each group starts at `start_s` and keeps the distances of its rows."""
        arrivals: FloatArray = start_s[self.group] + (
            arrival_s - arrival_s[self.first_row][self.group]
        )
        return arrivals


def whole_sessions(table: TraceTable) -> RowGroups:
    """Groups of rows that share a session, continue one another or wait for one another."""
    n = table.num_requests
    links = [
        np.stack((rows, column[rows]))
        for column in (table.parent_id, table.after, _first_of_session(table.session_id))
        if column is not None and len(rows := np.flatnonzero(column >= 0))
    ]
    if not links:
        return RowGroups(np.arange(n), np.arange(n))
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    row, other = np.concatenate(links, axis=1)
    graph = coo_array((np.ones(len(row), dtype=np.int8), (row, other)), shape=(n, n))
    label = connected_components(graph, directed=False)[1]
    first_row, group = np.unique(label, return_index=True)[1], label
    by_first = np.argsort(first_row)
    number = np.empty(len(first_row), dtype=np.int64)
    number[by_first] = np.arange(len(first_row))
    return RowGroups(number[group], first_row[by_first])


def _first_of_session(session_id: IntArray | None) -> IntArray | None:
    """First row of each row's session, -1 where it has none. Shape (n,)."""
    if session_id is None:
        return None
    _, first_row, session = np.unique(session_id, return_index=True, return_inverse=True)
    return np.where(session_id >= 0, first_row[session], -1)
