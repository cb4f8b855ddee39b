"""The prefix tree of the requests that run now, kept while a cost model asks for it.

Counts follow the requests' prompts; what a request itself decodes is its own until it has ended,
even where the trace says that a later prompt continues it.
"""

from collections.abc import Mapping, Sequence

from mypy_extensions import mypyc_attr

from sim.prefix_tree import PrefixTree
from sim.request import DECODING, Request


@mypyc_attr(allow_interpreted_subclasses=True)
class RunningPrefixTree:
    """Member counts per node, updated in O(path) when a request begins or stops decoding.

    Args:
        tree: the workload's prefix tree.
        running: the instance's running requests, in running order.

    Attributes:
        tokens_by_members: tokens of all nodes with so many decoding requests, for counts of two or
            more.
        shared_tokens: tokens of the nodes with two or more, each counted once.
        path_tokens: the same, counted once for every request that reads them.
        num_pairs: pairs of a request and such a node that it reads.
        follows_running: whether somebody has asked for what all running requests share, so that
            `hold` and `release` must be called.
        version: grows whenever the requests of a node with two or more change.
    """

    __slots__ = (
        "_common",
        "_common_version",
        "_counts",
        "_held",
        "_num_tokens",
        "_running",
        "_running_version",
        "follows_running",
        "num_pairs",
        "path_tokens",
        "shared_tokens",
        "tokens_by_members",
        "version",
    )

    def __init__(self, tree: PrefixTree, running: Mapping[int, Request]) -> None:
        self._num_tokens: list[int] = tree.num_tokens.tolist()
        self._running = running
        self._counts: dict[int, int] = {}
        self.version = 0
        self.tokens_by_members: dict[int, int] = {}
        self.shared_tokens = self.path_tokens = self.num_pairs = 0
        # Running requests through each node, those that still prefill included; counted once
        # somebody has asked for what they have in common.
        self._held: dict[int, int] = {}
        self.follows_running = False
        self._running_version = 0
        self._common_version = -1
        self._common = 0

    @property
    def member_counts(self) -> Mapping[int, int]:
        """Decoding requests through each node, for nodes with two or more of them."""
        return {node: count for node, count in self._counts.items() if count > 1}

    @property
    def common_tokens(self) -> int:
        """Leading prompt tokens that all running requests share; 0 for a single one."""
        if self._common_version != self._running_version:
            self._common_version = self._running_version
            self._common = self._find_common()
        return self._common

    def node_tokens(self, node: int) -> int:
        """Tokens of a node."""
        return self._num_tokens[node]

    def members_in_order(self) -> Sequence[Request]:
        """Decoding requests in running order."""
        return [r for r in self._running.values() if r.phase == DECODING]

    # -- what the engine tells -------------------------------------------------------------------

    def hold(self, request: Request) -> None:
        """A request joined the running ones."""
        if self.follows_running:
            held = self._held
            self._running_version += 1
            for node in request.prompt_nodes:
                held[node] = held.get(node, 0) + 1

    def release(self, request: Request) -> None:
        """A request left the running ones."""
        if self.follows_running:
            held = self._held
            self._running_version += 1
            for node in request.prompt_nodes:
                held[node] -= 1
                if not held[node]:
                    del held[node]

    def add(self, path: tuple[int, ...]) -> None:
        """A request with this path begins to decode."""
        counts = self._counts
        once = more = pairs = 0
        for node in path:
            if node not in counts:
                counts[node] = 1  # nobody shares it: this changes nothing
                continue
            counts[node] = count = counts[node] + 1
            tokens, by_members = self._num_tokens[node], self.tokens_by_members
            by_members[count] = by_members.get(count, 0) + tokens
            if count > 2:
                pairs += 1
                self._take_away(count - 1, tokens)
            else:
                pairs += 2
                once += tokens
            more += tokens
        if pairs:
            self.version += 1
            self.shared_tokens += once
            self.path_tokens += once + more
            self.num_pairs += pairs

    def remove(self, path: tuple[int, ...]) -> None:
        """A request with this path stops decoding."""
        counts = self._counts
        once = more = pairs = 0
        for node in path:
            count = counts[node] - 1
            if not count:
                del counts[node]
                continue
            counts[node] = count
            tokens, by_members = self._num_tokens[node], self.tokens_by_members
            self._take_away(count + 1, tokens)
            if count > 1:
                pairs += 1
                by_members[count] = by_members.get(count, 0) + tokens
            else:
                pairs += 2
                once += tokens
            more += tokens
        if pairs:
            self.version += 1
            self.shared_tokens -= once
            self.path_tokens -= once + more
            self.num_pairs -= pairs

    def _take_away(self, count: int, tokens: int) -> None:
        by_members = self.tokens_by_members
        left = by_members[count] - tokens
        if left:
            by_members[count] = left
        else:
            del by_members[count]

    def _find_common(self) -> int:
        if not self.follows_running:
            self.follows_running = True
            for request in self._running.values():
                self.hold(request)
        size = len(self._running)
        if size < 2:
            return 0
        common = 0
        for node in next(iter(self._running.values())).prompt_nodes:
            if self._held[node] != size:
                break
            common += self._num_tokens[node]
        return common
