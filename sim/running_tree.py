"""The prefix tree of the requests that decode now, kept while a cost model asks for it."""

from collections.abc import Mapping, Sequence

from sim.prefix_tree import PrefixTree
from sim.request import DECODING, Request


class RunningPrefixTree:
    """Member counts per node, updated in O(path) when a request begins or stops decoding.

    Args:
        tree: the workload's prefix tree.
        running: the instance's running requests, in running order.
    """

    def __init__(self, tree: PrefixTree, running: Mapping[int, Request]) -> None:
        self._num_tokens: list[int] = tree.num_tokens.tolist()
        self._running = running
        self._counts: dict[int, int] = {}
        self._shared: dict[int, int] = {}
        self._version = 0

    @property
    def member_counts(self) -> Mapping[int, int]:
        """Decoding requests through each node, for nodes with two or more of them."""
        return self._shared

    @property
    def version(self) -> int:
        """Grows with every change."""
        return self._version

    def node_tokens(self, node: int) -> int:
        """Tokens of a node."""
        return self._num_tokens[node]

    def members_in_order(self) -> Sequence[Request]:
        """Decoding requests in running order."""
        return [r for r in self._running.values() if r.phase == DECODING]

    def add(self, path: tuple[int, ...]) -> None:
        """A request with this path begins to decode."""
        self._version += 1
        for node in path:
            count = self._counts.get(node, 0) + 1
            self._counts[node] = count
            if count > 1:
                self._shared[node] = count

    def remove(self, path: tuple[int, ...]) -> None:
        """A request with this path stops decoding."""
        self._version += 1
        for node in path:
            count = self._counts[node] - 1
            if count:
                self._counts[node] = count
            else:
                del self._counts[node]
            if count > 1:
                self._shared[node] = count
            else:
                self._shared.pop(node, None)
