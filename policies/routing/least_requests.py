"""Fewest requests in the system."""

from sim.interfaces import ClusterView, Router
from sim.request import Request


class LeastRequests(Router):
    """min (running + waiting); ties rotate from the instance after the last choice."""

    def __init__(self) -> None:
        self._start = 0

    def route(self, request: Request, cluster: ClusterView, now_s: float) -> int:
        """Instance with the fewest requests."""
        loads = cluster.num_requests
        fewest = min(loads)
        try:
            choice = loads.index(fewest, self._start)
        except ValueError:
            choice = loads.index(fewest)
        self._start = (choice + 1) % len(loads)
        return choice
