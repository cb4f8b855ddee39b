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
        num_requests: B.
        step: steps of the instance planned and applied so far.
        context_tokens: sum over requests of the context of the next step (tokens held + 1).
        context_tokens_squared: sum of the squares.
        tree: running prefix tree, or None.
    """

    __slots__ = (
        "_block_phases",
        "_block_tokens",
        "_finishes",
        "_longest",
        "_members",
        "context_tokens",
        "context_tokens_squared",
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
        self._block_phases = [0] * block_tokens
        self._finishes: list[tuple[int, int, Request]] = []
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
        heappush(self._finishes, (request.finish_step, request.admission_index, request))
        self.num_requests += 1
        self.context_tokens += held + 1
        self.context_tokens_squared += (held + 1) * (held + 1)
        self._block_phases[(step - held) % self._block_tokens] += 1
        self._members[request.request_id] = request
        if self._longest >= 0 and held - step > self._longest_offset():
            self._longest = request.request_id
        if self.tree is not None:
            self.tree.add(request.kv_path)

    def leave(self, request: Request) -> None:
        """Take a request out, after finish or preemption, and bring its counters to now."""
        steps = self.step - request.decode_start_step
        held = request.computed_tokens + steps
        self._block_phases[
            (request.decode_start_step - request.computed_tokens) % self._block_tokens
        ] -= 1
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
        heap = self._finishes
        while heap and heap[0][0] <= self.step:
            _, admission_index, request = heappop(heap)
            if request.phase == DECODING and request.admission_index == admission_index:
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
        return self._finishes[0][0] <= step

    @property
    def steps_to_first_finish(self) -> int:
        """Steps until the first request produces its last token (B >= 1)."""
        heap = self._finishes
        while True:
            finish_step, admission_index, request = heap[0]
            if request.phase == DECODING and request.admission_index == admission_index:
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

    @property
    def blocks_next_step(self) -> int:
        """Blocks that the next step needs."""
        return self._block_phases[self.step % self._block_tokens]

    def blocks_for_steps(self, num_steps: int) -> int:
        """D(k): blocks that the next `num_steps` steps need together."""
        cycles, rest = divmod(num_steps, self._block_tokens)
        needed = self.num_requests * cycles
        phases, size, step = self._block_phases, self._block_tokens, self.step
        for offset in range(step, step + rest):
            needed += phases[offset % size]
        return needed

    def steps_within_blocks(self, num_blocks: int) -> int:
        """Largest k with D(k) <= num_blocks (B >= 1)."""
        cycles = num_blocks // self.num_requests
        left = num_blocks - self.num_requests * cycles
        phases, size, step = self._block_phases, self._block_tokens, self.step
        rest = 0
        while rest < size - 1:
            left -= phases[(step + rest) % size]
            if left < 0:
                break
            rest += 1
        return cycles * size + rest

    def forget_stale_finishes(self) -> None:
        """Drop heap entries of requests that were preempted, once they outnumber the others."""
        if len(self._finishes) > 2 * self.num_requests + 64:
            self._finishes = [
                item
                for item in self._finishes
                if item[2].phase == DECODING and item[2].admission_index == item[1]
            ]
            heapify(self._finishes)
