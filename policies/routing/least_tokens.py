"""Fewest tokens in memory and on their way there."""

from collections.abc import Sequence
from operator import add
from typing import ClassVar

from policies.routing.first_minimum import first_minimum
from sim.interfaces import ClusterView, Router
from sim.request import Request


class LeastTokens(Router):
    """argmin_i (kv_tokens_i + queued_prefill_tokens_i); ties: first after the last choice.

    kv_tokens are those whose KV the running requests hold now, queued_prefill_tokens those still to
    be prefilled. A prompt counts once: its tokens move from the second term to the first.

    Source: kin to the token-based JSQ of Splitwise, arXiv 2311.18677 (pending tokens); adding the
    tokens held is ours.
    """

    smaller_is_better: ClassVar[bool] = True

    def __init__(self) -> None:
        self.tie_start = 0
        self.last_scores: Sequence[float] | None = None

    def route(self, request: Request, cluster: ClusterView, now_s: float) -> int:
        """Instance with the fewest tokens."""
        tokens = list(map(add, cluster.kv_tokens(), cluster.queued_prefill_tokens))
        self.last_scores = tokens
        choice = first_minimum(tokens, self.tie_start)
        self.tie_start = choice + 1
        return choice
