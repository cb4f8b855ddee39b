"""SMetric: stay with the longest hit while that is good enough, else balance."""

from collections.abc import Sequence
from typing import ClassVar

from policies.routing.first_minimum import first_minimum
from policies.routing.option_checks import refuse_outside
from policies.routing.predicted_times import (
    BASE_S,
    CONTEXT_S,
    PAIR_S,
    TOKEN_BUDGET,
    TOKEN_S,
    PredictedTimes,
)
from sim.interfaces import ClusterView, Router
from sim.request import Request

TTFT_BASE_S = 1.0
TTFT_PER_TOKEN_S = 62.5e-6
"""Allowed TTFT: 1 s and 62.5 ms per 1,000 prompt tokens. Source: as `SMetric`."""


class SMetric(Router):
    """The longest hit, if it is long and quick enough; else argmin_i prefill time_i * (B_i + 1).

    Long enough: hit > `hit_share` * h, h = the hit that the session's history implies: the prompt
    of the session's request before, as far as this prompt is that long; 0 for a first request and
    without a session id. Quick enough: predicted TTFT there <= `ttft_scale` * (1 s + 62.5 us per
    prompt token). B_i: running + waiting. Ties: fewest requests, then first after the last choice.

    Args:
        hit_share: share of the implied hit.
        ttft_scale: scales the allowed TTFT.
        base_s: as `PredictedTimes`.
        token_s: as above.
        pair_s: as above.
        context_s: as above.
        token_budget: as above.

    Raises:
        ConfigError: an option is out of range.

    Source: SMetric, arXiv 2607.08565, as ported by an independent study (0.5 and 1.0). Ours: the
    predictor, what a history implies, and that without a history any hit is long enough.
    """

    uses_prefix_match = True
    smaller_is_better: ClassVar[bool] = True

    def __init__(
        self,
        hit_share: float = 0.5,
        ttft_scale: float = 1.0,
        base_s: float = BASE_S,
        token_s: float = TOKEN_S,
        pair_s: float = PAIR_S,
        context_s: float = CONTEXT_S,
        token_budget: int = TOKEN_BUDGET,
    ) -> None:
        refuse_outside("hit_share", hit_share, 0)
        refuse_outside("ttft_scale", ttft_scale, 0)
        self._hit_share = hit_share
        self._ttft_scale = ttft_scale
        self._times = PredictedTimes(base_s, token_s, pair_s, context_s, token_budget)
        self._last_prompts: dict[int, int] = {}
        self.tie_start = 0
        self.last_scores: Sequence[float] | None = None

    def route(self, request: Request, cluster: ClusterView, now_s: float) -> int:
        """The longest hit or the smallest product."""
        prompt, loads = request.prompt_tokens, cluster.num_requests
        matched = cluster.matched_tokens(request)
        predicted = self._times.of_instances(prompt, matched, cluster)
        implied = self._implied_hit(request)
        longest, n = max(matched), cluster.num_instances
        order = [(loads[i], (i - self.tie_start) % n) for i in range(n)]
        choice = min(range(n), key=lambda i: (-matched[i], order[i]))
        allowed_s = self._ttft_scale * (TTFT_BASE_S + TTFT_PER_TOKEN_S * prompt)
        self.last_scores = None
        if longest <= self._hit_share * implied or predicted[choice].ttft_s > allowed_s:
            costs = [p.prefill_s * (load + 1) for p, load in zip(predicted, loads, strict=True)]
            self.last_scores = costs
            choice = first_minimum(costs, self.tie_start)
        self.tie_start = choice + 1
        return choice

    def _implied_hit(self, request: Request) -> int:
        session, prompt = request.session_id, request.prompt_tokens
        if session < 0:
            return 0
        implied = min(self._last_prompts.get(session, 0), prompt)
        self._last_prompts[session] = prompt
        return implied
