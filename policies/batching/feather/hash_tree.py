"""The Chunked Hash Tree: which waiting request adds least to what the batch reads.

The published structure keeps sets and counts per chunk key. Keys that the same requests hold always
move together, so they are one node here (`ChunkNode`), split when a request holds only some of
them: the answers are those of the structure per key, in O(path) instead of O(chunks). Operations
are counted as the structure per key does them.

Source: Feather, arXiv 2605.06046v1, figures 11 and 28 to 30, and its public code.
"""

from heapq import heapify, heappop, heappush
from typing import NamedTuple

from policies.batching.feather.chunk_keys import ChunkRun, chunk_key, chunk_runs
from policies.batching.feather.chunk_node import ChunkNode
from sim.errors import ConfigError
from sim.operations import OperationCounts
from sim.request import Request

MAX_CHUNK_TOKENS = 1 << 20

_FEW, _SLACK = 64, 8
"""Heap entries that are kept in any case, and that are kept per waiting request."""


class Entry:
    """A request in the tree.

    Attributes:
        request: the request.
        leaf: node of its last keys.
        missing: its keys that no active request holds; while it waits.
    """

    __slots__ = ("leaf", "missing", "request")

    def __init__(self, request: Request, leaf: ChunkNode, missing: int) -> None:
        self.request = request
        self.leaf = leaf
        self.missing = missing


class Best(NamedTuple):
    """Answer of `ChunkedHashTree.find_best`.

    Attributes:
        request: the waiting request that misses fewest keys in the working set.
        missing: so many.
        before: leading keys that all active requests share; 0 if none is active.
        after: how many of them would be left with this request in the batch; all its keys if none
            is active.
        num_sharing: waiting requests that hold those that would be left, itself included; 0 if
            none would.
    """

    request: Request
    missing: int
    before: int
    after: int
    num_sharing: int


class ChunkedHashTree:
    """Waiting and active requests of an instance by their chunk keys.

    Args:
        chunk_tokens: K, tokens per chunk; 1 makes it a radix tree of tokens.
        operations: counted here: keys hashed and visited, or, for K = 1, tokens compared and nodes
            of the radix tree visited.

    Raises:
        ConfigError: `chunk_tokens` is out of range.
    """

    def __init__(self, chunk_tokens: int, operations: OperationCounts) -> None:
        if not 1 <= chunk_tokens <= MAX_CHUNK_TOKENS:
            raise ConfigError(
                f"batching.chunk_tokens={chunk_tokens}: must be 1 to {MAX_CHUNK_TOKENS:,}"
            )
        self._chunk_tokens = chunk_tokens
        self._operations = operations
        self._is_radix = chunk_tokens == 1
        self._nodes: dict[int, ChunkNode] = {}
        self._waiting: dict[int, Entry] = {}
        self._active: dict[int, Entry] = {}
        self._heap: list[tuple[int, float, int]] = []
        self._tip: ChunkNode | None = None
        self._best: Best | None = None

    @property
    def num_active(self) -> int:
        """Active requests."""
        return len(self._active)

    @property
    def num_waiting(self) -> int:
        """Waiting requests."""
        return len(self._waiting)

    @property
    def working_set_keys(self) -> int:
        """Keys that an active request holds, each counted once."""
        return sum(node.num_keys for node in self._nodes.values() if node.num_active)

    @property
    def shared_keys(self) -> int:
        """Leading keys that all active requests share."""
        return 0 if self._tip is None else self._tip.depth

    def missing(self, request_id: int) -> int:
        """Keys of a waiting request that no active one holds."""
        return self._waiting[request_id].missing

    # -- changes ---------------------------------------------------------------------------------

    def insert(self, request: Request) -> None:
        """A request joins the waiting ones."""
        leaf = self._leaf_of(request)
        entry = Entry(request, leaf, 0)
        request_id = request.request_id
        node: ChunkNode | None = leaf
        while node is not None:
            node.waiting[request_id] = entry
            if not node.num_active:
                entry.missing += node.num_keys
            node = node.parent
        self._waiting[request_id] = entry
        self._best = None
        self._push(entry)
        counts = self._operations
        if self._is_radix:
            counts.tokens_compared += leaf.depth
        else:
            counts.keys_hashed += leaf.depth
            counts.tokens_hashed += request.total_tokens
        counts.node_visits += self._path_length(leaf)
        counts.heap_operations += 1

    def add(self, request: Request) -> None:
        """A waiting request joins the active ones."""
        request_id = request.request_id
        entry = self._waiting.pop(request_id)
        leaf = entry.leaf
        top: ChunkNode | None = None
        updates = 0
        node: ChunkNode | None = leaf
        while node is not None:
            del node.waiting[request_id]
            node.num_active += 1
            if node.num_active == 1:
                top, num_keys = node, node.num_keys
                for other in node.waiting.values():
                    other.missing -= num_keys
                updates += len(node.waiting) * (1 if self._is_radix else num_keys)
            node = node.parent
        self._active[request_id] = entry
        self._shorten_tip(leaf)
        self._note_changes(leaf, top, updates)

    def finish(self, request: Request) -> None:
        """An active request leaves."""
        leaf = self._active.pop(request.request_id).leaf
        top: ChunkNode | None = None
        updates = 0
        node: ChunkNode | None = leaf
        while node is not None:
            node.num_active -= 1
            if not node.num_active:
                top, num_keys = node, node.num_keys
                for other in node.waiting.values():
                    other.missing += num_keys
                updates += len(node.waiting) * (1 if self._is_radix else num_keys)
                if not node.waiting:
                    del self._nodes[node.first_key]
            node = node.parent
        self._lengthen_tip()
        self._note_changes(leaf, top, updates)

    def _note_changes(self, leaf: ChunkNode, top: ChunkNode | None, updates: int) -> None:
        """Tell the heap of the requests below `top`, all whose missing count has changed."""
        self._best = None
        if top is not None:
            for entry in top.waiting.values():
                self._push(entry)
        counts = self._operations
        counts.node_visits += self._path_length(leaf) + updates
        counts.heap_operations += updates

    def _path_length(self, leaf: ChunkNode) -> int:
        """Keys, or nodes of a radix tree, up to and including `leaf`."""
        if not self._is_radix:
            return leaf.depth
        length = 0
        node: ChunkNode | None = leaf
        while node is not None:
            length += 1
            node = node.parent
        return length

    def _push(self, entry: Entry) -> None:
        request, heap = entry.request, self._heap
        heappush(heap, (entry.missing, request.arrival_s, request.request_id))
        if len(heap) > max(_FEW, _SLACK * len(self._waiting)):
            live = self._waiting.values()
            self._heap = [(e.missing, e.request.arrival_s, e.request.request_id) for e in live]
            heapify(self._heap)

    # -- nodes -----------------------------------------------------------------------------------

    def _leaf_of(self, request: Request) -> ChunkNode:
        """Node that ends with the request's last key; nodes are made and split as needed."""
        nodes, chunk_tokens = self._nodes, self._chunk_tokens
        parent: ChunkNode | None = None
        for run in chunk_runs(request, chunk_tokens):
            done = 0
            while done < run.num_chunks:
                key = run.key(done, chunk_tokens)
                node = nodes.get(key)
                left = run.num_chunks - done
                if node is None:
                    node = nodes[key] = _node_of(parent, run, done, key)
                elif node.num_keys > left:
                    node = self._split(node, left)
                done += node.num_keys
                parent = node
        assert parent is not None, "a prompt has at least one token"
        return parent

    def _split(self, node: ChunkNode, num_keys: int) -> ChunkNode:
        """Cut a node after its first `num_keys` keys; returns the new node that has these.

        Only full chunks are ever split: a partial chunk is alone in its node, or private.
        """
        upper = ChunkNode(node.parent, node.owner, node.first_level, num_keys, node.first_key)
        upper.num_active = node.num_active
        upper.waiting = dict(node.waiting)
        node.parent = upper
        node.first_level += num_keys
        node.num_keys -= num_keys
        node.first_key = chunk_key(node.owner, (node.first_level + 1) * self._chunk_tokens)
        self._nodes[upper.first_key] = upper
        self._nodes[node.first_key] = node
        return upper

    # -- what all active requests share ----------------------------------------------------------

    def _shorten_tip(self, leaf: ChunkNode) -> None:
        """A request that ends at `leaf` became active."""
        num_active = len(self._active)
        if num_active == 1:
            self._tip = leaf
            return
        tip = self._tip
        while tip is not None and tip.num_active < num_active:
            tip = tip.parent
        self._tip = tip
        self._operations.node_visits += self._path_length(leaf).bit_length()  # a binary search

    def _lengthen_tip(self) -> None:
        """A request is active no more."""
        num_active = len(self._active)
        tip: ChunkNode | None = None
        if num_active:
            tip = next(iter(self._active.values())).leaf
            while tip is not None and tip.num_active < num_active:
                tip = tip.parent
            self._operations.node_visits += 1
            if tip is not None and tip is not self._tip:
                grown = self._path_length(tip)
                grown -= 0 if self._tip is None else self._path_length(self._tip)
                self._operations.node_visits += grown
        self._tip = tip

    # -- the answer ------------------------------------------------------------------------------

    def find_best(self) -> Best | None:
        """The waiting request that misses fewest keys; of equals the earliest; None if none waits.

        The answer is kept until something changes.
        """
        if self._best is None and self._waiting:
            self._best = self._find_best()
        self._operations.candidates_scanned += 1
        return self._best

    def _find_best(self) -> Best:
        heap, waiting = self._heap, self._waiting
        while True:
            missing, _, request_id = heap[0]
            entry = waiting.get(request_id)
            if entry is not None and entry.missing == missing:
                break
            heappop(heap)
            self._operations.heap_operations += 1
        self._operations.heap_operations += 2  # the answer is popped and put back
        num_active = len(self._active)
        if not num_active:
            leaf = entry.leaf
            return Best(entry.request, missing, 0, leaf.depth, len(leaf.waiting))
        node: ChunkNode | None = entry.leaf
        while node is not None and node.num_active < num_active:
            node = node.parent
        self._operations.node_visits += self._path_length(entry.leaf).bit_length()
        if node is None:
            return Best(entry.request, missing, self.shared_keys, 0, 0)
        return Best(entry.request, missing, self.shared_keys, node.depth, len(node.waiting))


def _node_of(parent: ChunkNode | None, run: ChunkRun, done: int, key: int) -> ChunkNode:
    """Node of the chunks of a run after the first `done` ones."""
    return ChunkNode(parent, run.owner, run.first_level + done, run.num_chunks - done, key)
