"""The cache-aware policy of SGLang's router."""

from collections.abc import Sequence
from typing import ClassVar

from policies.routing.first_minimum import first_minimum
from policies.routing.option_checks import refuse_not_above, refuse_outside
from policies.routing.sent_tree import SentTree
from sim.interfaces import ClusterView, Router
from sim.request import Request

CHARACTERS_PER_TOKEN = 4
"""Ours: the router's trees hold characters, prompts here have tokens."""


class SglangRouter(Router):
    """Shortest queue if out of balance, else by a tree of what was sent to each instance.

    n_i: running + waiting requests on i.
    1. max n - min n > `balance_abs_threshold` and max n > `balance_rel_threshold` * min n: fewest
       requests.
    2. Else the longest match, if it is more than `cache_threshold` of the prompt.
    3. Else the instance with the smallest tree.
    The prompt enters the tree of the instance in all three cases. Every `eviction_interval_s` trees
    of more than `max_tree_size` characters lose their least recently used leaves. Ties: fewest
    requests, then first after the last choice.

    Args:
        cache_threshold: share of the prompt.
        balance_abs_threshold: requests.
        balance_rel_threshold: ratio.
        eviction_interval_s: seconds.
        max_tree_size: characters per instance.

    Raises:
        ConfigError: an option is out of range.

    Source: SGLang router, `cache_aware`: defaults of the newer command line; the older library has
    0.5, 32, 1.1 (1.0001 in Python), 30 s, 10,000. Ours: four characters per token, ties.
    """

    smaller_is_better: ClassVar[bool] = True

    def __init__(
        self,
        cache_threshold: float = 0.3,
        balance_abs_threshold: int = 64,
        balance_rel_threshold: float = 1.5,
        eviction_interval_s: float = 120.0,
        max_tree_size: int = 67_108_864,
    ) -> None:
        refuse_outside("cache_threshold", cache_threshold, 0, 1)
        refuse_outside("balance_abs_threshold", balance_abs_threshold, 0)
        refuse_outside("balance_rel_threshold", balance_rel_threshold, 1)
        refuse_not_above("eviction_interval_s", eviction_interval_s)
        refuse_outside("max_tree_size", max_tree_size, 1)
        self._cache_threshold = cache_threshold
        self._abs_threshold = balance_abs_threshold
        self._rel_threshold = balance_rel_threshold
        self._interval_s = eviction_interval_s
        self._max_tokens = max_tree_size / CHARACTERS_PER_TOKEN
        self._trees: list[SentTree] = []
        self._num_evictions = 0
        self.tie_start = 0
        self.last_scores: Sequence[float] | None = None

    def route(self, request: Request, cluster: ClusterView, now_s: float) -> int:
        """Balance, match or spread."""
        if not self._trees:
            self._trees = [SentTree() for _ in range(cluster.num_instances)]
        if now_s // self._interval_s > self._num_evictions:
            self._num_evictions = int(now_s // self._interval_s)
            for tree in self._trees:
                tree.trim(self._max_tokens)
        choice = self._choose(request, cluster)
        self.tie_start = choice + 1
        self._trees[choice].add(request)
        return choice

    def _choose(self, request: Request, cluster: ClusterView) -> int:
        loads = cluster.num_requests
        most, least = max(loads), min(loads)
        self.last_scores = loads
        if most - least > self._abs_threshold and most > self._rel_threshold * least:
            return first_minimum(loads, self.tie_start)
        matched = [tree.matched_tokens(request) for tree in self._trees]
        longest = max(matched)
        if longest > self._cache_threshold * request.prompt_tokens:
            keys = [-tokens for tokens in matched]
        else:
            keys = [tree.num_tokens for tree in self._trees]
        self.last_scores = keys
        best = min(keys)
        tied = [load if key == best else most + 1 for key, load in zip(keys, loads, strict=True)]
        return first_minimum(tied, self.tie_start)
