"""Join the shortest queue, with waiting requests weighted."""

from collections.abc import Sequence
from typing import ClassVar

from policies.routing.first_minimum import first_minimum
from sim.interfaces import ClusterView, Router
from sim.request import Request


class JSQ(Router):
    """argmin_i (4 * waiting_i + BS_i), BS = running + waiting; ties: first after the last choice.

    Differs from `vllm_dp` in three ways: a waiting request weighs 5 instead of 4, ties rotate, and
    nothing is remembered between two looks at the cluster.

    Source: baseline "vLLM (JSQ)" of LMETRIC, arXiv 2603.15202, as coded in its router.
    """

    smaller_is_better: ClassVar[bool] = True

    def __init__(self) -> None:
        self.tie_start = 0
        self.last_scores: Sequence[float] | None = None

    def route(self, request: Request, cluster: ClusterView, now_s: float) -> int:
        """Instance with the shortest weighted queue."""
        waiting, batch_sizes = cluster.num_waiting, cluster.num_requests
        scores = [4 * w + bs for w, bs in zip(waiting, batch_sizes, strict=True)]
        self.last_scores = scores
        choice = first_minimum(scores, self.tie_start)
        self.tie_start = choice + 1
        return choice
