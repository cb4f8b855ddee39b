"""The smallest predicted time to first token, as Mooncake's conductor picks a prefill instance."""

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

    The times are predicted (`PredictedTimes`). Not modelled: fetching the prefix from another
    instance, and rejecting a request whose SLO would be missed.

    Args:
        base_s: as `PredictedTimes`.
        token_s: as above.
        pair_s: as above.
        context_s: as above.
        token_budget: as above.

    Raises:
        ConfigError: a constant is out of range.

    Source: Mooncake, arXiv 2407.00079, section 6 (cache-aware prefill scheduling), from general
    knowledge of the paper. The predictor is ours.
    """

    uses_prefix_match = True

    def __init__(
        self,
        base_s: float = BASE_S,
        token_s: float = TOKEN_S,
        pair_s: float = PAIR_S,
        context_s: float = CONTEXT_S,
        token_budget: int = TOKEN_BUDGET,
    ) -> None:
        self._times = PredictedTimes(base_s, token_s, pair_s, context_s, token_budget)
        self._start = 0

    def route(self, request: Request, cluster: ClusterView, now_s: float) -> int:
        """Instance with the smallest predicted TTFT."""
        matched = cluster.matched_tokens(request)
        predicted = self._times.of_instances(request.prompt_tokens, matched, cluster)
        choice = first_minimum([p.ttft_s for p in predicted], self._start)
        self._start = choice + 1
        return choice
