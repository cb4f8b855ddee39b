"""What still fits into one prefill batch of SGLang.

Nothing is allocated before the batch is complete: the tokens of requests that it has admitted are
charged here, and their cached prefixes are locked.

Source: SGLang `schedule_policy.py`, class PrefillAdder.
"""

from enum import Enum, auto

from mypy_extensions import mypyc_attr

from sim.radix_cache import RadixCache
from sim.request import Request


class Verdict(Enum):
    """What trying a request came to."""

    ADDED = auto()
    """It is in the batch, and the next one may be tried."""
    LAST = auto()
    """It is in the batch, and nothing else goes in."""
    FILLS = auto()
    """It is in the batch and leaves no KV tokens for another one: the running batch is full."""
    NO_TOKENS = auto()
    """Too few KV tokens: the running batch is full."""
    NO_BUDGET = auto()
    """It does not go into this batch, but may go into the next one."""


@mypyc_attr(allow_interpreted_subclasses=True)
class PrefillAdder:
    """Budgets of one prefill batch, in tokens.

    Args:
        kv: cache of the instance.
        reserved_tokens: KV tokens kept for the output of the running requests.
        clip_tokens: output of one request that is reserved at most.
        rem_input_tokens: input that may still go in; the first request may exceed it.
        rem_chunk_tokens: tokens that may still be computed; a request with more input is cut.
        may_overdraw: whether the first request is admitted whatever is reserved, because nothing
            runs that could make room for it.

    Attributes:
        num_requests: requests in the batch.
        new_tokens: KV tokens that the batch computes.
        hit_tokens: cached tokens of the request added last.
        chunk_tokens: tokens of it that the batch computes.
    """

    __slots__ = (
        "_charged_tokens",
        "_clip_tokens",
        "_kv",
        "_may_overdraw",
        "_rem_chunk_tokens",
        "_rem_input_tokens",
        "_reserved_tokens",
        "chunk_tokens",
        "hit_tokens",
        "new_tokens",
        "num_requests",
    )

    def __init__(
        self,
        kv: RadixCache,
        *,
        reserved_tokens: float,
        clip_tokens: int,
        rem_input_tokens: int,
        rem_chunk_tokens: int,
        may_overdraw: bool,
    ) -> None:
        self._kv = kv
        self._reserved_tokens = reserved_tokens
        self._clip_tokens = clip_tokens
        self._rem_input_tokens = rem_input_tokens
        self._rem_chunk_tokens = rem_chunk_tokens
        self._may_overdraw = may_overdraw
        self._charged_tokens = 0
        self.num_requests = 0
        self.new_tokens = 0
        self.hit_tokens = 0
        self.chunk_tokens = 0

    def add_chunked(self, request: Request) -> None:
        """Go on with the request that an earlier batch has cut; it goes in whatever is left."""
        rest = request.total_tokens - request.computed_tokens
        self._charge(request, min(rest, self._rem_chunk_tokens), rest)

    def try_request(self, request: Request) -> Verdict:
        """Add a waiting request if it fits. Counts as an access to its cached prefix either way."""
        kv = self._kv
        total = request.prompt_tokens + request.generated_tokens
        node = kv.match(request, total - 1)
        extend = total - node.end
        can_overdraw = self._may_overdraw and not self.num_requests
        if not (can_overdraw or self._fits(request, extend)):
            return Verdict.NO_TOKENS
        if extend > self._rem_input_tokens and self.num_requests:
            return Verdict.NO_BUDGET
        kv.lock(node)
        # What the request hits cannot be evicted for it.
        if not (can_overdraw or self._fits(request, extend)):
            kv.unlock(node)
            return Verdict.NO_TOKENS
        if self._rem_chunk_tokens <= 0:
            kv.unlock(node)
            return Verdict.NO_BUDGET
        kv.hold_node(request, node)
        self.hit_tokens = node.end
        self._charge(request, min(extend, self._rem_chunk_tokens), extend)
        if self._rem_total_tokens <= 0:
            return Verdict.FILLS
        if self._rem_input_tokens <= 0 or self._rem_chunk_tokens <= 0:
            return Verdict.LAST
        return Verdict.ADDED

    @property
    def _rem_total_tokens(self) -> float:
        """KV tokens that are free or evictable, less those reserved and those charged."""
        return self._kv.queue.num_blocks - self._charged_tokens - self._reserved_tokens

    def _fits(self, request: Request, extend: int) -> bool:
        """Whether input and reserved output leave something over."""
        need = extend + min(request.output_tokens, self._clip_tokens)
        return need < self._rem_total_tokens

    def _charge(self, request: Request, num_tokens: int, rest: int) -> None:
        """Charge `num_tokens` of the `rest` that the request has to compute.

        Its output is charged with its last chunk only.
        """
        self.chunk_tokens = num_tokens
        self.num_requests += 1
        self.new_tokens += num_tokens
        self._charged_tokens += num_tokens
        if num_tokens == rest:
            self._charged_tokens += min(request.output_tokens, self._clip_tokens)
        self._rem_input_tokens -= num_tokens
        self._rem_chunk_tokens -= num_tokens
