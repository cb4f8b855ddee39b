"""Longest prefix match first."""

from collections.abc import Iterable
from math import inf
from typing import ClassVar, Literal

from policies.batching.prefix_matches import CHECK_TOKENS, DEFER_TOKENS, PrefixMatches
from sim.errors import ConfigError
from sim.interfaces import BatchPolicy, InstanceView
from sim.operations import OperationCounts
from sim.request import Request

MAX_WAITING = 128
"""Requests beyond which the queue is not sorted. Source: SGLang `schedule_policy.py`,
`_determine_active_policy`."""


class LPM(BatchPolicy):
    """Order (deferred, -cached tokens, place in the queue); a long queue is left as it is.

    Deferred requests (`PrefixMatches`) share a prefix that is not cached with one ahead of them.

    Args:
        max_waiting: requests up to which the queue is sorted; with more it is first come, first
            served, and nothing is matched.
        check_tokens: as `PrefixMatches`.
        defer_tokens: as `PrefixMatches`.

    Raises:
        ConfigError: a value is out of range.

    Source: SGLang `schedule_policy.py`, policy `lpm`; docs/policies/lpm.md.
    """

    decides: ClassVar[Literal["every_step", "on_change"]] = "every_step"

    operations: OperationCounts

    def __init__(
        self,
        max_waiting: int = MAX_WAITING,
        check_tokens: int = CHECK_TOKENS,
        defer_tokens: int = DEFER_TOKENS,
    ) -> None:
        if max_waiting < 0:
            raise ConfigError(f"batching.max_waiting={max_waiting}: must be at least 0")
        self.operations = OperationCounts()
        self._max_waiting = max_waiting
        self._matches = PrefixMatches(check_tokens, defer_tokens, self.operations)

    def candidates(self, instance: InstanceView, now_s: float) -> Iterable[Request]:
        """The queue by what the cache holds of each request now."""
        waiting = list(instance.waiting.values())
        if len(waiting) > self._max_waiting:
            return waiting
        cached_tokens, deferred = self._matches.of(instance, waiting)
        keys = [
            inf if request.request_id in deferred else -cached
            for request, cached in zip(waiting, cached_tokens, strict=True)
        ]
        return [waiting[i] for i in sorted(range(len(waiting)), key=keys.__getitem__)]
