"""An instance that prefills only: its requests leave with their first token.

Their KV stays in its blocks until the transfer is complete. That is the back-pressure: when the
decode side is full, blocks run out here, and prompts wait.
"""

from typing import TYPE_CHECKING, Any

from sim.checked_instance import CheckedInstance
from sim.disaggregation.block_seconds import BlockSeconds
from sim.looped_instance import LoopedInstance
from sim.request import FINISHED, Request
from sim.step_clock import IDLE_WAKE

if TYPE_CHECKING:
    from sim.disaggregation.handover import Handover


class PrefillInstance(LoopedInstance):
    """A replica whose requests end with their first token.

    Attributes:
        held: requests that left the batch, and whose KV is still here.
        between: blocks freed between two plans.
    """

    __slots__ = ("_handover", "between", "held")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.held: dict[int, Request] = {}
        self.between = BlockSeconds()
        self.runs_chunks = False  # blocks are freed in between, which each plan should show

    def join(self, handover: "Handover") -> None:
        """Hand prefilled requests to `handover`."""
        self._handover = handover

    def _on_wake(self, key: int) -> None:
        if key != self._wake_key:
            return
        now_s = self._wake_s
        if self.between.is_open:
            self.between.close(now_s)
        super()._on_wake(key)
        if self.is_idle:
            self.between.change(self._num_usable_blocks - self._free_queue.num_blocks, now_s)
        elif self.plan.completing and self._handover.wants_last_step:
            self._handover.begin_last_step(self, self.plan.completing, now_s, self._wake_s)
        if self._handover.ended or self._handover.began:
            self._handover.pass_on(now_s)

    def _begin_decoding(self, completing: list[Request]) -> None:
        """Requests whose prefill the run completed have their only token from here."""
        step = self.batch.step
        for request in completing:
            request.generated_tokens += 1
            request.decode_start_step = request.finish_step = step
            request.phase = FINISHED
            request.intervals += (step, step)
            self.zombies.append(request)

    def _release_finished(self, now_s: float) -> None:
        """Keep the KV of requests that go on elsewhere; the others are done."""
        ended, self.zombies = self.zombies, []
        for request in ended:
            if request.generated_tokens < request.output_tokens:
                self._hand_over(request, now_s)
            else:
                self.zombies.append(request)
        if self.zombies:
            super()._release_finished(now_s)

    def _hand_over(self, request: Request, now_s: float) -> None:
        loads, i = self.loads, self.instance_id
        del self.running[request.request_id]
        self.held[request.request_id] = request
        if self.batch.tree is not None:
            self.batch.tree.release(request)
        loads.num_running[i] -= 1
        loads.num_requests[i] -= 1
        if self._hooks.on_finish is not None:
            self._hooks.on_finish(self, request, now_s)
        self._handover.end_prefill(self, request, now_s)

    def release_held(self, request: Request, now_s: float) -> None:
        """The KV of a request has been moved: free its blocks."""
        view = self._stale_view
        if view is not None:
            view.before_change(now_s)
        self._sync_blocks()
        del self.held[request.request_id]
        free = self._free_queue.num_blocks
        self.kv.release(request, request.computed_tokens // self.kv.block_tokens, False)
        self.between.change(free - self._free_queue.num_blocks, now_s)
        if view is not None:
            view.after_change(self.instance_id, now_s)
        if self.is_idle and self.waiting:
            self.is_idle = False
            self.run_log.busy_from_step.append(self.batch.step)
            self.run_log.busy_from_s.append(now_s)
            self._completed_at_wake = self.batch.step
            self._wake_at(now_s, IDLE_WAKE)

    def stop(self, time_s: float) -> int:
        """End the run in flight for good; returns the steps that ended by `time_s`."""
        self.between.close(time_s)
        return super().stop(time_s)


class CheckedPrefillInstance(PrefillInstance, CheckedInstance):
    """The same under `check=true`."""

    def _block_holders(self) -> list[Request]:
        return [*self.running.values(), *self.held.values()]

    def _may_idle(self) -> bool:
        return bool(self.held)
