"""Every instance in turn."""

from typing import ClassVar

from sim.interfaces import ClusterView, Router
from sim.request import Request


class RoundRobin(Router):
    """k-th request -> instance k mod num_instances, k = 0, 1, ... over routed requests.

    Source: the default of most load balancers; Vidur `round_robin`. Looks at no load.
    """

    looks_at_cluster: ClassVar[bool] = False

    def __init__(self) -> None:
        self.tie_start = 0

    def route(self, request: Request, cluster: ClusterView, now_s: float) -> int:
        """Instance after the last choice."""
        choice = self.tie_start
        following = choice + 1
        self.tie_start = following if following < cluster.num_instances else 0
        return choice
