"""Preble's E2: exploit a long match, else explore by the load of the last minutes."""

from collections import deque
from collections.abc import Sequence
from typing import ClassVar

from policies.routing.first_minimum import first_minimum
from policies.routing.option_checks import refuse_not_above, refuse_outside
from policies.routing.preble_prefill import prefill_s
from policies.routing.sent_tree import SentTree, prompt_nodes
from sim.interfaces import ClusterView, Router
from sim.request import Request

CAPACITY_TOKENS = 198_516
"""Tokens that an instance is believed to keep. Source: Preble, as `Preble`."""

OUTPUT_TOKENS = 45
TPOT_S = 0.15
"""Expected rest of a running request. Source: as above (start values of running medians)."""

MIN_REQUESTS_PER_INSTANCE = 50
"""Requests sent per instance before any is redirected. Source: as above."""


class Preble(Router):
    """Longest match if it exceeds `match_share` of the prompt, else argmin_i of a load; ties: first
    after the last choice.

    Nodes: those of the prompt's path, and its private rest. The router believes a node to be on an
    instance since it sent a prompt with it there, until the 198,516 tokens last used there exclude
    it.
    load_i = sum over nodes on i of misses * prefill time / instances that have the node
             + requests on i * 45 tokens * 0.15 s;
    misses counts the prompts of the last `window_s` that were sent where the node was not yet.
    Exploit: of the instances with the longest match the smallest load; if its load exceeds
    `imbalance_ratio` times the smallest of all, and 50 requests per instance were sent, the latter.

    Args:
        match_share: share of the prompt.
        window_s: seconds.
        imbalance_ratio: ratio.

    Raises:
        ConfigError: an option is out of range.

    Source: Preble's code (E2; Mistral-7B on an A6000) and its port in LMETRIC's router. Ours: that
    redirection is per request; running medians of output and TPOT stay at their start values, since
    a router here hears of no finish; the eviction term (off by default) is left out.
    """

    smaller_is_better: ClassVar[bool] = True

    def __init__(
        self, match_share: float = 0.5, window_s: float = 180.0, imbalance_ratio: float = 1.5
    ) -> None:
        refuse_outside("match_share", match_share, 0, 1)
        refuse_not_above("window_s", window_s)
        refuse_outside("imbalance_ratio", imbalance_ratio, 1)
        self._match_share = match_share
        self._window_s = window_s
        self._imbalance_ratio = imbalance_ratio
        self._trees: list[SentTree] = []
        self._holders: dict[int, set[int]] = {}
        self._misses: dict[int, int] = {}
        self._node_s: dict[int, float] = {}
        self._loads_s: list[float] = []
        self._sent: deque[tuple[float, list[int]]] = deque()
        self._num_sent = 0
        self.tie_start = 0
        self.last_scores: Sequence[float] | None = None

    def route(self, request: Request, cluster: ClusterView, now_s: float) -> int:
        """Exploit or explore."""
        if not self._trees:
            self._trees = [SentTree() for _ in range(cluster.num_instances)]
            self._loads_s = [0.0] * cluster.num_instances
        while self._sent and self._sent[0][0] <= now_s - self._window_s:
            for node in self._sent.popleft()[1]:
                self._change(node, -1)
        choice = self._choose(request, cluster)
        self._record(request, choice, now_s)
        self.tie_start = choice + 1
        return choice

    def _choose(self, request: Request, cluster: ClusterView) -> int:
        running_s = OUTPUT_TOKENS * TPOT_S
        columns = zip(self._loads_s, cluster.num_requests, strict=True)
        loads_s = [load_s + size * running_s for load_s, size in columns]
        matched = [tree.matched_tokens(request) for tree in self._trees]
        longest = max(matched)
        self.last_scores = loads_s
        if longest <= self._match_share * request.prompt_tokens:
            return first_minimum(loads_s, self.tie_start)
        infinite = float("inf")
        columns_hit = zip(loads_s, matched, strict=True)
        best = [load_s if hit == longest else infinite for load_s, hit in columns_hit]
        is_settled = self._num_sent >= MIN_REQUESTS_PER_INSTANCE * cluster.num_instances
        if is_settled and min(best) > self._imbalance_ratio * min(loads_s):
            return first_minimum(loads_s, self.tie_start)
        self.last_scores = best
        return first_minimum(best, self.tie_start)

    def _record(self, request: Request, choice: int, now_s: float) -> None:
        tree = self._trees[choice]
        missed: list[int] = []
        for node, start, num_tokens in prompt_nodes(request):
            if node not in tree:
                missed.append(node)
                self._node_s.setdefault(node, prefill_s(num_tokens, start))
                self._change(node, 1, choice)
        tree.add(request)
        for node in tree.trim(CAPACITY_TOKENS):
            self._change(node, 0, choice, is_gone=True)
        self._sent.append((now_s, missed))
        self._num_sent += 1

    def _change(
        self, node: int, misses: int, instance: int | None = None, is_gone: bool = False
    ) -> None:
        """Change the misses of a node or who holds it, and the loads that follow from them."""
        holders = self._holders.setdefault(node, set())
        self._spread(node, holders, -1)
        if is_gone and instance is not None:
            holders.discard(instance)
        elif instance is not None:
            holders.add(instance)
        count = self._misses.get(node, 0) + misses
        self._misses[node] = count
        self._spread(node, holders, 1)
        if not holders:
            del self._holders[node]
        if not count:
            del self._misses[node]
            if not holders:
                del self._node_s[node]

    def _spread(self, node: int, holders: set[int], sign: int) -> None:
        count = self._misses.get(node, 0)
        if count and holders:
            share_s = sign * count * self._node_s[node] / len(holders)
            for i in holders:
                self._loads_s[i] += share_s
