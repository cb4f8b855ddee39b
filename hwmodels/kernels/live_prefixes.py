"""The sharing of a running batch, kept up to date request by request.

What a request shares is touched only when it is admitted or finishes, in O(path); a step of the
whole batch is O(1), because its tokens belong to single requests.
"""

from collections.abc import Sequence
from heapq import heapify, heappop, heappush

import numpy as np

from hwmodels.kernels.prefix_batch import PrefixBatch

_STALE_ENTRIES = 64
"""Entries of finished requests that the heap may hold beside as many as run."""


class LivePrefixes:
    """Histogram of (members, tokens) of the requests that decode, with the moments of contexts.

    Args:
        node_tokens: tokens of each node of the prefix tree, >= 1. Shape (nodes,).
    """

    def __init__(self, node_tokens: Sequence[int]) -> None:
        self._node_tokens = list(node_tokens)
        self._members: dict[int, int] = {}
        self._tokens: dict[int, int] = {}  # of nodes, by the number of their members
        self._requests: dict[object, tuple[tuple[int, ...], int]] = {}  # path, context - steps
        self._longest: list[
            tuple[int, int, object]
        ] = []  # heap; entries of finished ones are stale
        self._num_admitted = 0
        self._num_partials = 0
        self._path_tokens = 0
        self._offsets = 0
        self._squared_offsets = 0
        self._steps = 0

    @property
    def batch_size(self) -> int:
        """Requests that decode."""
        return len(self._requests)

    def admit(self, request: object, path: Sequence[int], context_tokens: int) -> None:
        """A request begins to decode.

        Args:
            request: any key; no other running request may have it.
            path: nodes that its context begins with, from a root down; may be empty.
            context_tokens: its context in the next step, the token computed in it included.

        Raises:
            ValueError: the key is running, or the context is not longer than its nodes.
        """
        nodes = tuple(path)
        shared = sum(self._node_tokens[node] for node in nodes)
        if request in self._requests:
            raise ValueError(f"request {request!r} is running already")
        if context_tokens <= shared:
            raise ValueError(f"context_tokens must exceed the path's {shared}: {context_tokens}")
        offset = context_tokens - self._steps
        self._requests[request] = (nodes, offset)
        self._num_admitted += 1
        heappush(self._longest, (-offset, self._num_admitted, request))
        self._count(nodes, shared, offset, 1)

    def finish(self, request: object) -> None:
        """A request stops decoding, for whatever reason.

        Raises:
            KeyError: no such request is running.
        """
        nodes, offset = self._requests.pop(request)
        self._count(nodes, sum(self._node_tokens[node] for node in nodes), offset, -1)
        if len(self._longest) > 2 * self.batch_size + _STALE_ENTRIES:
            self._longest = [entry for entry in self._longest if self._is_live(entry)]
            heapify(self._longest)

    def advance(self, num_steps: int) -> None:
        """Every request gains `num_steps` tokens of its own."""
        self._steps += num_steps

    def batch(self) -> PrefixBatch:
        """The batch of the next step.

        Raises:
            ValueError: nothing decodes.
        """
        size, steps = self.batch_size, self._steps
        if not size:
            raise ValueError("no request decodes")
        tokens = dict(self._tokens)
        total = self._offsets + size * steps
        tokens[1] = tokens.get(1, 0) + total - self._path_tokens
        return PrefixBatch(
            batch_size=size,
            members=np.array(list(tokens), dtype=np.float64),
            tokens=np.array(list(tokens.values()), dtype=np.float64),
            context_tokens_max=self._longest_offset() + steps,
            sum_squares=self._squared_offsets + steps * (2 * self._offsets + size * steps),
            num_partials=self._num_partials,
        )

    def _count(self, nodes: tuple[int, ...], shared: int, offset: int, sign: int) -> None:
        """Add a request to all sums (sign 1) or take it out (-1)."""
        self._path_tokens += sign * shared
        self._offsets += sign * offset
        self._squared_offsets += sign * offset * offset
        self._num_partials += sign * (len(nodes) + 1 if nodes else 0)
        for node in nodes:
            before = self._members.get(node, 0)
            self._move(node, before, before + sign)

    def _move(self, node: int, before: int, after: int) -> None:
        tokens = self._node_tokens[node]
        if before:
            left = self._tokens[before] - tokens
            if left:
                self._tokens[before] = left
            else:
                del self._tokens[before]
        if after:
            self._members[node] = after
            self._tokens[after] = self._tokens.get(after, 0) + tokens
        else:
            del self._members[node]

    def _longest_offset(self) -> int:
        heap = self._longest
        while not self._is_live(heap[0]):
            heappop(heap)
        return -heap[0][0]

    def _is_live(self, entry: tuple[int, int, object]) -> bool:
        running = self._requests.get(entry[2])
        return running is not None and running[1] == -entry[0]
