"""How much of each waiting request is cached, and who waits for whose prefix.

This is the part that SGLang's cache-aware orders have in common. Nothing is kept from one step to
the next but the geometry of the prefix tree.
"""

from collections.abc import Iterable, Sequence

from sim.errors import ConfigError
from sim.interfaces import InstanceView
from sim.operations import OperationCounts
from sim.request import Request

CHECK_TOKENS = 32
"""A request whose match is longer is not checked against the queue. Source: SGLang
`schedule_policy.py`, IN_BATCH_PREFIX_CACHING_CHECK_THRESHOLD."""

DEFER_TOKENS = 32
"""A request that shares so much with one ahead of it is put off. Source: SGLang
`schedule_policy.py`, IN_BATCH_PREFIX_CACHING_DEPRIORITIZE_THRESHOLD."""


class PrefixMatches:
    """Matches every waiting request with the cache, and those that lack one with each other.

    A request that finds at most `check_tokens` in the cache is looked up in a tree of the requests
    before it in the queue. If it finds `defer_tokens` there it is *deferred*, because the one ahead
    of it will fill the cache; else it joins that tree. Whole prompts are matched, so the tree is
    the set of nodes on the paths of its requests.

    Args:
        check_tokens: longest match with the cache that is looked up, tokens; -1 defers nobody.
        defer_tokens: shortest match with the queue that defers, tokens.
        operations: where the work is counted: per lookup the tokens and the nodes of the match, and
            those of an insertion once more.

    Raises:
        ConfigError: a value is out of range.

    Source: SGLang `SchedulePolicy._compute_prefix_matches`.
    """

    def __init__(self, check_tokens: int, defer_tokens: int, operations: OperationCounts) -> None:
        if check_tokens < -1:
            raise ConfigError(f"batching.check_tokens={check_tokens}: must be at least -1")
        if defer_tokens < 1:
            raise ConfigError(f"batching.defer_tokens={defer_tokens}: must be at least 1")
        self._check_tokens = check_tokens
        self._defer_tokens = defer_tokens
        self._operations = operations
        self._ends: dict[int, int] = {}

    def of(self, instance: InstanceView, waiting: Sequence[Request]) -> tuple[list[int], set[int]]:
        """Match requests in the order of the queue.

        Returns:
            Tokens of each request that the cache holds, and the ids of deferred requests.
        """
        count = self._operations
        cached_tokens: list[int] = []
        deferred: set[int] = set()
        queued_nodes: set[int] = set()
        for request in waiting:
            cached = instance.cached_tokens(request)
            cached_tokens.append(cached)
            count.tokens_compared += cached
            count.node_visits += 1 + len(self.matched_nodes(request, cached))
            if cached > self._check_tokens:
                continue
            tokens, num_nodes = self._match_with(queued_nodes, request)
            count.tokens_compared += tokens
            count.node_visits += 1 + num_nodes
            if tokens >= self._defer_tokens:
                deferred.add(request.request_id)
                continue
            count.tokens_compared += tokens
            count.node_visits += 2 + num_nodes
            queued_nodes.update(request.prompt_nodes)
        count.candidates_scanned += len(waiting)
        return cached_tokens, deferred

    def matched_nodes(self, request: Request, cached_tokens: int) -> list[int]:
        """Nodes in which the cached part of a request lies, root first.

        What lies behind the shared prompt (its own tokens, cached before it was preempted) is one
        more, negative node that no other request has.
        """
        nodes: list[int] = []
        reach = 0
        for node, end in self._path_of(request):
            if reach >= cached_tokens:
                return nodes
            nodes.append(node)
            reach = end
        if reach < cached_tokens:
            nodes.append(-1 - request.request_id)
        return nodes

    def _match_with(self, queued_nodes: set[int], request: Request) -> tuple[int, int]:
        """Leading tokens and nodes of a request that some request of the tree has too."""
        tokens = num_nodes = 0
        if queued_nodes:
            for node, end in self._path_of(request):
                if node not in queued_nodes:
                    break
                tokens = end
                num_nodes += 1
        return tokens, num_nodes

    def _path_of(self, request: Request) -> Iterable[tuple[int, int]]:
        """Shared nodes of the prompt, each with the tokens up to its end."""
        nodes, ends = request.prompt_nodes, self._ends
        if not nodes:
            return ()
        if nodes[-1] not in ends:
            ends.update(zip(request.path, request.path_end_tokens, strict=True))
        return [(node, ends[node]) for node in nodes]
