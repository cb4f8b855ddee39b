"""A weighted sum of hit ratio, batch size and tokens."""

from collections.abc import Sequence
from operator import add
from typing import ClassVar

from policies.routing.best_of import random_best
from policies.routing.option_checks import refuse_outside
from sim.interfaces import ClusterView, Router
from sim.request import Request
from sim.rng import stream


class Linear(Router):
    """argmax_i (a * hit_i / prompt + b * (1 - B_i / max B) + c * (1 - T_i / max T)).

    B_i: running + waiting requests on i. T_i: tokens on i, held by running requests or still to be
    prefilled. A term whose maximum is 0 is 1 for everybody. Random among ties.

    Args:
        hit_weight: a.
        batch_weight: b.
        token_weight: c.
        seed: the run's seed; ties are drawn from its stream "routing.linear".

    Raises:
        ConfigError: a weight is negative.

    Source: the production baseline of LMETRIC, arXiv 2603.15202, as coded in its router (0.33 each;
    tuned per trace in the paper). Ours: that maxima are taken over the instances at that moment.
    """

    uses_prefix_match = True
    smaller_is_better: ClassVar[bool] = False

    def __init__(
        self,
        hit_weight: float = 0.33,
        batch_weight: float = 0.33,
        token_weight: float = 0.33,
        seed: int = 0,
    ) -> None:
        weights = {
            "hit_weight": hit_weight,
            "batch_weight": batch_weight,
            "token_weight": token_weight,
        }
        for name, weight in weights.items():
            refuse_outside(name, weight, 0)
        self._hit_weight = hit_weight
        self._batch_weight = batch_weight
        self._token_weight = token_weight
        self.tie_rng = stream(seed, "routing.linear")
        self.last_scores: Sequence[float] | None = None

    def route(self, request: Request, cluster: ClusterView, now_s: float) -> int:
        """Instance with the largest sum."""
        prompt = request.prompt_tokens
        tokens = list(map(add, cluster.kv_tokens(), cluster.queued_prefill_tokens))
        columns = zip(
            cluster.matched_tokens(request),
            _room(cluster.num_requests),
            _room(tokens),
            strict=True,
        )
        scores = [
            self._hit_weight * (hit / prompt)
            + self._batch_weight * batch_room
            + self._token_weight * token_room
            for hit, batch_room, token_room in columns
        ]
        self.last_scores = scores
        return random_best(scores, self.tie_rng)


def _room(loads: Sequence[int]) -> list[float]:
    """1 - load / largest load."""
    most = max(loads)
    return [1 - load / most if most else 1.0 for load in loads]
