"""A router's radix tree of the prompts that it sent to one instance."""

from collections import OrderedDict

from sim.request import Request


def prompt_nodes(request: Request) -> list[tuple[int, int, int]]:
    """(node, tokens before it, its tokens) along a prompt; the private rest has a negative node."""
    start, nodes = 0, []
    for node, end_tokens in zip(request.path, request.path_end_tokens, strict=True):
        nodes.append((node, start, end_tokens - start))
        start = end_tokens
    if request.prompt_tokens > start:
        nodes.append((-1 - request.request_id, start, request.prompt_tokens - start))
    return nodes


class SentTree:
    """Prompts by prefix, trimmed at the leaves that were used least recently.

    A node is a node of the workload's prefix tree, or the private rest of one prompt.

    Attributes:
        num_tokens: tokens in the tree, shared ones once.
    """

    def __init__(self) -> None:
        self.num_tokens = 0
        self._tokens: OrderedDict[int, int] = OrderedDict()

    def __contains__(self, node: int) -> bool:
        return node in self._tokens

    def matched_tokens(self, request: Request) -> int:
        """Leading tokens of a prompt that are in the tree."""
        end = 0
        for node, end_tokens in zip(request.path, request.path_end_tokens, strict=True):
            if node not in self._tokens:
                break
            end = end_tokens
        return end

    def add(self, request: Request) -> None:
        """Insert a prompt; all its nodes count as used now, parents after their children."""
        for node, _, num_tokens in reversed(prompt_nodes(request)):
            if node in self._tokens:
                self._tokens.move_to_end(node)
            else:
                self._tokens[node] = num_tokens
                self.num_tokens += num_tokens

    def trim(self, max_tokens: float) -> list[int]:
        """Drop leaves, least recently used first, until at most `max_tokens` are left.

        Returns:
            The nodes that were dropped.
        """
        dropped: list[int] = []
        while self.num_tokens > max_tokens:
            # Parents are used after their children, so the oldest node is a leaf.
            node, num_tokens = self._tokens.popitem(last=False)
            self.num_tokens -= num_tokens
            dropped.append(node)
        return dropped
