"""The decoding requests of an instance as sums: nothing is touched per request per step.

Between events every decoding request gains one token per step, so the moments of the contexts are
polynomials in the step count, and the blocks needed by the next k steps follow from a histogram of
the requests' positions within their last block.
"""

from heapq import heapify, heappop, heappush

from sim.request import DECODING, Request
from sim.running_tree import RunningPrefixTree


class DecodeBatch:
    """Requests that decode, in aggregate.

    Attributes:
        block_phases: entry p (and p + block size): requests that need a block in the steps whose
            number is p modulo the block size; twice in a row, so that slices wrap around.
        finishes: heap of (finish step, admission index, request); entries of preempted requests
            are stale.
        num_requests: B.
        step: steps of the instance planned and applied so far.
        context_tokens: sum over requests of the context of the next step (tokens held + 1).
        context_tokens_squared: sum of the squares.
        tree: running prefix tree, or None.
    """

    __slots__ = (
        "_block_tokens",
        "_longest",
        "_members",
        "block_phases",
        "context_tokens",
        "context_tokens_squared",
        "finishes",
        "num_requests",
        "step",
        "tree",
    )

    def __init__(self, block_tokens: int, tree: RunningPrefixTree | None = None) -> None:
        self.num_requests = 0
        self.context_tokens = 0
        self.context_tokens_squared = 0
        self.tree = tree
        self.step = 0
        self._block_tokens = block_tokens
        self.block_phases = [0] * (2 * block_tokens)
        self.finishes: list[tuple[int, int, Request]] = []
        self._members: dict[int, Request] = {}
        self._longest = -1

    # -- membership ------------------------------------------------------------------------------

    def enter(self, request: Request) -> None:
        """A request whose prefill is complete begins to decode in the next step."""
        step = self.step
        held = request.computed_tokens
        request.phase = DECODING
        request.decode_start_step = step
        request.finish_step = step + request.output_tokens - request.generated_tokens
        heappush(self.finishes, (request.finish_step, request.admission_index, request))
        self.num_requests += 1
        self.context_tokens += held + 1
        self.context_tokens_squared += (held + 1) * (held + 1)
        self._count_phase((step - held) % self._block_tokens, 1)
        self._members[request.request_id] = request
        if self._longest >= 0 and held - step > self._longest_offset():
            self._longest = request.request_id
        if self.tree is not None:
            self.tree.add(request.kv_path)

    def leave(self, request: Request) -> None:
        """Take a request out, after finish or preemption, and bring its counters to now."""
        steps = self.step - request.decode_start_step
        held = request.computed_tokens + steps
        start, tokens = request.decode_start_step, request.computed_tokens
        self._count_phase((start - tokens) % self._block_tokens, -1)
        request.computed_tokens = held
        request.generated_tokens += steps
        request.num_blocks = -(-held // self._block_tokens)
        self.num_requests -= 1
        self.context_tokens -= held + 1
        self.context_tokens_squared -= (held + 1) * (held + 1)
        del self._members[request.request_id]
        if self._longest == request.request_id:
            self._longest = -1
        if self.tree is not None:
            self.tree.remove(request.kv_path)

    def pop_finished(self) -> list[Request]:
        """Requests whose last token the planned steps produce, in running order; they leave."""
        finished: list[Request] = []
        heap = self.finishes
        while heap and heap[0][0] <= self.step:
            _, admission_index, request = heappop(heap)
            if request.admission_index == admission_index and request.phase == DECODING:
                self.leave(request)
                finished.append(request)
        return finished

    # -- time ------------------------------------------------------------------------------------

    def advance(self, num_steps: int) -> bool:
        """Every request gains `num_steps` tokens; whether any may have finished."""
        self.step = step = self.step + num_steps
        count = self.num_requests
        if not count:
            return False
        grown = num_steps * count
        self.context_tokens_squared += num_steps * (2 * self.context_tokens + grown)
        self.context_tokens += grown
        return self.finishes[0][0] <= step

    def steps_to_first_finish(self) -> int:
        """Steps until the first request produces its last token (B >= 1)."""
        heap = self.finishes
        while True:
            finish_step, admission_index, request = heap[0]
            if request.admission_index == admission_index and request.phase == DECODING:
                return finish_step - self.step
            heappop(heap)

    @property
    def max_context_tokens(self) -> int:
        """Longest context of the next step, tokens; 0 when nothing decodes."""
        if not self.num_requests:
            return 0
        return self._longest_offset() + self.step + 1

    def _longest_offset(self) -> int:
        """Largest (tokens held - step); it is constant while a request decodes."""
        if self._longest < 0:
            self._longest = max(
                self._members.values(),
                key=lambda r: (r.computed_tokens - r.decode_start_step, r.request_id),
            ).request_id
        request = self._members[self._longest]
        return request.computed_tokens - request.decode_start_step

    # -- block demand ----------------------------------------------------------------------------

    def _count_phase(self, phase: int, change: int) -> None:
        self.block_phases[phase] += change
        self.block_phases[phase + self._block_tokens] += change

    def blocks_for_steps(self, num_steps: int) -> int:
        """D(k): blocks that the next `num_steps` steps need together."""
        cycles, rest = divmod(num_steps, self._block_tokens)
        phase = self.step % self._block_tokens
        return self.num_requests * cycles + sum(self.block_phases[phase : phase + rest])

    def steps_within_blocks(self, num_blocks: int) -> int:
        """Largest k with D(k) <= num_blocks (B >= 1)."""
        cycles, left = divmod(num_blocks, self.num_requests)
        phase = self.step % self._block_tokens
        rest = 0
        while rest < self._block_tokens - 1:
            left -= self.block_phases[phase + rest]
            if left < 0:
                break
            rest += 1
        return cycles * self._block_tokens + rest

    def forget_stale_finishes(self) -> None:
        """Drop heap entries of requests that were preempted, once they outnumber the others."""
        if len(self.finishes) > 2 * self.num_requests + 64:
            self.finishes = [
                item
                for item in self.finishes
                if item[2].phase == DECODING and item[2].admission_index == item[1]
            ]
            heapify(self.finishes)
