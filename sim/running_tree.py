"""The prefix tree of the requests that run now, kept while a cost model asks for it.

Counts follow the requests' prompts; what a request itself decodes is its own until it has ended,
even where the trace says that a later prompt continues it.
"""

from collections.abc import Mapping, Sequence

from sim.prefix_tree import PrefixTree
from sim.request import DECODING, Request


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
    """

    __slots__ = (
        "_common",
        "_common_version",
        "_counts",
        "_held",
        "_num_tokens",
        "_running",
        "_running_version",
        "_shared",
        "_version",
        "num_pairs",
        "path_tokens",
        "shared_tokens",
        "tokens_by_members",
    )

    def __init__(self, tree: PrefixTree, running: Mapping[int, Request]) -> None:
        self._num_tokens: list[int] = tree.num_tokens.tolist()
        self._running = running
        self._counts: dict[int, int] = {}
        self._shared: dict[int, int] = {}
        self._version = 0
        self.tokens_by_members: dict[int, int] = {}
        self.shared_tokens = self.path_tokens = self.num_pairs = 0
        # Running requests through each node, those that still prefill included; counted once
        # somebody has asked for what they have in common.
        self._held: dict[int, int] | None = None
        self._running_version = 0
        self._common_version = -1
        self._common = 0

    @property
    def member_counts(self) -> Mapping[int, int]:
        """Decoding requests through each node, for nodes with two or more of them."""
        return self._shared

    @property
    def version(self) -> int:
        """Grows with every change of the counts."""
        return self._version

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
        held = self._held
        if held is not None:
            self._running_version += 1
            for node in request.prompt_nodes:
                held[node] = held.get(node, 0) + 1

    def release(self, request: Request) -> None:
        """A request left the running ones."""
        held = self._held
        if held is not None:
            self._running_version += 1
            for node in request.prompt_nodes:
                held[node] -= 1
                if not held[node]:
                    del held[node]

    def add(self, path: tuple[int, ...]) -> None:
        """A request with this path begins to decode."""
        self._version += 1
        counts, shared, by_members = self._counts, self._shared, self.tokens_by_members
        for node in path:
            count = counts.get(node, 0) + 1
            counts[node] = count
            if count > 1:
                shared[node] = count
                tokens = self._num_tokens[node]
                by_members[count] = by_members.get(count, 0) + tokens
                if count > 2:
                    self.path_tokens += tokens
                    self.num_pairs += 1
                    self._take_away(count - 1, tokens)
                else:
                    self.shared_tokens += tokens
                    self.path_tokens += 2 * tokens
                    self.num_pairs += 2

    def remove(self, path: tuple[int, ...]) -> None:
        """A request with this path stops decoding."""
        self._version += 1
        counts, shared, by_members = self._counts, self._shared, self.tokens_by_members
        for node in path:
            count = counts[node] - 1
            if not count:
                del counts[node]
                continue
            counts[node] = count
            tokens = self._num_tokens[node]
            self._take_away(count + 1, tokens)
            if count > 1:
                shared[node] = count
                by_members[count] = by_members.get(count, 0) + tokens
                self.path_tokens -= tokens
                self.num_pairs -= 1
            else:
                del shared[node]
                self.shared_tokens -= tokens
                self.path_tokens -= 2 * tokens
                self.num_pairs -= 2

    def _take_away(self, count: int, tokens: int) -> None:
        left = self.tokens_by_members[count] - tokens
        if left:
            self.tokens_by_members[count] = left
        else:
            del self.tokens_by_members[count]

    def _find_common(self) -> int:
        if self._held is None:
            self._held = {}
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
