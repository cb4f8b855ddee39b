"""The decoding requests of an instance as sums: nothing is touched per request per step.

Between events every decoding request gains one token per step, so the moments of the contexts are
polynomials in the step count, and the blocks needed by the next k steps follow from a histogram of
the requests' positions within their last block.
"""

from heapq import heapify, heappop, heappush

from mypy_extensions import mypyc_attr

from sim.request import DECODING, FINISHED, Request
from sim.running_tree import RunningPrefixTree

_FEW = 24
"""Requests among which the longest is found faster without a heap."""


@mypyc_attr(allow_interpreted_subclasses=True)
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
        tree: running prefix tree, or None.
    """

    __slots__ = (
        "_block_tokens",
        "_longest",
        "_longest_offset",
        "_squared_offsets",
        "block_phases",
        "context_tokens",
        "finishes",
        "num_requests",
        "step",
        "tree",
    )

    def __init__(self, block_tokens: int, tree: RunningPrefixTree | None = None) -> None:
        self.num_requests = 0
        self.context_tokens = 0
        self.tree = tree
        self.step = 0
        self.block_phases = [0] * (2 * block_tokens)
        self.finishes: list[tuple[int, int, Request]] = []
        self._block_tokens = block_tokens
        self._squared_offsets = 0
        # Heap of (-offset, admission index, request) once somebody has asked for the longest of a
        # batch in which looking at every request would take longer.
        self._longest: list[tuple[int, int, Request]] | None = None
        self._longest_offset: int | None = None  # None: to be looked up

    # -- membership ------------------------------------------------------------------------------
    # While a request decodes, its offset (tokens held - steps of the instance) is constant.

    def enter(self, request: Request) -> None:
        """A request whose prefill is complete begins to decode in the next step."""
        step, held, size = self.step, request.computed_tokens, self._block_tokens
        finish_step = step + request.output_tokens - request.generated_tokens
        request.phase = DECODING
        request.decode_start_step = step
        request.finish_step = finish_step
        heappush(self.finishes, (finish_step, request.admission_index, request))
        offset = held - step
        self.num_requests += 1
        self.context_tokens += held + 1
        self._squared_offsets += offset * offset
        phases, phase = self.block_phases, -offset % size
        phases[phase] += 1
        phases[phase + size] += 1
        if self._longest is not None:
            heappush(self._longest, (-offset, request.admission_index, request))
        if self._longest_offset is not None and offset > self._longest_offset:
            self._longest_offset = offset
        if self.tree is not None and request.kv_path:
            self.tree.add(request.kv_path if request.output_node < 0 else request.prompt_nodes)

    def leave(self, request: Request) -> None:
        """Take a request out, after finish or preemption, and bring its counters to now."""
        step, start, size = self.step, request.decode_start_step, self._block_tokens
        offset = request.computed_tokens - start
        held = offset + step
        request.computed_tokens = held
        request.generated_tokens += step - start
        request.num_blocks = -(-held // size)
        self.num_requests -= 1
        self.context_tokens -= held + 1
        self._squared_offsets -= offset * offset
        if offset == self._longest_offset:
            self._longest_offset = None
        phases, phase = self.block_phases, -offset % size
        phases[phase] -= 1
        phases[phase + size] -= 1
        if self.tree is not None and request.kv_path:
            self.tree.remove(request.kv_path if request.output_node < 0 else request.prompt_nodes)

    def pop_finished(self) -> list[Request]:
        """Requests whose last token the planned steps produce, in running order; they leave.

        They are FINISHED then, and keep seat and blocks until that token is out.
        """
        finished: list[Request] = []
        heap, step = self.finishes, self.step
        while heap and heap[0][0] <= step:
            _, admission_index, request = heappop(heap)
            if request.admission_index == admission_index and request.phase == DECODING:
                self.leave(request)
                request.phase = FINISHED
                request.intervals += (request.decode_start_step, step)
                finished.append(request)
        return finished

    def settle(self) -> None:
        """The run is over; start and finish of each decoding request already name its steps."""

    # -- time ------------------------------------------------------------------------------------

    def advance(self, num_steps: int) -> bool:
        """Every request gains `num_steps` tokens; whether any may have finished."""
        self.step = step = self.step + num_steps
        if not self.num_requests:
            return False
        self.context_tokens += num_steps * self.num_requests
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
    def parked_tokens(self) -> int:
        """KV tokens of requests that stand still in the planned step; here all decode."""
        return 0

    @property
    def context_tokens_squared(self) -> int:
        """Sum of the squared contexts of the next step, tokens^2."""
        # With age a, offsets o and contexts c = o + a: sum of o^2 + a (2 c - a).
        age = self.step + 1
        return self._squared_offsets + age * (2 * self.context_tokens - self.num_requests * age)

    @property
    def max_context_tokens(self) -> int:
        """Longest context of the next step, tokens; 0 when nothing decodes."""
        longest = self._longest_offset
        if longest is None:
            if not self.num_requests:
                return 0
            longest = self._longest_offset = self._find_longest_offset()
        return self.step + 1 + longest

    def _find_longest_offset(self) -> int:
        if self.num_requests <= _FEW:
            self._longest = None
            if len(self.finishes) == self.num_requests:  # no entry is stale
                return max([r.computed_tokens - r.decode_start_step for _, _, r in self.finishes])
            return max(
                [
                    request.computed_tokens - request.decode_start_step
                    for _, index, request in self.finishes
                    if request.phase == DECODING and request.admission_index == index
                ]
            )
        heap = self._longest
        if heap is None or len(heap) > 2 * self.num_requests + 64:
            heap = self._longest = [
                (request.decode_start_step - request.computed_tokens, index, request)
                for _, index, request in self.finishes
                if request.phase == DECODING and request.admission_index == index
            ]
            heapify(heap)
        while True:
            offset, admission_index, request = heap[0]
            if request.admission_index == admission_index and request.phase == DECODING:
                return -offset
            heappop(heap)

    # -- block demand ----------------------------------------------------------------------------

    def blocks_for_steps(self, num_steps: int) -> int:
        """D(k): blocks that the next `num_steps` steps need together."""
        size = self._block_tokens
        phase = self.step % size
        rest = sum(self.block_phases[phase : phase + num_steps % size])
        return rest + self.num_requests * (num_steps // size)

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
