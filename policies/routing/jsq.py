"""Join the shortest queue, with waiting requests weighted."""

from policies.routing.first_minimum import first_minimum
from sim.interfaces import ClusterView, Router
from sim.request import Request


class JSQ(Router):
    """argmin_i (4 * waiting_i + BS_i), BS = running + waiting; ties: first after the last choice.

    Differs from `vllm_dp` in three ways: a waiting request weighs 5 instead of 4, ties rotate, and
    nothing is remembered between two looks at the cluster.

    Source: baseline "vLLM (JSQ)" of LMETRIC, arXiv 2603.15202, as coded in its router.
    """

    def __init__(self) -> None:
        self._start = 0

    def route(self, request: Request, cluster: ClusterView, now_s: float) -> int:
        """Instance with the shortest weighted queue."""
        waiting, batch_sizes = cluster.num_waiting, cluster.num_requests
        scores = [4 * w + bs for w, bs in zip(waiting, batch_sizes, strict=True)]
        choice = first_minimum(scores, self._start)
        self._start = choice + 1
        return choice
