"""What a run of the twin reports: per request, per step, and in total."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class RequestLog:
    """One request.

    Attributes:
        admission_plan_s: time of the plan of every admission.
        admission_steps: step (from 1) of every admission.
        hit_blocks: blocks found in the prefix cache at every admission.
        cached_tokens: tokens found at the first admission.
        num_preemptions: times it lost its KV.
        token_steps: step in which each of its tokens was computed.
        finish_step: step in which its last token was computed.
    """

    request_id: int
    admission_plan_s: list[float] = field(default_factory=list)
    admission_steps: list[int] = field(default_factory=list)
    hit_blocks: list[int] = field(default_factory=list)
    cached_tokens: int = 0
    num_preemptions: int = 0
    token_steps: list[int] = field(default_factory=list)
    finish_step: int = 0

    @property
    def first_token_step(self) -> int:
        return self.token_steps[0]


@dataclass(frozen=True, slots=True)
class Chunk:
    """Prefill work of one request in one step.

    Attributes:
        new_tokens: tokens computed.
        prefix_tokens: tokens whose KV exists before them, hits included.
        is_last: whether the request emits a token in this step.
    """

    new_tokens: int
    prefix_tokens: int
    is_last: bool


@dataclass(slots=True)
class StepLog:
    """One executed step.

    Attributes:
        planned_s: time at which it was planned (before `start_s` under asynchronous scheduling).
        start_s: time at which it starts.
        end_s: time at which it ends.
        scheduled: (request, tokens) in the order of the plan.
        num_decodes: requests that decode.
        context_sum: KV tokens read by the decodes, each one's own new token included.
        chunks: prefill work.
        free_blocks: length of the free queue after planning.
    """

    planned_s: float
    start_s: float
    end_s: float
    scheduled: tuple[tuple[int, int], ...]
    num_decodes: int
    context_sum: int
    chunks: tuple[Chunk, ...]
    free_blocks: int


@dataclass(frozen=True, slots=True)
class TwinResult:
    """A whole run; step `n` (counted from 1) is `steps[n - 1]`."""

    requests: list[RequestLog]
    steps: list[StepLog]
    arrival_s: list[float]

    @property
    def step_end_s(self) -> list[float]:
        return [step.end_s for step in self.steps]

    @property
    def free_blocks(self) -> list[int]:
        """Free blocks after the plan of each step."""
        return [step.free_blocks for step in self.steps]

    @property
    def min_free_blocks(self) -> int:
        return min(self.free_blocks)

    @property
    def num_preemptions(self) -> int:
        return sum(request.num_preemptions for request in self.requests)
