"""The smallest predicted time to first token, as Mooncake's conductor picks a prefill instance."""

from collections.abc import Sequence
from typing import ClassVar

from policies.routing.first_minimum import first_minimum
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


class MooncakeTtft(Router):
    """argmin_i (queueing + prefill time with the prefix that i holds); ties: after the last choice.

    The times are predicted (`PredictedTimes`). Not modelled: where another instance's hit is longer
    than the own one by more than a factor (`kvcache_balancing_threshold`; we found no value of it),
    the conductor prices fetching it, transfer + queueing + prefill time with the longer hit; and it
    rejects a request whose TTFT or TBT objective would be missed.

    Args:
        base_s: as `PredictedTimes`.
        token_s: as above.
        pair_s: as above.
        context_s: as above.
        token_budget: as above.

    Raises:
        ConfigError: a constant is out of range.

    Source: Mooncake, arXiv 2407.00079, section 6.1 and Algorithm 1, the cache-aware branch, as
    several transcriptions agree on it: queueing is the sum of the prefill times queued, prefill
    times come from a model fitted offline on prompt and hit. The predictor's form is ours.
    """

    uses_prefix_match = True
    smaller_is_better: ClassVar[bool] = True

    def __init__(
        self,
        base_s: float = BASE_S,
        token_s: float = TOKEN_S,
        pair_s: float = PAIR_S,
        context_s: float = CONTEXT_S,
        token_budget: int = TOKEN_BUDGET,
    ) -> None:
        self._times = PredictedTimes(base_s, token_s, pair_s, context_s, token_budget)
        self.tie_start = 0
        self.last_scores: Sequence[float] | None = None

    def route(self, request: Request, cluster: ClusterView, now_s: float) -> int:
        """Instance with the smallest predicted TTFT."""
        matched = cluster.matched_tokens(request)
        predicted = self._times.of_instances(request.prompt_tokens, matched, cluster)
        self.last_scores = ttft_s = [p.ttft_s for p in predicted]
        choice = first_minimum(ttft_s, self.tie_start)
        self.tie_start = choice + 1
        return choice
