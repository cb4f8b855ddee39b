"""The same by tokens: a batch grows while it has to read few more tokens."""

from collections.abc import Iterator

from policies.batching.feather.tree_policy import TreePolicy
from sim.errors import ConfigError
from sim.interfaces import InstanceView
from sim.request import Request

MAX_MISSING_TOKENS = 50
"""Tokens that a request may add to the working set. Source: Feather's public code."""


class RadixCost(TreePolicy):
    """The waiting request with the fewest tokens outside the working set, if these are few enough.

    A token-level radix tree in the place of chunk hashes. The batch closes for this step when the
    best one would add more than `max_missing_tokens`; the first request of an empty batch always
    goes. Ties go to the earliest arrival.

    Args:
        max_missing_tokens: tokens that a request may add, >= 0.

    Raises:
        ConfigError: the value is out of range.

    Source: Feather's public code, `radix_cost`. That it keeps counts as the hash tree does is
    inferred.
    """

    def __init__(self, max_missing_tokens: int = MAX_MISSING_TOKENS) -> None:
        super().__init__(chunk_tokens=1)
        if max_missing_tokens < 0:
            raise ConfigError(f"batching.max_missing_tokens={max_missing_tokens}: must be >= 0")
        self._max_missing = max_missing_tokens

    def candidates(self, instance: InstanceView, now_s: float) -> Iterator[Request]:
        """The tree's best, again and again."""
        running, tree = instance.running, self._tree
        while (best := tree.find_best()) is not None:
            if running and best.missing > self._max_missing:
                return
            yield best.request
