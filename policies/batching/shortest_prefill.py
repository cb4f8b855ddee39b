"""Shortest prefill first."""

from collections.abc import Iterable
from typing import ClassVar, Literal

from policies.batching.prefix_matches import CHECK_TOKENS, DEFER_TOKENS, PrefixMatches
from sim.interfaces import BatchPolicy, InstanceView
from sim.operations import OperationCounts
from sim.request import Request


class ShortestPrefill(BatchPolicy):
    """Order (deferred, tokens that the cache lacks, place in the queue).

    Deferred requests (`PrefixMatches`) share a prefix that is not cached with one ahead of them.
    A long prompt may wait for ever behind shorter ones.

    Args:
        check_tokens: as `PrefixMatches`.
        defer_tokens: as `PrefixMatches`.

    Raises:
        ConfigError: a value is out of range.

    Source: SGLang `schedule_policy.py`, policy `shortest-prefill-first` (2026, experimental);
    docs/policies/shortest_prefill.md.
    """

    decides: ClassVar[Literal["every_step", "on_change"]] = "every_step"

    operations: OperationCounts

    def __init__(self, check_tokens: int = CHECK_TOKENS, defer_tokens: int = DEFER_TOKENS) -> None:
        self.operations = OperationCounts()
        self._matches = PrefixMatches(check_tokens, defer_tokens, self.operations)

    def candidates(self, instance: InstanceView, now_s: float) -> Iterable[Request]:
        """The queue by what remains to be computed of each request now."""
        waiting = list(instance.waiting.values())
        cached_tokens, deferred = self._matches.of(instance, waiting)
        keys = [
            (request.request_id in deferred, request.total_tokens - cached)
            for request, cached in zip(waiting, cached_tokens, strict=True)
        ]
        return [waiting[i] for i in sorted(range(len(waiting)), key=keys.__getitem__)]
