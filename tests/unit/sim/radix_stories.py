"""Small radix caches and running requests for tests, without an engine."""

from collections.abc import Sequence

from sim.kv_cache import KvCache
from sim.prefix_tree import BlockGeometry
from sim.radix_cache import RadixCache
from sim.request import PREFILLING, Request
from tests.twin.stories import workload_of

Nodes = Sequence[tuple[int, int]]


def radix_cache(num_tokens: int, nodes: Nodes = (), *, prefix_caching: bool = True) -> RadixCache:
    """An empty cache over a prefix tree of `nodes`, each (parent, tokens)."""
    geometry = BlockGeometry.of(workload_of([], nodes).tree, 1)
    cache = RadixCache(KvCache(num_tokens + 1, geometry, prefix_caching))
    cache.num_paused_steps = lambda: 0
    return cache


class Story:
    """Requests that come and go in a cache, which is checked after every move."""

    def __init__(self, num_tokens: int, nodes: Nodes = (), *, prefix_caching: bool = True) -> None:
        self.kv = radix_cache(num_tokens, nodes, prefix_caching=prefix_caching)
        self.running: list[Request] = []
        self._num_requests = 0

    def ask(self, prompt: int, output: int = 1, path: tuple[int, ...] = ()) -> Request:
        request = Request(None, self._num_requests, 0.0, prompt, output, path)
        self._num_requests += 1
        return request

    def prefill(self, request: Request) -> int:
        """Admit and compute a request, but do not cache it yet; returns the tokens it hit."""
        node = self.kv.match(request, request.total_tokens - 1)
        self.kv.lock(node)
        self.kv.hold_node(request, node)
        self.kv.allocate(request.total_tokens - node.end)
        request.phase = PREFILLING
        request.computed_tokens = request.total_tokens
        self.running.append(request)
        self.check()
        return node.end

    def start(self, request: Request) -> int:
        """Admit, compute and cache a request; returns the tokens it hit."""
        hits = self.prefill(request)
        self.kv.cache_unfinished(request)
        self.check()
        return hits

    def decode(self, request: Request, num_tokens: int) -> None:
        self.kv.step_tokens = 1
        self.kv.take(num_tokens)
        request.computed_tokens += num_tokens
        request.generated_tokens += num_tokens
        self.check()

    def end(self, request: Request, *, is_retracted: bool = False) -> None:
        self.running.remove(request)
        self.kv.release(request, 0, is_retracted)
        if is_retracted:
            request.computed_tokens = 0
        self.check()

    def serve(self, request: Request) -> int:
        """Start and end a request; returns the tokens it hit."""
        hits = self.start(request)
        self.end(request)
        return hits

    def cached(self, request: Request) -> int:
        """Tokens of a request that are in the tree now."""
        return self.kv.lookup(request, request.total_tokens - 1)[1]

    def check(self) -> None:
        self.kv.check_integrity(sum(r.computed_tokens for r in self.running), [])
