"""State of a request inside the twin, and the content of one step."""

from dataclasses import dataclass, field

from tests.twin.content import BlockKey
from tests.twin.result import Chunk, RequestLog, StepLog


@dataclass(slots=True, eq=False)
class TwinRequest:
    """A request inside the twin; equal only to itself.

    Attributes:
        num_computed: tokens with KV, those of planned steps included.
        num_delivered: generated tokens whose values are known.
        num_in_flight: generated tokens (0 or 1) of the step that executes or is queued.
        has_emitted: whether it emitted since its last admission, tokens in flight included.
        blocks: KV blocks held, first block first.
        num_hashed: how many of them, from the first on, have a hash.
    """

    prompt: int
    output: int
    keys: list[BlockKey]
    log: RequestLog
    num_computed: int = 0
    num_delivered: int = 0
    num_in_flight: int = 0
    has_emitted: bool = False
    blocks: list[int] = field(default_factory=list)
    num_hashed: int = 0

    @property
    def num_known(self) -> int:
        """Tokens whose values are known."""
        return self.prompt + self.num_delivered

    @property
    def num_generated(self) -> int:
        return self.num_delivered + self.num_in_flight

    @property
    def num_remaining(self) -> int:
        """Tokens still to compute before it emits its next one."""
        return self.prompt + self.num_generated - self.num_computed


@dataclass(slots=True)
class Plan:
    """What one step will compute."""

    index: int
    planned_s: float
    scheduled: list[tuple[TwinRequest, int]] = field(default_factory=list)
    emitting: list[TwinRequest] = field(default_factory=list)
    num_decodes: int = 0
    context_sum: int = 0
    chunks: list[Chunk] = field(default_factory=list)
    num_free_blocks: int = 0

    def add(self, request: TwinRequest, tokens: int) -> None:
        """Schedule `tokens` of `request`; its state already counts as computed afterwards."""
        assert tokens > 0
        is_last = tokens == request.num_remaining
        if request.has_emitted and request.num_remaining == 1:
            self.num_decodes += 1
            self.context_sum += request.num_computed + 1
        else:
            self.chunks.append(Chunk(tokens, request.num_computed, is_last))
        self.scheduled.append((request, tokens))
        request.num_computed += tokens
        if is_last:
            self.emitting.append(request)
            request.num_in_flight += 1
            request.has_emitted = True

    def log(self, *, start_s: float, end_s: float) -> StepLog:
        return StepLog(
            planned_s=self.planned_s,
            start_s=start_s,
            end_s=end_s,
            scheduled=tuple((request.log.request_id, n) for request, n in self.scheduled),
            num_decodes=self.num_decodes,
            context_sum=self.context_sum,
            chunks=tuple(self.chunks),
            free_blocks=self.num_free_blocks,
        )
