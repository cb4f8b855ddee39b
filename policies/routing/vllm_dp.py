"""vLLM's internal load balancer for data-parallel replicas."""

from collections.abc import Sequence
from typing import ClassVar

from policies.routing.first_minimum import first_minimum
from sim.errors import ConfigError
from sim.interfaces import ClusterView, Router
from sim.request import Request

WAITING_WEIGHT = 4
"""Score of a waiting request; a running one scores 1. Source: vLLM v1 `core_client.py`."""

MAX_CLIENTS = 65_536
"""API server processes at most; each keeps counts of its own."""


class VllmDp(Router):
    """argmin_i (4 * waiting_i + running_i) over counts that a coordinator publishes.

    Request r goes through client r mod num_clients (an API server process). Client c keeps counts
    of its own, scans from instance floor(c * num_instances / num_clients), and the first minimum
    wins: ties do not rotate. Each choice adds num_clients to the client's own waiting_i, on the
    guess that the other clients do the same; a new publication replaces all counts.

    Set `routing.publish_period_s` to 0.1 for what vLLM does. With a live view nothing is published
    and nothing needs guessing: the counts are read afresh for every request.

    Not modelled: the travel time of counts, and that vLLM publishes nothing new while no count has
    changed. Newer versions also advance the scan start with every request.

    Args:
        num_clients: API server processes, 1 to `MAX_CLIENTS`.

    Raises:
        ConfigError: num_clients is out of range.

    Source: vLLM v1 `core_client.py` (DPLBAsyncMPClient.get_core_engine_for_request) and
    `coordinator.py` (100 ms), v0.10.
    """

    smaller_is_better: ClassVar[bool] = True

    def __init__(self, num_clients: int = 1) -> None:
        if not 1 <= num_clients <= MAX_CLIENTS:
            raise ConfigError(f"routing.num_clients={num_clients}: must be 1 to {MAX_CLIENTS:,}")
        self._num_clients = num_clients
        self._scores: list[list[int]] = [[] for _ in range(num_clients)]
        self._versions = [-1] * num_clients
        self.tie_start = 0
        self._last = (0, -1)

    @property
    def last_scores(self) -> Sequence[float] | None:
        """Counts of the last request's client as they were before it."""
        client, choice = self._last
        scores = self._scores[client].copy()
        if choice >= 0:
            scores[choice] -= WAITING_WEIGHT * self._num_clients
        return scores

    def route(self, request: Request, cluster: ClusterView, now_s: float) -> int:
        """Instance with the lowest score in the counts of the request's client."""
        num_clients = self._num_clients
        client = request.request_id % num_clients
        if self._versions[client] != cluster.version or cluster.is_live:
            self._versions[client] = cluster.version
            self._scores[client] = _published_scores(cluster)
        scores = self._scores[client]
        start = client * len(scores) // num_clients + self.tie_start
        choice = first_minimum(scores, start % len(scores))
        scores[choice] += WAITING_WEIGHT * num_clients
        self._last = (client, choice)
        return choice


def _published_scores(cluster: ClusterView) -> list[int]:
    counts = zip(cluster.num_waiting, cluster.num_running, strict=True)
    return [WAITING_WEIGHT * waiting + running for waiting, running in counts]
