"""A batch of equal contexts that share nothing: what a graph of fixed shape computes."""

from typing import NamedTuple

from sim.interfaces import RunningTree


class UniformBatch(NamedTuple):
    """A `DecodeBatchView` of `num_requests` contexts of `max_context_tokens` each."""

    num_requests: int
    max_context_tokens: int

    @property
    def context_tokens(self) -> int:
        """Sum of the contexts, tokens."""
        return self.num_requests * self.max_context_tokens

    @property
    def context_tokens_squared(self) -> int:
        """Sum of the squared contexts, tokens^2."""
        return self.num_requests * self.max_context_tokens**2

    @property
    def tree(self) -> RunningTree | None:
        """Nothing is shared."""
        return None


NOTHING = UniformBatch(0, 0)
"""No decodes."""
