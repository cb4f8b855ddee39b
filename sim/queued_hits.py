"""Tokens of waiting prompts that their router found in the cache when it sent them.

A prompt waits with all its tokens (`Loads.queued_prefill_tokens`), since what it hits is known only
at its admission. A router that knows the caches counts what it found missing and no more.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from mypy_extensions import mypyc_attr

from sim.interfaces import ClusterView, InstanceView, Router
from sim.load_arrays import IntArray, SparseMatch
from sim.loads import Loads, MatchPrefixes
from sim.request import Request

if TYPE_CHECKING:
    from sim.instance import Instance


@mypyc_attr(allow_interpreted_subclasses=True)
class QueuedHits:
    """Keeps `Loads.queued_hit_tokens` for a router that matches prefixes.

    Args:
        loads: counters of the cluster.
        router: the router.
        match: leading tokens of a request in the cache of each instance, as the router sees them.
        match_sparsely: the same, told in short.
    """

    def __init__(
        self,
        loads: Loads,
        router: Router,
        match: MatchPrefixes,
        match_sparsely: Callable[[Request], SparseMatch] | None = None,
    ) -> None:
        self._loads = loads
        self._decide: Callable[[Request, ClusterView, float], Any] = router.route
        self._match = match
        self._match_sparsely = match_sparsely
        self._request_id = -1
        self._matched: list[int] = []
        self._base: int | IntArray = 0
        self._more: Mapping[int, int] | None = None
        self._expected: dict[int, int] = {}

    def matched_tokens(self, request: Request) -> list[int]:
        """Match for the router; the answer is remembered until it has decided."""
        self._matched = matched = self._match(request)
        self._request_id = request.request_id
        self._more = None
        return matched

    def matched_sparsely(self, request: Request) -> SparseMatch:
        """The same as `matched_tokens`, told in short."""
        assert self._match_sparsely is not None
        self._base, self._more = match = self._match_sparsely(request)
        self._request_id = request.request_id
        return match

    def route(self, request: Request, view: ClusterView, now_s: float) -> Any:
        """The router's decision, whatever it is; what it expects to be hit there is noted."""
        choice = self._decide(request, view, now_s)
        if self._request_id == request.request_id:
            if self._more is not None:
                base = self._base
                tokens = self._more.get(choice, -1)
                if tokens < 0:
                    tokens = base if isinstance(base, int) else base.item(choice)
            else:
                try:
                    tokens = self._matched[choice] if choice >= 0 else 0
                except (TypeError, IndexError):
                    return choice  # the cluster refuses it
            if tokens:
                self._expected[request.request_id] = tokens
                self._loads.queued_hit_tokens[choice] += tokens
        return choice

    def expected_hit(self, request: Request) -> int:
        """Tokens of a request, sent and not yet admitted, that its router found in the cache."""
        return self._expected.get(request.request_id, 0)

    def watch(self, instance: "Instance") -> None:
        """Follow the admissions of an instance."""
        loads, expected, hooks = self._loads, self._expected, instance._hooks
        tell_policy = hooks.on_admit

        def on_admit(view: InstanceView, request: Request, now_s: float) -> None:
            tokens = expected.pop(request.request_id, 0)
            if tokens:
                loads.queued_hit_tokens[view.instance_id] -= tokens
            if tell_policy is not None:
                tell_policy(view, request, now_s)

        hooks.on_admit = on_admit
