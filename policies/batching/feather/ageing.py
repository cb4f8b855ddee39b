"""A bound on starvation: whoever has waited too long goes first."""

from heapq import heappop, heappush

from sim.errors import ConfigError
from sim.request import WAITING, Request


class Ageing:
    """Finds the earliest arrival that has waited longer than a limit.

    Ours; Feather has nothing like it.

    Args:
        max_wait_s: longest wait since arrival, seconds, above 0.

    Raises:
        ConfigError: the limit is out of range.
    """

    def __init__(self, max_wait_s: float) -> None:
        if not 0 < max_wait_s < float("inf"):
            raise ConfigError(f"batching.max_wait_s={max_wait_s}: must be finite and above 0")
        self._max_wait_s = max_wait_s
        self._queue: list[tuple[float, int, Request]] = []
        self._queued: set[int] = set()

    def add(self, request: Request) -> None:
        """A request joined the waiting ones."""
        if request.request_id not in self._queued:
            self._queued.add(request.request_id)
            heappush(self._queue, (request.arrival_s, request.request_id, request))

    def next_aged(self, now_s: float) -> Request | None:
        """The waiting request that came first, if it has waited too long."""
        queue = self._queue
        while queue:
            arrival_s, request_id, request = queue[0]
            if request.phase == WAITING:
                return request if now_s - arrival_s > self._max_wait_s else None
            heappop(queue)
            self._queued.remove(request_id)
        return None
