"""Where most of the prompt is cached."""

from collections.abc import Sequence
from math import inf
from typing import ClassVar

from policies.routing.first_minimum import first_minimum
from policies.routing.option_checks import refuse_outside
from sim.interfaces import ClusterView, Router
from sim.request import Request


class MostHit(Router):
    """argmax_i hit_i; ties: fewest requests, then first after the last choice.

    With `max_queued_tokens` Q the hit counts only while the queue is short: among instances with
    fewer than Q tokens to prefill the longest hit; if there is none, the fewest tokens to prefill,
    those of the request included. Tokens of waiting prompts that were found cached are not queued.

    Args:
        max_queued_tokens: Q; null is no bound.

    Raises:
        ConfigError: Q is below 1.

    Source: baselines "most hit" and "bounded most hit" (Q = 2,048) of LMETRIC, arXiv 2603.15202,
    as coded in its router. That the bound is tested per instance is our reading.
    """

    uses_prefix_match = True
    smaller_is_better: ClassVar[bool] = False

    def __init__(self, max_queued_tokens: int | None = None) -> None:
        if max_queued_tokens is not None:
            refuse_outside("max_queued_tokens", max_queued_tokens, 1)
        self._limit = inf if max_queued_tokens is None else max_queued_tokens
        self.tie_start = 0
        self.last_scores: Sequence[float] | None = None

    def route(self, request: Request, cluster: ClusterView, now_s: float) -> int:
        """Instance with the longest hit."""
        matched = cluster.matched_tokens(request)
        queues = zip(cluster.queued_prefill_tokens, cluster.queued_hit_tokens, strict=True)
        queued = [tokens - hits for tokens, hits in queues]
        is_open = [tokens < self._limit for tokens in queued]
        scores: list[float]
        if any(is_open):
            hits = [hit if fits else -inf for hit, fits in zip(matched, is_open, strict=True)]
            most = max(hits)
            self.last_scores = hits
            scores = [
                size if hit == most else inf
                for size, hit in zip(cluster.num_requests, hits, strict=True)
            ]
        else:
            scores = [tokens - hit for tokens, hit in zip(queued, matched, strict=True)]
            self.last_scores = [-tokens for tokens in scores]
        choice = first_minimum(scores, self.tie_start)
        self.tie_start = choice + 1
        return choice
