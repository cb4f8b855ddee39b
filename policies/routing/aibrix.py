"""AIBrix's prefix-cache routing."""

from collections.abc import Sequence
from math import sqrt
from typing import ClassVar

from policies.routing.assumed_prefixes import AssumedPrefixes, PrefixSource, ReadPrefixes
from policies.routing.first_minimum import first_minimum
from policies.routing.option_checks import refuse_outside, refuse_unknown_choice
from sim.interfaces import ClusterView, Router
from sim.request import Request

BLOCK_TOKENS = 128
MAX_BLOCKS = 200_000
MAX_AGE_S = 1200.0
"""Index of what was sent: block, bound, and age since the last use. Source: AIBrix, prefix cache
indexer (20 minutes)."""


class AIBrix(Router):
    """Balance if out of balance, else the best match that is not overloaded.

    n_i: running + waiting requests on i.
    1. max n - min n > `imbalance_requests`: fewest requests.
    2. Else instances with a match, by match (longest first) and n (fewest first): the first one
       with n_i <= mean + `std_factor` * sample standard deviation of n.
    3. Else fewest requests. Ties: first after the last choice.

    Args:
        imbalance_requests: requests.
        std_factor: standard deviations.
        prefix_index: "assumed": what was sent, blocks of 128 tokens, the 200,000 last used ones
            per instance, of the last 20 minutes; "exact": the caches.

    Raises:
        ConfigError: an option is out of range or unknown.

    Source: AIBrix `prefix_cache.go` (8 and 1; its README says 16 and 2). AIBrix splits characters,
    here tokens; that the standard deviation is the sample's is from LMETRIC's port. Ours: its list
    of blocks is bounded per instance, not for all together; ties rotate.
    """

    uses_prefix_match = True
    smaller_is_better: ClassVar[bool] = True

    def __init__(
        self,
        imbalance_requests: int = 8,
        std_factor: float = 1.0,
        prefix_index: str = "assumed",
    ) -> None:
        refuse_outside("imbalance_requests", imbalance_requests, 0)
        refuse_outside("std_factor", std_factor, 0)
        refuse_unknown_choice("prefix_index", prefix_index, ("assumed", "exact"))
        self._imbalance_requests = imbalance_requests
        self._std_factor = std_factor
        self._prefixes: PrefixSource = ReadPrefixes()
        if prefix_index == "assumed":
            self._prefixes = AssumedPrefixes(BLOCK_TOKENS, MAX_BLOCKS, ttl_s=MAX_AGE_S)
        self.uses_prefix_match = prefix_index == "exact"
        self.tie_start = 0
        self.last_scores: Sequence[float] | None = None

    def route(self, request: Request, cluster: ClusterView, now_s: float) -> int:
        """The best match, or the instance with the fewest requests."""
        loads = cluster.num_requests
        choice = -1
        if max(loads) - min(loads) <= self._imbalance_requests:
            choice = self._best_match(request, cluster, now_s)
        self.last_scores = None
        if choice < 0:
            self.last_scores = loads
            choice = first_minimum(loads, self.tie_start)
        self.tie_start = choice + 1
        self._prefixes.record(request, choice, now_s)
        return choice

    def _best_match(self, request: Request, cluster: ClusterView, now_s: float) -> int:
        """-1 where nothing matches, or what matches is overloaded."""
        loads, n = cluster.num_requests, cluster.num_instances
        matched = self._prefixes.matched_tokens(request, cluster, now_s)
        mean = sum(loads) / n
        std = sqrt(sum((load - mean) ** 2 for load in loads) / (n - 1)) if n > 1 else 0.0
        most = mean + self._std_factor * std
        start = self.tie_start
        fitting = [i for i in range(n) if matched[i] and loads[i] <= most]
        return min(fitting, key=lambda i: (-matched[i], loads[i], (i - start) % n), default=-1)
