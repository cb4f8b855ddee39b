"""Where most of the prompt is cached."""

from math import inf

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

    def __init__(self, max_queued_tokens: int | None = None) -> None:
        if max_queued_tokens is not None:
            refuse_outside("max_queued_tokens", max_queued_tokens, 1)
        self._limit = inf if max_queued_tokens is None else max_queued_tokens
        self._start = 0

    def route(self, request: Request, cluster: ClusterView, now_s: float) -> int:
        """Instance with the longest hit."""
        matched = cluster.matched_tokens(request)
        queues = zip(cluster.queued_prefill_tokens, cluster.queued_hit_tokens, strict=True)
        queued = [tokens - hits for tokens, hits in queues]
        is_open = [tokens < self._limit for tokens in queued]
        scores: list[float]
        if any(is_open):
            most = max(hit for hit, fits in zip(matched, is_open, strict=True) if fits)
            scores = [
                size if fits and hit == most else inf
                for size, fits, hit in zip(cluster.num_requests, is_open, matched, strict=True)
            ]
        else:
            scores = [tokens - hit for tokens, hit in zip(queued, matched, strict=True)]
        choice = first_minimum(scores, self._start)
        self._start = choice + 1
        return choice
