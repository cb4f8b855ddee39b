"""A radix tree of cached token runs, keyed by where the workload's prompts diverge.

A tree node is a run of tokens along the path of the request that wrote it (its *writer*). Whether
two requests agree on a token follows from the workload's prefix tree alone: both have the same node
there, or they are the same request. Token contents are not kept.

Source: SGLang `radix_cache.py` (behaviour: nodes split where a match ends, and are never merged).
"""

from collections.abc import Sequence

from mypy_extensions import mypyc_attr

Path = tuple[int, ...]


@mypyc_attr(allow_interpreted_subclasses=True)
class RadixNode:
    """Tokens `start .. end - 1` of what its writer has computed.

    Attributes:
        parent: node of the tokens before, None for the root.
        children: nodes of the tokens after, by their first token (`first_token_key`).
        start, end: depth of the first token and after the last one, tokens.
        path: nodes of the prefix tree that the writer's KV belongs to.
        writer: request id of the writer.
        num_locks: running requests whose KV includes the tokens.
        last_access: number of the latest access of the cache that met the node.
        order: grows with creation.
        is_queued: whether the node has an entry in the queue for eviction.
    """

    __slots__ = (
        "children",
        "end",
        "is_queued",
        "last_access",
        "num_locks",
        "order",
        "parent",
        "path",
        "start",
        "writer",
    )

    def __init__(
        self, parent: "RadixNode | None", start: int, end: int, path: Path, writer: int
    ) -> None:
        self.parent = parent
        self.children: dict[int, RadixNode] = {}
        self.start = start
        self.end = end
        self.path = path
        self.writer = writer
        self.num_locks = 0
        self.last_access = 0
        self.order = 0
        self.is_queued = False

    def __lt__(self, other: "RadixNode") -> bool:
        return self.order < other.order

    def __repr__(self) -> str:
        return f"RadixNode({self.start}:{self.end} of {self.writer}, {self.num_locks} locks)"


@mypyc_attr(allow_interpreted_subclasses=True)
class RadixTree:
    """Cached token runs.

    Args:
        start_tokens: tokens before each node of the workload's prefix tree.
        num_tokens: tokens of each node.

    Attributes:
        root: node without tokens.
        num_accesses: matches and insertions so far.
    """

    __slots__ = ("_num_created", "_num_tokens", "_start_tokens", "num_accesses", "root")

    def __init__(self, start_tokens: Sequence[int], num_tokens: Sequence[int]) -> None:
        self._start_tokens = start_tokens
        self._num_tokens = num_tokens
        self._num_created = 0
        self.num_accesses = 0
        self.root = RadixNode(None, 0, 0, (), -1)

    def find(self, path: Path, request_id: int, limit: int) -> int:
        """Leading tokens of a request that are cached, at most `limit`. Changes nothing."""
        node, index = self.root, 0
        while node.end < limit:
            index = self._index_at(path, index, node.end)
            child = node.children.get(self._key(path, index, request_id))
            if child is None:
                break
            end = self._agreed_end(child, path, index, request_id, limit)
            if end < child.end:
                return end
            node = child
        return node.end

    def walk(
        self, path: Path, request_id: int, limit: int, start: RadixNode | None = None
    ) -> tuple[RadixNode, int]:
        """The node at which the cached part of the first `limit` tokens of a request ends.

        Every node met counts as accessed, the last one even if only its beginning matches: it is
        split there.

        Args:
            path: the request's nodes.
            request_id: the request.
            limit: tokens of the request to look for.
            start: a node that ends where the request is known to be cached up to.

        Returns:
            The node, and the index in `path` of the node that holds the token after it.
        """
        self.num_accesses = access = self.num_accesses + 1
        node, index = start or self.root, 0
        while start is not None:
            start.last_access = access
            start = start.parent
        while node.end < limit:
            index = self._index_at(path, index, node.end)
            child = node.children.get(self._key(path, index, request_id))
            if child is None:
                break
            child.last_access = access
            end = self._agreed_end(child, path, index, request_id, limit)
            if end < child.end:
                return self._split(child, index, end), self._index_at(path, index, end)
            node = child
        return node, index

    def add_leaf(
        self, above: RadixNode, index: int, path: Path, request_id: int, end: int
    ) -> RadixNode:
        """A new node below `above` with the tokens of a request up to `end`.

        Args:
            above: where the walk ended.
            index: as the walk returned it.
            path: the request's nodes.
            request_id: the request.
            end: tokens of the request that are cached from now on.
        """
        leaf = self._new_node(above, above.end, end, path, request_id)
        index = self._index_at(path, index, above.end)
        above.children[self._key(path, index, request_id)] = leaf
        return leaf

    def remove_leaf(self, leaf: RadixNode) -> RadixNode:
        """Take a leaf out; returns its parent."""
        parent = leaf.parent
        assert parent is not None
        index = self._index_at(leaf.path, 0, leaf.start)
        del parent.children[self._key(leaf.path, index, leaf.writer)]
        leaf.parent = None
        return parent

    # -- tokens ----------------------------------------------------------------------------------

    def _index_at(self, path: Path, index: int, depth: int) -> int:
        """Index, from `index` on, of the node of `path` that holds the token at `depth`."""
        starts, tokens = self._start_tokens, self._num_tokens
        while index < len(path) and starts[path[index]] + tokens[path[index]] <= depth:
            index += 1
        return index

    def _key(self, path: Path, index: int, request_id: int) -> int:
        """Identity of a token, among those that follow the same tokens."""
        return path[index] if index < len(path) else -1 - request_id

    def _agreed_end(
        self, node: RadixNode, path: Path, index: int, request_id: int, limit: int
    ) -> int:
        """Depth up to which a request agrees with `node`, whose first token it shares.

        Args:
            node: the node.
            path: the request's nodes.
            index: index in `path` of the node that holds the first token.
            request_id: the request.
            limit: tokens of the request to look at.
        """
        end = min(node.end, limit)
        if node.writer == request_id:
            return end
        written, reach = node.path, 0
        while index < len(path) and index < len(written) and path[index] == written[index]:
            shared = path[index]
            reach = self._start_tokens[shared] + self._num_tokens[shared]
            if reach >= end:
                return end
            index += 1
        return reach

    def _split(self, node: RadixNode, index: int, depth: int) -> RadixNode:
        """Cut a node before `depth`; returns its first part, a new node.

        `index` is that of the node of `path` which holds the first token.
        """
        parent = node.parent
        assert parent is not None
        upper = self._new_node(parent, node.start, depth, node.path, node.writer)
        upper.num_locks = node.num_locks
        parent.children[self._key(node.path, index, node.writer)] = upper
        node.start = depth
        node.parent = upper
        below = self._index_at(node.path, index, depth)
        upper.children[self._key(node.path, below, node.writer)] = node
        return upper

    def _new_node(
        self, parent: RadixNode, start: int, end: int, path: Path, writer: int
    ) -> RadixNode:
        node = RadixNode(parent, start, end, path, writer)
        node.last_access = self.num_accesses
        node.order = self._num_created
        self._num_created += 1
        return node
