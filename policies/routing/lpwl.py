"""Least prefill work left."""

from collections.abc import Sequence
from typing import ClassVar

from policies.routing.first_minimum import first_minimum
from sim.interfaces import ClusterView, Router
from sim.request import Request


class LPWL(Router):
    """argmin_i (queued_i + prompt - hit_i); ties: fewest requests, then the next in turn.

    queued_i: tokens waiting to be prefilled on i, less those that were found cached when they were
    sent.

    Source: baseline of an independent study of LMETRIC on an agent trace (agentic-kvc), as restated
    in docs/policies/routing.md.
    """

    uses_prefix_match = True
    smaller_is_better: ClassVar[bool] = True

    def __init__(self) -> None:
        self.tie_start = 0
        self.last_scores: Sequence[float] | None = None

    def route(self, request: Request, cluster: ClusterView, now_s: float) -> int:
        """Instance with the least prefill work, this request's included."""
        columns = zip(
            cluster.queued_prefill_tokens,
            cluster.queued_hit_tokens,
            cluster.matched_tokens(request),
            strict=True,
        )
        work = [queued - found - hit for queued, found, hit in columns]
        self.last_scores = work
        least = min(work)
        scores = [
            size if tokens == least else float("inf")
            for size, tokens in zip(cluster.num_requests, work, strict=True)
        ]
        choice = first_minimum(scores, self.tie_start)
        self.tie_start = choice + 1
        return choice
