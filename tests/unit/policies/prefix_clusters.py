"""Views with given prefix hits, and requests that share prefixes."""

from collections.abc import Sequence

from sim.arrivals import requests_of
from sim.loads import Loads
from sim.request import Request
from tests.twin.stories import Ask, workload_of


def view_of(
    matched: Sequence[int] | None = None,
    *,
    waiting: Sequence[int] | None = None,
    running: Sequence[int] | None = None,
    queued: Sequence[int] | None = None,
    queued_hits: Sequence[int] | None = None,
    kv_tokens: Sequence[int] | None = None,
    kv_usage: Sequence[float] | None = None,
    num_instances: int = 3,
) -> Loads:
    """A live view; what is left out is 0 everywhere."""
    given = [c for c in (matched, waiting, running, queued, kv_tokens, kv_usage) if c is not None]
    n = len(given[0]) if given else num_instances
    loads = Loads(n)
    loads.num_waiting = list(waiting or [0] * n)
    loads.num_running = list(running or [0] * n)
    loads.num_requests = [w + r for w, r in zip(loads.num_waiting, loads.num_running, strict=True)]
    loads.prefill_tokens = list(queued or [0] * n)
    loads.queued_hit_tokens = list(queued_hits or [0] * n)
    hits, held, usage = matched or [0] * n, kv_tokens or [0] * n, kv_usage or [0.0] * n
    loads.match = lambda _request: list(hits)
    loads.kv_tokens_at = lambda i, _time_s: held[i]
    loads.kv_usage_at = lambda i, _time_s: usage[i]
    return loads


def prompt_of(tokens: int, request_id: int = 0) -> Request:
    """A request that shares nothing."""
    return Request(None, request_id, 0.0, tokens, 1)


def sharing(
    nodes: Sequence[tuple[int, int]], prompts: Sequence[tuple[int, tuple[int, ...]]]
) -> list[Request]:
    """Requests of (prompt tokens, path) over a tree of (parent, tokens)."""
    asks = [Ask(0.0, tokens, 1, path) for tokens, path in prompts]
    return list(requests_of(workload_of(asks, nodes)))
