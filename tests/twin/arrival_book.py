"""When requests of the twin arrive: at their times, or after what they wait for has ended."""

from math import nan

from sim.workload import Workload


class ArrivalBook:
    """Arrivals to come, looked through from end to end whenever somebody asks.

    Attributes:
        arrival_s: when each request arrived, NaN before.
    """

    def __init__(self, workload: Workload) -> None:
        n = workload.num_requests
        self.after = [-1] * n if workload.after is None else workload.after.tolist()
        self.delay_s = [0.0] * n if workload.delay_s is None else workload.delay_s.tolist()
        self.arrival_s = [nan] * n
        self.has_ended = [False] * n
        # (time, whether it was released at that very time, row)
        self.expected: list[tuple[float, bool, int]] = []
        roots = [row for row in range(n) if self.after[row] < 0]
        self.num_users = workload.concurrency
        num_timed = n if self.num_users is None else self.num_users
        self.untaken_roots = roots[num_timed:]
        for row in roots[:num_timed]:
            self.expected.append((float(workload.arrival_s[row]), False, row))

    @property
    def is_empty(self) -> bool:
        return not self.expected

    @property
    def next_s(self) -> float:
        return min(self.expected)[0]

    def take(self, now_s: float, *, was_idle: bool) -> list[int]:
        """Rows that a plan made at `now_s` sees for the first time, in the order of the queue.

        A plan made at the end of a step does not see what that very end released; an idle instance
        waits for it.
        """
        come = sorted(
            (time_s, is_released_then, row)
            for time_s, is_released_then, row in self.expected
            if time_s < now_s or (time_s == now_s and (was_idle or not is_released_then))
        )
        for entry in come:
            self.expected.remove(entry)
            self.arrival_s[entry[2]] = entry[0]
        return [row for _, _, row in come]

    def note_end(self, row: int, now_s: float) -> None:
        """Request `row` has its last token at `now_s`."""
        self.has_ended[row] = True
        for follower, awaited in enumerate(self.after):
            if awaited == row:
                self._release(follower, now_s)
        is_over = all(self.has_ended[k] for k in self._tree_of(row))
        if self.num_users is not None and is_over and self.untaken_roots:
            self._release(self.untaken_roots.pop(0), now_s)

    def _release(self, row: int, now_s: float) -> None:
        time_s = now_s + self.delay_s[row]
        self.expected.append((time_s, time_s == now_s, row))

    def _tree_of(self, row: int) -> list[int]:
        """All rows that the root of `row` led to, itself included."""
        root = self._root_of(row)
        return [k for k in range(len(self.after)) if self._root_of(k) == root]

    def _root_of(self, row: int) -> int:
        while self.after[row] >= 0:
            row = self.after[row]
        return row
