"""An instance that takes the KV of requests from others and decodes them.

Blocks for the KV are reserved before it is sent, also in the middle of a run of steps: the run ends
early if what is left would not last. A request joins the queue of the batch policy when its KV has
come, and needs no more blocks for its first step here. A request that is preempted is computed
again by this instance, prompt included; until it runs again nobody else gets a reservation.
"""

from heapq import heappush
from typing import TYPE_CHECKING, Any

from sim.checked_instance import CheckedInstance
from sim.disaggregation.block_seconds import BlockSeconds
from sim.kv_cache import Hit, KvCache
from sim.looped_instance import LoopedInstance
from sim.request import DECODING, WAITING, Request
from sim.step_clock import STEP_END

if TYPE_CHECKING:
    from sim.disaggregation.handover import Handover


class DecodeInstance(LoopedInstance):
    """A replica that takes KV from others.

    Attributes:
        reserved: requests with blocks here, whose KV is under way.
        arrived: waiting requests whose KV is here.
        preempted: ids of waiting requests that lost their KV here.
        between: blocks taken between two plans.
        is_stuck: whether a step is planned anew because making room left nobody to run.
    """

    __slots__ = (
        "_handover",
        "_is_watched",
        "arrived",
        "between",
        "is_stuck",
        "preempted",
        "reserved",
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.reserved: dict[int, Request] = {}
        self.arrived: dict[int, Request] = {}
        self.preempted: set[int] = set()
        self.between = BlockSeconds()
        self.is_stuck = False
        # Whoever matches prefixes against this cache knows what the planned run may evict.
        self._is_watched = type(self.kv) is not KvCache
        self.runs_chunks = False  # a reservation may end a run early

    def join(self, handover: "Handover") -> None:
        """Take requests from `handover`."""
        self._handover = handover

    # -- KV from elsewhere -----------------------------------------------------------------------

    def expect(self, request: Request, now_s: float) -> None:
        """Count a request as waiting here, whose KV is still to come."""
        i, loads, view = self.instance_id, self.loads, self._stale_view
        if view is not None:
            view.before_change(now_s)
        loads.num_waiting[i] += 1
        loads.num_requests[i] += 1
        loads.prefill_tokens[i] += request.prompt_tokens
        if view is not None:
            view.after_change(i, now_s)

    def blocks_of(self, request: Request) -> int:
        """Blocks for the KV of a request and the token of its first step here."""
        return request.computed_tokens // self.kv.block_tokens + 1

    def reserve(self, request: Request, now_s: float) -> bool:
        """Take blocks for the KV of a request, if there are enough and no preempted one waits."""
        if self.preempted:
            return False
        num_blocks, queue, steps = self.blocks_of(request), self._free_queue, self._run_steps
        most = self.batch.num_requests * (steps // self.kv.block_tokens + 1)
        is_scarce = self._is_watched or num_blocks + most > queue.num_blocks
        if is_scarce:
            self._sync_blocks()
            if num_blocks > queue.num_blocks:
                return False
        self.kv.take(num_blocks)
        request.num_blocks = num_blocks
        self.reserved[request.request_id] = request
        self.between.change(num_blocks, now_s)
        if steps > 1:
            if self._is_watched or len(self.waiting) > len(self.arrived):
                self._cut_run(now_s)  # what a prompt would hit may be gone
            if is_scarce:
                left = queue.num_blocks + self.plan.decode_blocks
                self._shorten_run(self.batch.steps_within_blocks(left))
        return True

    def _shorten_run(self, num_steps: int) -> None:
        """End the run after its first `num_steps` steps, which are not over yet."""
        if num_steps >= self._run_steps:
            return
        self._run_steps = num_steps
        self._completed_at_wake = last = self.batch.step + num_steps
        self._wake_s = end_s = self.step_ends.view[last - 1]
        self._wake_key = key = next(self._next_key)
        heappush(self._calls, (end_s, STEP_END, key, self._wake_callback))

    def arrive(self, request: Request, now_s: float) -> None:
        """The KV of a request is here: it may be admitted.

        It was counted as waiting when it was expected, and is counted anew here.
        """
        i, loads = self.instance_id, self.loads
        if self._stale_view is not None:
            self._stale_view.before_change(now_s)
        del self.reserved[request.request_id]
        self.arrived[request.request_id] = request
        loads.num_waiting[i] -= 1
        loads.num_requests[i] -= 1
        loads.prefill_tokens[i] -= request.prompt_tokens
        self.submit(request, now_s)

    def enter(self, request: Request, now_s: float) -> None:
        """Put a request whose KV is here at the end of the running ones; it decodes at once.

        The caller takes it out of `waiting` when the policy is done choosing.
        """
        i, loads, batch = self.instance_id, self.loads, self.batch
        del self.arrived[request.request_id]
        self.running[request.request_id] = request
        request.admission_index = self._admission_index
        self._admission_index += 1
        if batch.tree is not None:
            batch.tree.hold(request)
        if request.computed_tokens % self.kv.block_tokens == 0:
            self.plan.decode_blocks += 1  # the block for this step was reserved
        batch.enter(request)
        # Its first token here is that of the step being planned, not of the step before.
        request.decode_start_step += 1
        request.computed_tokens += 1
        request.generated_tokens += 1
        loads.num_waiting[i] -= 1
        loads.num_running[i] += 1
        loads.prefill_tokens[i] -= request.prompt_tokens
        if not request.intervals:
            self._handover.note_decode_start(request, now_s)
        if self._hooks.on_admit is not None:
            self._hooks.on_admit(self, request, now_s)

    # -- the loop --------------------------------------------------------------------------------

    def _on_wake(self, key: int) -> None:
        if key != self._wake_key:
            return
        now_s = self._wake_s
        if self.between.is_open:
            self.between.close(now_s)
        super()._on_wake(key)
        if self.is_idle:
            self.between.change(self._num_usable_blocks - self._free_queue.num_blocks, now_s)

    def _release_finished(self, now_s: float) -> None:
        super()._release_finished(now_s)
        self._handover.note_change(self, now_s)

    def admit(self, request: Request, hits: list[Hit], num_hit_blocks: int, now_s: float) -> None:
        """Put a waiting request that has to be computed at the end of the running ones."""
        super().admit(request, hits, num_hit_blocks, now_s)
        if self.preempted:
            self.preempted.discard(request.request_id)
            self._handover.note_change(self, now_s)

    def preempt(self, request: Request, now_s: float) -> None:
        """Take the KV from a running request; it waits here, or goes with its KV."""
        if self._handover.keeps_preempted and request.phase == DECODING:
            self._give_up(request, now_s)
        else:
            super().preempt(request, now_s)
            if request.phase == WAITING:
                self.preempted.add(request.request_id)
        self._handover.note_change(self, now_s)

    def _give_up(self, request: Request, now_s: float) -> None:
        batch, i, loads = self.batch, self.instance_id, self.loads
        batch.leave(request)
        request.intervals += (request.decode_start_step, batch.step)
        request.phase = WAITING
        request.num_preemptions += 1
        del self.running[request.request_id]
        if batch.tree is not None:
            batch.tree.release(request)
        loads.num_running[i] -= 1
        loads.num_requests[i] -= 1
        self.plan.has_preempted = True
        self.kv.release(request, 0, False)
        if self._hooks.on_finish is not None:
            self._hooks.on_finish(self, request, now_s)
        self._handover.take_back(self, request, now_s)

    def stop(self, time_s: float) -> int:
        """End the run in flight for good; returns the steps that ended by `time_s`."""
        self.between.close(time_s)
        return super().stop(time_s)


class CheckedDecodeInstance(DecodeInstance, CheckedInstance):
    """The same under `check=true`."""

    def _block_holders(self) -> list[Request]:
        return [*self.running.values(), *self.reserved.values(), *self.arrived.values()]

    def _may_idle(self) -> bool:
        return bool(self.reserved)
