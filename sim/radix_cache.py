"""KV cache of one SGLang instance: a radix tree of tokens whose leaves are evicted, page size 1.

It stands in the place of `sim.kv_cache.KvCache`, with tokens as blocks. The extents of that cache
could not be used: SGLang keeps one copy of a prefix where vLLM keeps every copy, caches tokens when
their step has ended and not when it is planned, evicts whole leaves by their last access and not
single blocks by their release, and a lookup counts as an access.

Tokens are free, in the tree (locked by running requests, or evictable), or private to a running
request: computed, but not in the tree yet. Not modelled: host tiers, other eviction orders, pages.

Source: SGLang `radix_cache.py`, `common.py` (allocation), `schedule_batch.py`; restated in
docs/engine.md.
"""

from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush

from mypy_extensions import mypyc_attr

from sim.errors import ConfigError, InvariantError
from sim.extents import Extent
from sim.kv_cache import Hit, KvCache
from sim.radix_tree import RadixNode, RadixTree
from sim.request import Request


@mypyc_attr(allow_interpreted_subclasses=True)
class RadixCache(KvCache):
    """Tokens of one instance.

    Args:
        kv: an unused cache of one-token blocks, whose size, geometry and options it takes over.

    Attributes:
        num_free_tokens: tokens that hold nothing.
        step_tokens: tokens that a decode step of the planned run takes.
        num_paused_steps: tells in how many steps decoding requests stood still, summed over them.

    Raises:
        ConfigError: pages have more than one token, or eviction is not by last use.
    """

    __slots__ = (
        "_completed",
        "_held_nodes",
        "_leaves",
        "_tree",
        "num_free_tokens",
        "num_paused_steps",
        "step_tokens",
    )

    num_paused_steps: Callable[[], int]

    def __init__(self, kv: KvCache) -> None:
        if kv.block_tokens != 1:
            raise ConfigError(
                f"engine.block_tokens={kv.block_tokens}: SGLang's page size is modelled as 1 only"
            )
        if kv._eviction is not None:
            raise ConfigError(
                f"eviction={type(kv._eviction).__name__}: the radix cache of engine=sglang evicts "
                "the least recently used leaf; only eviction=lru is modelled"
            )
        self.block_tokens = 1
        self.num_usable_blocks = kv.num_usable_blocks
        self.prefix_caching = kv.prefix_caching
        self._first_block = kv._first_block
        self._num_blocks = kv._num_blocks
        self._copies = {}
        self._eviction = None
        self._num_releases = 0
        self.queue = kv.queue
        """Counts the tokens that no running request holds: free and evictable ones."""
        self.num_free_tokens = self.num_usable_blocks
        self.step_tokens = 1
        self._tree = RadixTree(self._first_block, self._num_blocks)
        self._held_nodes: dict[int, RadixNode] = {}
        self._leaves: list[tuple[int, int, RadixNode]] = []
        # Requests that go on after the prefill batch that has just ended, not cached yet.
        self._completed: deque[Request] = deque()

    # -- lookup ----------------------------------------------------------------------------------

    def lookup(self, request: Request, max_blocks: int) -> tuple[list[Hit], int]:
        """Leading tokens of a request that are in the tree, at most `max_blocks`.

        Changes nothing: unlike `match` it is no access. The list of hits is always empty.
        """
        if not self.prefix_caching:
            return [], 0
        return [], self._tree.find(request.kv_path, request.request_id, max_blocks)

    def match(self, request: Request, max_tokens: int) -> RadixNode:
        """The node where the cached part of a request ends, at most `max_tokens`; an access."""
        can_hit = request.kv_path or request.num_preemptions
        if not (can_hit and self.prefix_caching):
            return self._tree.root
        return self._tree.walk(request.kv_path, request.request_id, max_tokens)[0]

    # -- locks -----------------------------------------------------------------------------------

    def lock(self, node: RadixNode) -> None:
        """Protect the tokens up to the end of a node from eviction."""
        root, queue = self._tree.root, self.queue
        while node is not root:
            if not node.num_locks:
                queue.num_blocks -= node.end - node.start
            node.num_locks += 1
            assert node.parent is not None
            node = node.parent

    def unlock(self, node: RadixNode) -> None:
        """Undo one `lock`."""
        root, queue = self._tree.root, self.queue
        while node is not root:
            node.num_locks -= 1
            if not node.num_locks:
                queue.num_blocks += node.end - node.start
                self._offer(node)
            assert node.parent is not None
            node = node.parent

    def hold_node(self, request: Request, node: RadixNode) -> None:
        """A running request holds the tokens up to the end of a node, which is locked for it."""
        self._held_nodes[request.request_id] = node

    def held_in_tree(self, request: Request) -> int:
        """Tokens of a running request that are in the tree."""
        return self._held_nodes[request.request_id].end

    # -- taking ----------------------------------------------------------------------------------

    def make_free(self, num_tokens: int) -> None:
        """Evict if fewer tokens are free; then as many as are asked for, not the difference.

        Source: SGLang `evict_from_tree_cache`.
        """
        if self.num_free_tokens < num_tokens:
            self._evict(num_tokens)

    def allocate(self, num_tokens: int) -> None:
        """Take tokens for a prefill batch."""
        self.make_free(num_tokens)
        if num_tokens > self.num_free_tokens:
            raise InvariantError(f"2: took {num_tokens} KV tokens of {self.num_free_tokens} free")
        self.num_free_tokens -= num_tokens
        self.queue.num_blocks -= num_tokens

    def take(self, num_blocks: int) -> None:
        """Take tokens for whole decode steps, each of which evicts for itself."""
        size = self.step_tokens
        while num_blocks > self.num_free_tokens:
            ahead = self.num_free_tokens // size * size
            self.num_free_tokens -= ahead
            self.queue.num_blocks -= ahead
            num_blocks -= ahead
            self._evict(size)
            if self.num_free_tokens < size:
                raise InvariantError(f"2: a decode step lacks KV tokens: {self.num_free_tokens}")
        self.num_free_tokens -= num_blocks
        self.queue.num_blocks -= num_blocks

    def _evict(self, num_tokens: int) -> None:
        """Evict leaves, least recently used first, until `num_tokens` are freed or none is left."""
        leaves, root = self._leaves, self._tree.root
        num_evicted = 0
        while num_evicted < num_tokens and leaves:
            access, _, node = heappop(leaves)
            node.is_queued = False
            if node.num_locks or node.children:
                continue
            if node.last_access != access:
                self._offer(node)
                continue
            parent = self._tree.remove_leaf(node)
            num_evicted += node.end - node.start
            if parent is not root:
                self._offer(parent)
        self.num_free_tokens += num_evicted

    def _offer(self, node: RadixNode) -> None:
        """Queue a node for eviction if it is an evictable leaf."""
        if not (node.is_queued or node.num_locks or node.children):
            node.is_queued = True
            heappush(self._leaves, (node.last_access, node.order, node))

    # -- caching ---------------------------------------------------------------------------------

    def cache_in_turn(self, request: Request) -> None:
        """As `cache_unfinished`, but after those before it in the batch that end with the batch.

        They are released one by one, each in its turn; `cache_completed` comes when all are.
        """
        self._completed.append(request)

    def cache_completed(self) -> None:
        """Cache the requests whose turn has not come yet, in the order of the batch."""
        completed = self._completed
        while completed:
            self.cache_unfinished(completed.popleft())

    def cache_unfinished(self, request: Request) -> None:
        """Put what a running request has computed into the tree, where others can find it.

        Of tokens that the tree holds already its own copy is freed, and it goes on with the other.
        """
        if not self.prefix_caching:
            return
        node = self._insert(request)
        self.lock(node)
        self.unlock(self._held_nodes[request.request_id])
        self._held_nodes[request.request_id] = node

    def release(self, request: Request, num_hashed_blocks: int, can_resume: bool) -> None:
        """Free the tokens of a request.

        What a finished one has computed stays in the tree; what a retracted one (`can_resume`) has
        decoded is lost, and what it has prefilled stays until it is evicted.
        """
        completed = self._completed
        while completed and completed[0].admission_index < request.admission_index:
            self.cache_unfinished(completed.popleft())
        held = self._held_nodes[request.request_id]
        if can_resume or not self.prefix_caching:
            self._free(request.computed_tokens - held.end)
        else:
            self._offer(self._insert(request))
        self.unlock(held)
        del self._held_nodes[request.request_id]
        request.num_blocks = 0

    def _insert(self, request: Request) -> RadixNode:
        """Make all computed tokens of a request part of the tree; returns where they end.

        The caller locks that node or offers it for eviction.
        """
        tree, path, request_id = self._tree, request.kv_path, request.request_id
        end, held = request.computed_tokens, self._held_nodes[request_id]
        node, index = tree.walk(path, request_id, end, held)
        self._free(node.end - held.end)
        if node.end < end:
            self.queue.num_blocks += end - node.end
            node = tree.add_leaf(node, index, path, request_id, end)
        return node

    def _free(self, num_tokens: int) -> None:
        self.num_free_tokens += num_tokens
        self.queue.num_blocks += num_tokens

    # -- what only blocks have -------------------------------------------------------------------

    def hold(self, request: Request, hits: list[Hit]) -> None:
        """Never called: hits are locked nodes here."""
        raise NotImplementedError

    def name_output(self, request: Request, num_hashed_blocks: int) -> None:
        """Nothing: what a request decodes can be found when it has finished."""

    # -- integrity -------------------------------------------------------------------------------

    def check_integrity(self, num_held_blocks: int, held: list[Extent]) -> None:
        """Check the conservation of tokens, and every counter against the tree.

        Args:
            num_held_blocks: tokens that running requests hold, shared ones counted for each, and
                as if decoding requests had gained one in every step.
            held: not used.

        Raises:
            InvariantError: names the broken rule.
        """
        locked, evictable, holders = 0, 0, dict[int, int]()
        for node in self._held_nodes.values():
            holders[id(node)] = holders.get(id(node), 0) + 1
        for node, num_below in self._bottom_up():
            num_below += holders.pop(id(node), 0)
            if node.num_locks != num_below:
                raise InvariantError(f"2: {node} is held by {num_below}")
            if not node.num_locks and not node.children and not node.is_queued:
                raise InvariantError(f"2: {node} can never be evicted")
            locked += (node.end - node.start) * (node.num_locks > 0)
            evictable += (node.end - node.start) * (node.num_locks == 0)
        holders.pop(id(self._tree.root), None)
        if holders:
            raise InvariantError("2: a running request holds a node that is not in the tree")
        private = num_held_blocks - self.num_paused_steps()
        private -= sum([node.end for node in self._held_nodes.values()])
        if self.num_free_tokens + evictable != self.queue.num_blocks:
            raise InvariantError(
                f"2: {self.num_free_tokens} free + {evictable} evictable KV tokens, counter says "
                f"{self.queue.num_blocks}"
            )
        if self.queue.num_blocks + locked + private != self.num_usable_blocks:
            raise InvariantError(
                f"2: KV tokens: {self.num_free_tokens} free + {evictable} evictable + {locked} "
                f"locked + {private} private != {self.num_usable_blocks} usable"
            )

    def _bottom_up(self) -> list[tuple[RadixNode, int]]:
        """All nodes but the root, children first, each with the locks of its children."""
        nodes = list(self._tree.root.children.values())
        for node in nodes:
            nodes.extend(node.children.values())
        return [
            (node, sum([child.num_locks for child in node.children.values()]))
            for node in reversed(nodes)
        ]
