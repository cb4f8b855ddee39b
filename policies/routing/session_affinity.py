"""A session stays where it began."""

from collections.abc import Sequence
from typing import ClassVar

from policies.routing.first_minimum import first_minimum
from sim.interfaces import ClusterView, Router
from sim.request import Request


class SessionAffinity(Router):
    """The first request of a session goes to the instance with the fewest requests, later ones too.

    Requests without a session id go to the instance with the fewest requests; ties: first after the
    last such choice. A session is never moved or forgotten.

    Source: sticky sessions of load balancers (nginx `sticky`, Kubernetes `sessionAffinity`).
    """

    smaller_is_better: ClassVar[bool] = True

    def __init__(self) -> None:
        self.tie_start = 0
        self.last_scores: Sequence[float] | None = None
        self._homes: dict[int, int] = {}

    def route(self, request: Request, cluster: ClusterView, now_s: float) -> int:
        """The session's instance."""
        session = request.session_id
        home = self._homes.get(session, -1) if session >= 0 else -1
        if home >= 0:
            self.last_scores = None
            return home
        self.last_scores = scores = cluster.num_requests
        choice = first_minimum(scores, self.tie_start)
        self.tie_start = choice + 1
        if session >= 0:
            self._homes[session] = choice
        return choice
