"""Times the operations that scheduling policies are made of, in plain Python on this machine.

    python -m tests.bench.scheduler_operations

prints seconds per operation as `sim.scheduler_cost.SchedulerCost` names them, from a radix tree
whose edges are token lists compared token by token, a hash tree whose chunk hashes are fed token by
token, a heap, and a sort. CPU time, best of several repeats; differences between sizes separate the
terms.
"""

import hashlib
import heapq
import platform
import time
from collections.abc import Callable

import numpy as np

PROMPT_TOKENS = 10_000
CHUNK_TOKENS = 50
REPEATS = 15


class Edge:
    """A node of a radix tree: a token list and the nodes after it, by first token."""

    def __init__(self, tokens: list[int]) -> None:
        self.tokens = tokens
        self.children: dict[int, Edge] = {}
        self.last_access = 0.0


def chain(tokens: list[int], num_nodes: int) -> Edge:
    """Root of a tree that holds `tokens` in so many equal nodes, one below the other."""
    root = node = Edge([])
    size = len(tokens) // num_nodes
    for start in range(0, size * num_nodes, size):
        child = Edge(tokens[start : start + size])
        node.children[child.tokens[0]] = child
        node = child
    return root


def match(root: Edge, tokens: list[int]) -> int:
    """Leading tokens found in the tree."""
    node, found = root, 0
    while tokens:
        child = node.children.get(tokens[0])
        if child is None:
            break
        child.last_access = time.monotonic()
        agreed = 0
        for ours, theirs in zip(tokens, child.tokens, strict=False):
            if ours != theirs:
                break
            agreed += 1
        found += agreed
        if agreed < len(child.tokens):
            break
        tokens = tokens[agreed:]
        node = child
    return found


def chunk_keys(tokens: list[int], chunk_tokens: int) -> list[tuple[int, int]]:
    """Chained (level, hash) of the chunks of a prompt."""
    keys = []
    digest = b""
    for level, start in enumerate(range(0, len(tokens), chunk_tokens)):
        state = hashlib.blake2b(digest, digest_size=8)
        for token in tokens[start : start + chunk_tokens]:
            state.update(token.to_bytes(4, "little"))
        digest = state.digest()
        keys.append((level, int.from_bytes(digest, "little")))
    return keys


class HashTree:
    """Waiting requests by chunk key, and reference counts of the keys of running ones."""

    def __init__(self) -> None:
        self.waiting: dict[tuple[int, int], set[int]] = {}
        self.references: dict[tuple[int, int], int] = {}

    def insert(self, request: int, keys: list[tuple[int, int]]) -> int:
        """Register a request; returns the keys that no running request has."""
        missing = 0
        for key in keys:
            if not self.references.get(key, 0):
                missing += 1
            holders = self.waiting.get(key)
            if holders is None:
                self.waiting[key] = {request}
            else:
                holders.add(request)
        return missing


def best_s(work: Callable[[], object], times: int) -> float:
    """Seconds of one call of `work`, the best of several repeats of `times` calls."""
    found = float("inf")
    for _ in range(REPEATS):
        start = time.process_time()
        for _ in range(times):
            work()
        found = min(found, (time.process_time() - start) / times)
    return found


def radix_costs(tokens: list[int]) -> tuple[float, float, float]:
    """Seconds per token compared, per node visited, and of a match of the whole prompt."""
    few = chain(tokens, 1)
    short = tokens[:100]
    long_s = best_s(lambda: match(few, tokens), 40)
    token_s = (long_s - best_s(lambda: match(few, short), 4000)) / (len(tokens) - 100)
    small = chain(short, 1), chain(short, 100)
    node_s = best_s(lambda: match(small[1], short), 1000) - best_s(
        lambda: match(small[0], short), 4000
    )
    return token_s, node_s / 99, long_s


def hash_costs(tokens: list[int]) -> tuple[float, float, float, float]:
    """Seconds per key hashed, per token hashed, per key visited, and of the insertion of all."""
    fine, coarse = CHUNK_TOKENS // 5, CHUNK_TOKENS
    fine_s = best_s(lambda: chunk_keys(tokens, fine), 10)
    coarse_s = best_s(lambda: chunk_keys(tokens, coarse), 10)
    num_fine, num_coarse = len(tokens) // fine, len(tokens) // coarse
    key_s = (fine_s - coarse_s) / (num_fine - num_coarse)
    token_s = (coarse_s - num_coarse * key_s) / len(tokens)
    keys = chunk_keys(tokens, CHUNK_TOKENS)
    trees = [HashTree() for _ in range(REPEATS * 50)]
    supply = iter(trees)
    visit_s = best_s(lambda: next(supply).insert(0, keys), 50) / len(keys)
    return key_s, token_s, visit_s, coarse_s + visit_s * len(keys)


def heap_cost(size: int = 1000) -> float:
    """Seconds per push or pop of a (count, id) pair."""
    heap = [(i % 97, i) for i in range(size)]
    heapq.heapify(heap)

    def push_and_pop() -> None:
        entry = heapq.heappop(heap)
        heapq.heappush(heap, (entry[0] + 89, entry[1]))

    return best_s(push_and_pop, 20_000) / 2


def candidate_cost(size: int = 128) -> float:
    """Seconds per request of a sort by an attribute that is looked up for each."""

    class Waiting:
        def __init__(self, length: int, request: str) -> None:
            self.prefix = [0] * length
            self.request = request

    order = np.random.default_rng(0).permutation(size).tolist()
    queue = [Waiting(length, f"request-{length}") for length in order]
    deferred = {queue[i].request for i in range(0, size, 7)}
    work = lambda: sorted(  # noqa: E731
        queue, key=lambda r: -len(r.prefix) if r.request not in deferred else float("inf")
    )
    return best_s(work, 500) / size


def main() -> None:
    """Measure and print."""
    tokens = np.random.default_rng(0).integers(1000, 100_000, PROMPT_TOKENS).tolist()
    token_s, node_s, match_s = radix_costs(tokens)
    key_s, hashed_s, visit_s, insert_s = hash_costs(tokens)
    rows = {
        "token_compared_s": token_s,
        "node_visit_s (radix)": node_s,
        "node_visit_s (hash tree)": visit_s,
        "key_hashed_s": key_s,
        "token_hashed_s": hashed_s,
        "heap_operation_s": heap_cost(),
        "candidate_s": candidate_cost(),
    }
    print(f"Python {platform.python_version()} on {platform.machine()}")
    for name, seconds in rows.items():
        print(f"{name:<26}{seconds * 1e9:10.1f} ns")
    print(f"radix match of {PROMPT_TOKENS:,} tokens in one node   {match_s * 1e3:6.3f} ms")
    print(f"hash-tree insertion of {PROMPT_TOKENS:,} tokens       {insert_s * 1e3:6.3f} ms")


if __name__ == "__main__":
    main()
