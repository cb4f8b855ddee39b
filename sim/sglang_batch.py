"""The decoding requests of an SGLang instance, which stand still while a prefill batch runs.

A prefill batch is a step of the instance in which no request decodes. The number of decode steps
so far is the batch's *clock*: a request gains a token per tick, so its finish and its context are
linear in the clock as they are in the step count of `DecodeBatch`. While a prefill batch runs the
sums are set aside, and the batch looks empty to whoever prices the step.

Beside them lives what SGLang keeps with its running batch: whether it is full, the requests that
have finished but still count for a seat, and the outstanding output.
"""

from bisect import bisect_left
from heapq import heapify, heappop, heappush

from mypy_extensions import mypyc_attr

from sim.decode_batch import DecodeBatch
from sim.radix_cache import RadixCache
from sim.request import DECODING, FINISHED, Request
from sim.running_tree import RunningPrefixTree
from sim.token_ratio import NewTokenRatio

_NEVER = 1 << 62


@mypyc_attr(allow_interpreted_subclasses=True)
class SglangBatch(DecodeBatch):
    """Requests that decode, in aggregate, and the state of admission.

    Args:
        kv: cache of the instance.
        tree: running prefix tree, or None.
        ratio: share of the outstanding output that is reserved.
        clip_tokens: outstanding output of one request that counts at most, tokens.

    Attributes:
        clock: decode steps so far.
        is_full: whether waiting requests are not looked at until the batch shrinks.
        num_stale: requests that have finished decoding since the last decode step was planned.
    """

    __slots__ = (
        "_clip_tokens",
        "_kv",
        "_long",
        "_num_pauses",
        "_parked",
        "_pause_bounds",
        "_planned_pause",
        "_sum_finishes",
        "is_full",
        "num_stale",
        "ratio",
    )

    def __init__(
        self,
        kv: RadixCache,
        tree: RunningPrefixTree | None,
        ratio: NewTokenRatio,
        clip_tokens: int,
    ) -> None:
        super().__init__(1, tree)
        self.ratio = ratio
        self.is_full = False
        self.num_stale = 0
        self._kv = kv
        kv.num_paused_steps = self.num_paused_steps
        self._clip_tokens = clip_tokens
        # The step (from 1) that is planned or has just been executed as a prefill batch.
        self._planned_pause = _NEVER
        self._num_pauses = 0
        # Per series of adjacent prefill batches the step before and the step after it. Requests
        # share these numbers, so that their intervals take little memory.
        self._pause_bounds: list[int] = []
        # Requests, sum of contexts and of squared offsets that are set aside.
        self._parked = (0, 0, 0)
        self._sum_finishes = 0
        # Requests with more outstanding output than counts, some of them not any more.
        self._long: dict[int, Request] = {}

    # -- prefill batches -------------------------------------------------------------------------

    @property
    def clock(self) -> int:
        """Decode steps so far."""
        step = self.step
        return step - self._num_pauses - (step >= self._planned_pause)

    @property
    def is_paused(self) -> bool:
        """Whether a prefill batch is planned, or over and not noted yet."""
        return self._planned_pause != _NEVER

    def pause(self) -> None:
        """The next step is a prefill batch."""
        self._parked = (self.num_requests, self.context_tokens, self._squared_offsets)
        self.num_requests = self.context_tokens = self._squared_offsets = 0
        self._planned_pause = self.step + 1

    def resume(self) -> None:
        """The prefill batch is over; requests that it completed have entered or been released."""
        self._kv.cache_completed()
        num_requests, context_tokens, squares = self._parked
        self.num_requests += num_requests
        self.context_tokens += context_tokens
        self._squared_offsets += squares
        self._parked = (0, 0, 0)
        bounds, pause = self._pause_bounds, self._planned_pause
        if bounds and bounds[-1] == pause:
            bounds[-1] = pause + 1
        else:
            bounds += (pause - 1, pause + 1)
        self._num_pauses += 1
        self._planned_pause = _NEVER

    @property
    def parked_tokens(self) -> int:
        """KV tokens of the requests that stand still, shared ones counted for each."""
        num_requests, context_tokens, _ = self._parked
        return context_tokens - num_requests

    # -- membership ------------------------------------------------------------------------------

    def enter(self, request: Request) -> None:
        """A request whose prefill is complete begins to decode in the next decode step."""
        clock, held = self.clock, request.computed_tokens
        finish = clock + request.output_tokens - request.generated_tokens
        request.phase = DECODING
        request.decode_start_step = self.step
        request.finish_step = finish
        heappush(self.finishes, (finish, request.admission_index, request))
        offset = held - clock
        self.num_requests += 1
        self.context_tokens += held + 1
        self._squared_offsets += offset * offset
        self._sum_finishes += finish
        if finish - clock > self._clip_tokens:
            self._long[request.request_id] = request
        if self._longest is not None:
            heappush(self._longest, (-offset, request.admission_index, request))
        if self.tree is not None:
            self.tree.add(request.prompt_nodes)
        self._kv.cache_in_turn(request)

    def leave(self, request: Request) -> None:
        """Take a request out, after finish or retraction, and bring its counters to now."""
        clock = self.clock
        generated = self.generated_tokens(request)
        held = request.computed_tokens + generated - request.generated_tokens
        request.computed_tokens = request.num_blocks = held
        request.generated_tokens = generated
        offset = held - clock
        self.num_requests -= 1
        self.context_tokens -= held + 1
        self._squared_offsets -= offset * offset
        self._sum_finishes -= request.finish_step
        if self._long:
            self._long.pop(request.request_id, None)
        if self.tree is not None:
            self.tree.remove(request.prompt_nodes)

    def pop_finished(self) -> list[Request]:
        """Requests whose last token the planned steps produce, in order of finishing; they leave.

        Until the next decode step is planned they count for a seat.
        """
        heap, clock = self.finishes, self.clock
        finished: list[Request] = []
        while heap and heap[0][0] <= clock:
            _, admission_index, request = heappop(heap)
            if request.admission_index == admission_index and request.phase == DECODING:
                self.leave(request)
                request.phase = FINISHED
                request.intervals += self.token_intervals(request)
                finished.append(request)
        self.num_stale += len(finished)
        return finished

    def generated_tokens(self, request: Request) -> int:
        """Output tokens that a decoding request has produced so far."""
        return request.output_tokens - (request.finish_step - self.clock)

    def token_intervals(self, request: Request) -> tuple[int, ...]:
        """Pairs (first, last) of the steps, from its first token on, in which it got one.

        That is every step from `decode_start_step` to now but the prefill batches between; it is
        a prefill batch itself.
        """
        first, last, bounds = request.decode_start_step, self.step, self._pause_bounds
        start = bisect_left(bounds, first + 1)
        if bounds[start] == first + 1:
            pairs = (first, *bounds[start + 1 :], last)
        else:
            pairs = (first, first, *bounds[start:], last)
        return pairs if pairs[-2] <= last else pairs[:-2]

    def num_paused_steps(self) -> int:
        """Steps, summed over the decoding requests, in which one stood still so far."""
        num_paused = 0
        for _, admission_index, request in self.finishes:
            if request.phase == DECODING and request.admission_index == admission_index:
                gained = self.generated_tokens(request) - request.generated_tokens
                num_paused += self.step - request.decode_start_step - gained
        return num_paused

    def settle(self) -> None:
        """The run is over: let start and finish of each decoding request name steps again."""
        if self.step >= self._planned_pause:
            self.resume()
        for finish, admission_index, request in self.finishes:
            is_live = request.admission_index == admission_index and request.phase == DECODING
            if is_live and request.finish_step == finish:
                pairs = self.token_intervals(request)
                request.intervals += pairs[:-2]
                request.decode_start_step, request.finish_step = pairs[-2:]

    # -- outstanding output ----------------------------------------------------------------------

    @property
    def outstanding_tokens(self) -> int:
        """Output that the decoding requests may still generate, clipped for each, tokens."""
        clock = self.clock
        total = self._sum_finishes - self.num_requests * clock
        if self._long:
            for request in list(self._long.values()):
                excess = request.finish_step - clock - self._clip_tokens
                if excess > 0:
                    total -= excess
                else:
                    del self._long[request.request_id]
        return total

    # -- time ------------------------------------------------------------------------------------

    def steps_to_first_finish(self) -> int:
        """Decode steps until the first request produces its last token (B >= 1)."""
        heap = self.finishes
        while True:
            finish, admission_index, request = heap[0]
            if request.admission_index == admission_index and request.phase == DECODING:
                return finish - self.clock
            heappop(heap)

    @property
    def context_tokens_squared(self) -> int:
        """Sum of the squared contexts of the next step, tokens^2."""
        age, count = self.clock + 1, self.num_requests
        offsets = self.context_tokens - count * age
        return self._squared_offsets + age * (2 * offsets + count * age)

    @property
    def max_context_tokens(self) -> int:
        """Longest context of the next step, tokens; 0 when nothing decodes."""
        if not self.num_requests:
            return 0
        heap, clock = self._longest, self.clock
        if heap is None or len(heap) > 2 * self.num_requests + 64:
            heap = self._longest = [
                (clock - self._held_tokens(request), index, request)
                for _, index, request in self.finishes
                if request.phase == DECODING and request.admission_index == index
            ]
            heapify(heap)
        while True:
            offset, admission_index, request = heap[0]
            if request.admission_index == admission_index and request.phase == DECODING:
                return clock + 1 - offset
            heappop(heap)

    def _held_tokens(self, request: Request) -> int:
        generated = self.generated_tokens(request)
        return request.computed_tokens + generated - request.generated_tokens

    # -- tokens of steps to come -----------------------------------------------------------------

    def blocks_for_steps(self, num_steps: int) -> int:
        """Tokens that the next `num_steps` decode steps need together."""
        return self.num_requests * num_steps

    def steps_within_blocks(self, num_blocks: int) -> int:
        """Largest number of decode steps that need at most `num_blocks` tokens (B >= 1)."""
        return num_blocks // self.num_requests
