"""A session stays where it began."""

from policies.routing.first_minimum import first_minimum
from sim.interfaces import ClusterView, Router
from sim.request import Request


class SessionAffinity(Router):
    """The first request of a session goes to the instance with the fewest requests, later ones too.

    Requests without a session id go to the instance with the fewest requests; ties: first after the
    last such choice. A session is never moved or forgotten.

    Source: sticky sessions of load balancers (nginx `sticky`, Kubernetes `sessionAffinity`).
    """

    def __init__(self) -> None:
        self._start = 0
        self._homes: dict[int, int] = {}

    def route(self, request: Request, cluster: ClusterView, now_s: float) -> int:
        """The session's instance."""
        session = request.session_id
        home = self._homes.get(session, -1) if session >= 0 else -1
        if home >= 0:
            return home
        choice = first_minimum(cluster.num_requests, self._start)
        self._start = choice + 1
        if session >= 0:
            self._homes[session] = choice
        return choice
