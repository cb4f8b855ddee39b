"""Depth-first through the cached prefix tree, heavier branches first."""

from collections.abc import Iterable
from typing import ClassVar, Literal

from policies.batching.prefix_matches import CHECK_TOKENS, DEFER_TOKENS, PrefixMatches
from sim.interfaces import BatchPolicy, InstanceView
from sim.operations import OperationCounts
from sim.request import Request


class _Branch:
    """A node of the tree of matches, with the requests whose match ends in it.

    Attributes:
        children: nodes below, by their id, in order of the first waiting request in them.
        weight: waiting requests in the node and below.
        ends: (-cached tokens, place in the queue) of the requests whose match ends here.
    """

    __slots__ = ("children", "ends", "weight")

    def __init__(self) -> None:
        self.children: dict[int, _Branch] = {}
        self.weight = 0
        self.ends: list[tuple[int, int]] = []


class DfsWeight(BatchPolicy):
    """Order of a depth-first walk over the tree of what the cache holds of waiting requests.

    The weight of a node is the number of waiting requests whose match ends in its subtree. Of
    siblings the heavier one comes first (ties: the one with the first request in the queue), and
    children come before the node's own requests (ties: place in the queue). Requests that find
    nothing in the cache are the root's own, and so come last. There is no bound on the queue.

    SGLang also looks for requests to defer (`PrefixMatches`), though nothing here depends on it:
    that costs scheduler time, which is counted.

    Source: SGLang `schedule_policy.py`, policy `dfs-weight`; docs/policies/dfs_weight.md.
    """

    decides: ClassVar[Literal["every_step", "on_change"]] = "every_step"

    operations: OperationCounts

    def __init__(self) -> None:
        self.operations = OperationCounts()
        self._matches = PrefixMatches(CHECK_TOKENS, DEFER_TOKENS, self.operations)

    def candidates(self, instance: InstanceView, now_s: float) -> Iterable[Request]:
        """The queue in the order of the walk."""
        waiting = list(instance.waiting.values())
        cached_tokens, _ = self._matches.of(instance, waiting)
        root = _Branch()
        num_nodes = 1
        for place, request in enumerate(waiting):
            branch = root
            branch.weight += 1
            for node in self._matches.matched_nodes(request, cached_tokens[place]):
                child = branch.children.get(node)
                if child is None:
                    child = branch.children[node] = _Branch()
                    num_nodes += 1
                branch = child
                branch.weight += 1
            branch.ends.append((-cached_tokens[place], place))
        # One walk sums the weights, one makes the order.
        self.operations.node_visits += 2 * num_nodes
        return [waiting[place] for place in _walk(root)]


def _walk(root: _Branch) -> list[int]:
    """Places in the queue, depth first."""
    places: list[int] = []
    stack = [(root, False)]
    while stack:
        branch, is_below_done = stack.pop()
        if is_below_done:
            places += [place for _, place in sorted(branch.ends)]
            continue
        stack.append((branch, True))
        heaviest_first = sorted(branch.children.values(), key=lambda child: -child.weight)
        stack += [(child, False) for child in reversed(heaviest_first)]
    return places
