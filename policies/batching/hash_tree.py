"""The plain queue of the Chunked Hash Tree: a batch grows while little is added to it."""

from collections.abc import Iterator

from policies.batching.feather.tree_policy import TreePolicy
from sim.errors import ConfigError
from sim.interfaces import InstanceView
from sim.request import Request

CHUNK_TOKENS = 500
"""Tokens per chunk. Source: Feather's public code, plain queue."""

MAX_MISSING_CHUNKS = 1
"""Chunks that a request may add to the working set. Source: as above."""


class HashTree(TreePolicy):
    """The waiting request with the fewest chunks outside the working set, if that is few enough.

    The batch closes for this step when the best one would add more than `max_missing_chunks`; the
    first request of an empty batch always goes. Ties go to the earliest arrival.

    Args:
        chunk_tokens: K, tokens per chunk.
        max_missing_chunks: chunks that a request may add, >= 0.

    Raises:
        ConfigError: a value is out of range.

    Source: Feather's public code, plain queue.
    """

    def __init__(
        self, chunk_tokens: int = CHUNK_TOKENS, max_missing_chunks: int = MAX_MISSING_CHUNKS
    ) -> None:
        super().__init__(chunk_tokens)
        if max_missing_chunks < 0:
            raise ConfigError(f"batching.max_missing_chunks={max_missing_chunks}: must be >= 0")
        self._max_missing = max_missing_chunks

    def candidates(self, instance: InstanceView, now_s: float) -> Iterator[Request]:
        """The tree's best, again and again."""
        running, tree = instance.running, self._tree
        while (best := tree.find_best()) is not None:
            if running and best.missing > self._max_missing:
                return
            yield best.request
