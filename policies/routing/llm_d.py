"""The weighted scorers of llm-d and the Gateway API inference extension."""

from collections.abc import Sequence
from operator import add
from typing import ClassVar

from policies.routing.assumed_prefixes import AssumedPrefixes, PrefixSource, ReadPrefixes
from policies.routing.best_of import random_best
from policies.routing.option_checks import (
    refuse_outside,
    refuse_unknown_choice,
    refuse_unread,
)
from sim.interfaces import ClusterView, Router
from sim.request import Request
from sim.rng import stream

BLOCK_TOKENS = 16
MAX_PREFIX_BLOCKS = 256
LRU_BLOCKS_PER_SERVER = 31_250
"""Approximate prefix scorer: block, blocks matched at most, blocks kept per server. Source: llm-d
and Gateway API inference extension documentation, May 2026."""

MAX_WAITING = 128
MAX_TOKENS = 4_194_304
"""Where the load-aware and the token-load scorer saturate. Source: as above."""


class LlmD(Router):
    """argmax_i of a weighted sum of scores in [0, 1]; random among ties.

    queue: (max - w_i) / (max - min) over waiting requests w, 1 if all are equal.
    kv: 1 - share of the KV blocks held by running requests.
    prefix: matched / all full blocks of the prompt.
    load_aware: 0.5 if nobody waits, else 0.5 * (1 - min(w_i, 128) / 128).
    token_load: 1 - min(t_i, 4194304) / 4194304, t_i tokens held or still to be prefilled.
    active_request: (max - n_i) / max over requests n = running + waiting, 1 if there is none.
    running: (max - r_i) / (max - min) over running requests r, 1 if all are equal.

    `prefix_index=assumed` matches against what was sent: blocks of 16 tokens, at most the first 256
    of a prompt, the `lru_blocks` last used ones per instance. `exact` matches against the caches
    (the precise prefix scorer), with all blocks of the prompt.

    Args:
        queue_weight: weights of the scores; a score with weight 0 is not worked out.
        kv_weight: as above.
        prefix_weight: as above.
        load_aware_weight: as above.
        token_load_weight: as above.
        active_request_weight: as above.
        running_weight: as above.
        prefix_index: "assumed" or "exact".
        lru_blocks: only for "assumed", blocks per instance; null is 31,250. With auto-tuning llm-d
            takes the KV blocks of the server, where that reports them.
        seed: the run's seed; ties are drawn from its stream "routing.llm_d".

    Raises:
        ConfigError: a weight is negative, or the index unknown.

    Source: llm-d and Gateway API inference extension documentation, 17 May 2026 (chart defaults:
    queue 2, kv-cache-utilization 2, prefix-cache 3). Ours: what counts as a token of the load.
    """

    uses_prefix_match = True
    uses_kv_usage = True
    smaller_is_better: ClassVar[bool] = False

    def __init__(
        self,
        queue_weight: float = 2.0,
        kv_weight: float = 2.0,
        prefix_weight: float = 3.0,
        load_aware_weight: float = 0.0,
        token_load_weight: float = 0.0,
        active_request_weight: float = 0.0,
        running_weight: float = 0.0,
        prefix_index: str = "assumed",
        lru_blocks: int | None = None,
        seed: int = 0,
    ) -> None:
        weights = {
            "queue": queue_weight,
            "kv": kv_weight,
            "prefix": prefix_weight,
            "load_aware": load_aware_weight,
            "token_load": token_load_weight,
            "active_request": active_request_weight,
            "running": running_weight,
        }
        for name, weight in weights.items():
            refuse_outside(f"{name}_weight", weight, 0)
        refuse_unknown_choice("prefix_index", prefix_index, ("assumed", "exact"))
        self._weights = {name: weight for name, weight in weights.items() if weight}
        self._assumed: AssumedPrefixes | None = None
        self._prefixes: PrefixSource = ReadPrefixes()
        if prefix_index == "assumed":
            most = LRU_BLOCKS_PER_SERVER if lru_blocks is None else lru_blocks
            refuse_outside("lru_blocks", most, 1)
            self._prefixes = self._assumed = AssumedPrefixes(BLOCK_TOKENS, most, MAX_PREFIX_BLOCKS)
        else:
            refuse_unread({"lru_blocks": lru_blocks}, "routing.prefix_index=exact")
        self.uses_prefix_match = prefix_index == "exact" and "prefix" in self._weights
        self.uses_kv_usage = "kv" in self._weights
        self.tie_rng = stream(seed, "routing.llm_d")
        self.last_scores: Sequence[float] | None = None

    def route(self, request: Request, cluster: ClusterView, now_s: float) -> int:
        """Instance with the largest weighted score."""
        totals = [0.0] * cluster.num_instances
        for name, weight in self._weights.items():
            scores = self._scores(name, request, cluster, now_s)
            totals = [total + weight * score for total, score in zip(totals, scores, strict=True)]
        self.last_scores = totals
        choice = random_best(totals, self.tie_rng)
        self._prefixes.record(request, choice, now_s)
        return choice

    def _scores(
        self, name: str, request: Request, cluster: ClusterView, now_s: float
    ) -> Sequence[float]:
        if name == "queue":
            return _min_max(cluster.num_waiting)
        if name == "kv":
            return [1 - usage for usage in cluster.kv_usage()]
        if name == "prefix":
            return self._prefix_scores(request, cluster, now_s)
        if name == "load_aware":
            return [0.5 * (1 - min(w, MAX_WAITING) / MAX_WAITING) for w in cluster.num_waiting]
        if name == "token_load":
            tokens = map(add, cluster.kv_tokens(), cluster.queued_prefill_tokens)
            return [1 - min(t, MAX_TOKENS) / MAX_TOKENS for t in tokens]
        if name == "active_request":
            most = max(cluster.num_requests)
            return [(most - n) / most if most else 1.0 for n in cluster.num_requests]
        return _min_max(cluster.num_running)

    def _prefix_scores(
        self, request: Request, cluster: ClusterView, now_s: float
    ) -> Sequence[float]:
        matched = self._prefixes.matched_tokens(request, cluster, now_s)
        if self._assumed is None:
            tokens = request.prompt_tokens
        else:
            tokens = self._assumed.num_prompt_blocks(request) * BLOCK_TOKENS
        return [hit / tokens if tokens else 0.0 for hit in matched]


def _min_max(counts: Sequence[int]) -> list[float]:
    """1 for the smallest count, 0 for the largest, 1 for all if they are equal."""
    most, least = max(counts), min(counts)
    if most == least:
        return [1.0] * len(counts)
    return [(most - count) / (most - least) for count in counts]
