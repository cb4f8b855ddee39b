"""The fullest instance that still meets the latency targets."""

from collections.abc import Sequence
from math import inf
from typing import ClassVar

from policies.routing.first_minimum import first_minimum
from policies.routing.option_checks import refuse_not_above
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
from sim.rng import stream


class PolyServe(Router):
    """Among instances with predicted TTFT <= `ttft_s` and TPOT <= `tpot_s`: the largest TPOT.

    If there is none, a random one. Ties: first after the last choice.

    Args:
        ttft_s: target, seconds.
        tpot_s: target, seconds.
        base_s: as `PredictedTimes`.
        token_s: as above.
        pair_s: as above.
        context_s: as above.
        token_budget: as above.
        seed: the run's seed; draws come from its stream "routing.polyserve".

    Raises:
        ConfigError: an option is out of range.

    Source: baseline "polyserve" of LMETRIC, arXiv 2603.15202, as coded in its router (1000 ms and
    200 ms). The predictor is ours.
    """

    uses_prefix_match = True
    smaller_is_better: ClassVar[bool] = False

    def __init__(
        self,
        ttft_s: float = 1.0,
        tpot_s: float = 0.2,
        base_s: float = BASE_S,
        token_s: float = TOKEN_S,
        pair_s: float = PAIR_S,
        context_s: float = CONTEXT_S,
        token_budget: int = TOKEN_BUDGET,
        seed: int = 0,
    ) -> None:
        refuse_not_above("ttft_s", ttft_s)
        refuse_not_above("tpot_s", tpot_s)
        self._ttft_s = ttft_s
        self._tpot_s = tpot_s
        self._times = PredictedTimes(base_s, token_s, pair_s, context_s, token_budget)
        self._rng = stream(seed, "routing.polyserve")
        self.tie_start = 0
        self._keys: list[float] | None = None

    @property
    def last_scores(self) -> Sequence[float] | None:
        """Predicted TPOT, seconds; minus infinity where a target would be missed."""
        return None if self._keys is None else [-key for key in self._keys]

    def route(self, request: Request, cluster: ClusterView, now_s: float) -> int:
        """The fullest instance that meets both targets."""
        matched = cluster.matched_tokens(request)
        predicted = self._times.of_instances(request.prompt_tokens, matched, cluster)
        keys = [
            -p.tpot_s if p.ttft_s <= self._ttft_s and p.tpot_s <= self._tpot_s else inf
            for p in predicted
        ]
        self._keys = keys
        if min(keys) == inf:
            self._keys = None
            return int(self._rng.random() * cluster.num_instances)
        choice = first_minimum(keys, self.tie_start)
        self.tie_start = choice + 1
        return choice
