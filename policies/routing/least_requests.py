"""Fewest requests in the system."""

from policies.routing.first_minimum import first_minimum
from sim.interfaces import ClusterView, Router
from sim.request import Request


class LeastRequests(Router):
    """argmin_i (running_i + waiting_i); ties: first instance after the last choice.

    Source: the "least connections" rule of load balancers (nginx `least_conn`), in LLM serving
    known as least outstanding requests (Vidur, `lor`).
    """

    def __init__(self) -> None:
        self._start = 0

    def route(self, request: Request, cluster: ClusterView, now_s: float) -> int:
        """Instance with the fewest requests."""
        choice = first_minimum(cluster.num_requests, self._start)
        self._start = choice + 1
        return choice
