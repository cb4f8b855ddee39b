"""Fewest requests in the system."""

from collections.abc import Sequence
from typing import ClassVar

from policies.routing.first_minimum import first_minimum
from sim.interfaces import ClusterView, Router
from sim.request import Request


class LeastRequests(Router):
    """argmin_i (running_i + waiting_i); ties: first instance after the last choice.

    Source: the "least connections" rule of load balancers (nginx `least_conn`), in LLM serving
    known as least outstanding requests (Vidur, `lor`).
    """

    smaller_is_better: ClassVar[bool] = True

    def __init__(self) -> None:
        self.tie_start = 0
        self.last_scores: Sequence[float] | None = None

    def route(self, request: Request, cluster: ClusterView, now_s: float) -> int:
        """Instance with the fewest requests."""
        self.last_scores = scores = cluster.num_requests
        choice = first_minimum(scores, self.tie_start)
        self.tie_start = choice + 1
        return choice
