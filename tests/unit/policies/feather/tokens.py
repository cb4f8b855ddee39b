"""Random requests over a prefix tree with every token spelled out, and the tree per key."""

from collections import Counter

import numpy as np

from sim.request import Request
from sim.workload import Workload
from tests.twin.stories import Ask, workload_of

Tokens = tuple[tuple[str, int, int], ...]
"""Every token as ("node", node, offset) or ("private", request, offset)."""


def random_requests(seed: int, num_requests: int = 14) -> tuple[Workload, list[Request]]:
    """Requests with nested, repeated, private and continued prompts; some have generated tokens."""
    rng = np.random.default_rng(seed)
    nodes: list[tuple[int, int]] = []
    paths: list[tuple[int, ...]] = [()]
    for _ in range(int(rng.integers(1, 9))):
        above = paths[int(rng.integers(len(paths)))]
        nodes.append((above[-1] if above else -1, int(rng.integers(1, 14))))
        paths.append((*above, len(nodes) - 1))
    asks: list[Ask] = []
    for _ in range(num_requests):
        path = paths[int(rng.integers(len(paths)))]
        length = sum(nodes[node][1] for node in path)
        output = int(rng.integers(1, 12))
        private = int(rng.integers(0, 9)) if rng.random() < 0.6 else 0
        if not path:
            private += 1
        output_node = -1
        if not private and rng.random() < 0.6:
            nodes.append((path[-1], output))
            output_node = len(nodes) - 1
            paths.append((*path, output_node))
        asks.append(Ask(0.0, length + private, output, path, output_node))
    workload = workload_of(asks, nodes)
    requests = []
    for row, ask in enumerate(asks):
        shared = sum(nodes[node][1] for node in ask.path)
        request = Request(
            workload,
            row,
            float(rng.integers(0, 3)),
            ask.prompt,
            ask.output,
            ask.path,
            ask.prompt - shared,
            ask.output_node,
        )
        if rng.random() < 0.4:
            request.generated_tokens = int(rng.integers(0, ask.output + 1))
        requests.append(request)
    return workload, requests


def tokens_of(workload: Workload, request: Request) -> Tokens:
    """Every token that a request has to prefill."""
    tokens: list[tuple[str, int, int]] = []
    path = list(request.path)
    if request.output_node >= 0:
        path.append(request.output_node)
    for node in path:
        size = int(workload.tree.num_tokens[node])
        tokens += [("node", node, k) for k in range(size)]
    owner = request.request_id
    tokens += [("private", owner, k) for k in range(request.private_tokens)]
    if request.output_node < 0:
        tokens += [("private", owner, 1000 + k) for k in range(request.generated_tokens)]
    return tuple(tokens[: request.prompt_tokens + request.generated_tokens])


def chunk_prefixes(tokens: Tokens, chunk_tokens: int) -> list[Tokens]:
    """What a chained hash stands for: all tokens up to the end of each chunk."""
    ends = [*range(chunk_tokens, len(tokens), chunk_tokens), len(tokens)]
    return [tokens[:end] for end in ends]


class KeyedTree:
    """The published sets, recomputed from nothing at every question."""

    def __init__(self, workload: Workload, chunk_tokens: int) -> None:
        self.workload = workload
        self.chunk_tokens = chunk_tokens
        self.waiting: dict[int, Request] = {}
        self.active: dict[int, Request] = {}

    def keys(self, request: Request) -> list[Tokens]:
        return chunk_prefixes(tokens_of(self.workload, request), self.chunk_tokens)

    @property
    def working_set(self) -> Counter[Tokens]:
        return Counter(key for request in self.active.values() for key in self.keys(request))

    def missing(self, request: Request) -> int:
        held = self.working_set
        return sum(key not in held for key in self.keys(request))

    def chain(self) -> list[Tokens]:
        """Leading keys of all active requests."""
        held = self.working_set
        shared = {key for key, count in held.items() if count == len(self.active)}
        return sorted(shared, key=len)

    def best(self) -> tuple[int, int, int, int, int] | None:
        """(request, missing, before, after, sharing) as `find_best` answers."""
        if not self.waiting:
            return None
        chosen = min(
            self.waiting.values(), key=lambda r: (self.missing(r), r.arrival_s, r.request_id)
        )
        chain, keys = self.chain(), self.keys(chosen)
        after = len(keys)
        if self.active:
            after = sum(a == b for a, b in zip(chain, keys, strict=False))
        sharing = 0
        if after:
            last = keys[after - 1]
            sharing = sum(last in self.keys(request) for request in self.waiting.values())
        return chosen.request_id, self.missing(chosen), len(chain), after, sharing
