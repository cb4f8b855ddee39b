"""One model replica and its loop: plan -> price -> wait -> commit.

One event per *run* of equal steps, never per token. Engine rules (`sim.vllm_v1`) decide what a step
contains and how many steps may repeat it; this file executes that exactly as if every step had been
planned on its own. With `lag` 1 (asynchronous scheduling) a step is planned while its predecessor
executes: finishes and arrivals take effect one step later, and an idle instance plans two steps.

Not modelled here: the order of work inside a step, and anything between instances.

Source of the asynchronous loop: vLLM v1 `EngineCore.step_with_batch_queue` (0.14, its default).
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from heapq import heappush

from mypy_extensions import mypyc_attr

from sim.instance_state import InstanceState
from sim.interfaces import DecodeBatchView, PrefillChunk
from sim.kv_cache import Hit
from sim.recorder import COMPLETED, pack_run
from sim.request import DECODING, FINISHED, PREFILLING, WAITING, Request
from sim.step_clock import IDLE_WAKE, STEP_END
from sim.step_ends import StepEnds

MAX_RUN_STEPS = 4096
"""Longest run priced at once, steps."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Instance(InstanceState):
    """A replica that spans its tensor-parallel GPUs."""

    __slots__ = (
        "_add_decode",
        "_admission_index",
        "_calls",
        "_decode_step_s",
        "_free_queue",
        "_log_run",
        "_mixed_step_s",
        "_next_key",
        "_num_usable_blocks",
        "_plan_step",
        "_plans_every_step",
        "_tells_steps",
        "_wake_callback",
        "_write_chunk_ends",
        "_write_run_ends",
    )

    def _bind_calls(self) -> None:
        self._admission_index = 0
        self._free_queue = self.kv.queue
        self._num_usable_blocks = self.kv.num_usable_blocks
        self._tells_steps = self._hooks.on_step is not None
        self._plan_step: Callable[[Instance, float], int] = self.rules.plan_step
        self._plans_every_step = self.policy.decides == "every_step"
        if self.pays_for_plans and self.policy.operations is not None:
            self._plans_every_step = True
            self._plan_step = self._plan_single_step
        self._decode_step_s = self.cost.decode_step_s
        self._write_run_ends = self.cost.write_run_ends
        self._write_chunk_ends = self.ledger.write_chunk_ends or self._price_chunks
        self._mixed_step_s = self.ledger.mixed_step_s
        self._add_decode = self.ledger.add_decode
        self._log_run = self.run_log.rows.extend
        self._calls = self._clock.queue
        self._next_key = self._clock.keys
        has_view = self._stale_view is not None
        self._wake_callback = self._on_reported_wake if has_view else self._on_wake

    # -- arrival ---------------------------------------------------------------------------------

    def submit(self, request: Request, now_s: float) -> None:
        """Take an arriving request into the waiting queue."""
        if request.kv_path:
            request.shared_blocks = self.kv.shared_blocks_of(request.kv_path)
        view, loads, i, waiting = self._stale_view, self.loads, self.instance_id, self.waiting
        if view is not None:
            view.before_change(now_s)
        waiting[request.request_id] = request
        loads.num_waiting[i] += 1
        loads.num_requests[i] += 1
        loads.prefill_tokens[i] += request.prompt_tokens
        if view is not None:
            view.after_change(i, now_s)
        if self._hooks.on_arrival is not None:
            if self._run_steps > 1 and self.plan.chunks:
                self._sync_blocks()
            self._hooks.on_arrival(self, request, now_s)
        if self._run_steps > 1 and self.plan.chunks:  # nobody is admitted before its end
            self._chunk_arrivals_s.append(self.look_s())
        elif self._run_steps > 1:
            policy = self.policy
            may_be_next = len(waiting) == 1 or not policy.admits_in_arrival_order
            if may_be_next and (self.rules.has_room(self) or self._plans_every_step):
                self._cut_run(now_s)
        elif self.is_idle:
            self.is_idle = False
            self.run_log.busy_from_step.append(self.batch.step)
            self.run_log.busy_from_s.append(now_s)
            self._completed_at_wake = self.batch.step
            self._wake_at(now_s, IDLE_WAKE)

    def _cut_run(self, now_s: float) -> None:
        """End the run so that the first plan made at or after `now_s` is made anew."""
        first = self.batch.step
        view = self.step_ends.view
        last_step = bisect_left(view, now_s, self._completed, first + self._run_steps)
        num_steps = last_step + 1 + self.lag - first
        if num_steps < self._run_steps:
            self._run_steps = num_steps
            self._completed_at_wake = last_step + 1
            self._wake_s = end_s = view[last_step]
            self._wake_key = key = next(self._next_key)
            heappush(self._calls, (end_s, STEP_END, key, self._wake_callback))

    def _wake_at(self, time_s: float, order: int) -> None:
        """Plan at `time_s`; a wake-up asked for before is out of date."""
        self._wake_s = time_s
        self._wake_key = self._clock.call_at(time_s, order, self._wake_callback)

    # -- the loop --------------------------------------------------------------------------------

    def _on_reported_wake(self, key: int) -> None:
        """A wake-up in a cluster whose router sees reports and not the live counters."""
        view = self._stale_view
        assert view is not None
        if key == self._wake_key:
            now_s = self._wake_s
            view.before_change(now_s)
            self._on_wake(key)
            view.after_change(self.instance_id, now_s)

    def _on_wake(self, key: int) -> None:
        """Commit the run that ended, plan and price the next one, and sleep until it ends.

        One pass with synchronous scheduling. With a lag, passes go on until enough steps are in
        flight. Kept in one piece, with few calls, because it runs for every run.
        """
        if key != self._wake_key:
            return
        now_s, lag, batch, plan = self._wake_s, self.lag, self.batch, self.plan
        self._completed = completed = self._completed_at_wake
        while True:
            num_steps = self._run_steps
            if num_steps:
                self._commit_run(num_steps)
            if self.zombies:
                self._release_finished(now_s)
            num_steps = self._plan_step(self, now_s)
            if not num_steps:
                break
            step, chunks, ends = batch.step, plan.chunks, self.step_ends
            planned = step + num_steps
            if planned > ends.capacity:
                ends.reserve(planned)
            view = ends.view
            start_s = now_s if step == completed else view[step - 1]
            if chunks:
                if num_steps == 1:
                    view[step] = start_s + float(self._mixed_step_s(batch, chunks))
                else:
                    self._begin_chunks(num_steps, start_s)
            elif num_steps == 1:
                view[step] = start_s + float(self._decode_step_s(batch))
            else:
                self._write_run_ends(batch, num_steps, start_s, ends, step)
            self._run_steps = num_steps
            self._free_at_plan = self._free_queue.num_blocks
            if self._tells_steps and num_steps == 1:
                size = batch.num_requests + len(chunks)
                self.policy.on_step(self, size, view[step] - start_s)
            planned -= lag
            if planned > completed:
                self._completed_at_wake = planned
                self._wake_s = end_s = view[planned - 1]
                self._wake_key = key = next(self._next_key)
                heappush(self._calls, (end_s, STEP_END, key, self._wake_callback))
                return
        if batch.step > completed:  # nothing to plan while a step is in flight
            self._completed_at_wake = batch.step
            self._wake_at(self.step_ends.view[batch.step - 1], STEP_END)
        else:
            self.is_idle = True

    def _plan_single_step(self, _instance: "Instance", now_s: float) -> int:
        """Plan so that the policy's work of every step with waiting requests is counted."""
        num_steps = self.rules.plan_step(self, now_s)
        return 1 if num_steps > 1 and self.waiting else num_steps

    @property
    def is_step_in_flight(self) -> bool:
        """Whether a step has been planned, before the one that is planned now, and not ended."""
        return self.batch.step > self._completed

    def stop(self, time_s: float) -> int:
        """End the run in flight for good; returns the steps that ended by `time_s`."""
        ended = self.steps_ended_by(time_s)
        num_steps = min(self._run_steps, ended + self.lag - self.batch.step)
        if num_steps > 0:
            self._commit_run(num_steps)
        self.batch.settle()
        return ended

    def _commit_run(self, num_steps: int) -> None:
        """Apply the planned run; from here on it cannot be cut."""
        batch, plan = self.batch, self.plan
        step, num_decodes, context_tokens = batch.step, batch.num_requests, batch.context_tokens
        chunks = plan.chunks
        if chunks:
            if num_steps > 1:
                self._commit_chunks(num_steps)
                return
        else:
            if num_steps > 1:
                self._take_run_blocks(num_steps)
            if self._add_decode is not None:
                self._add_decode(batch, num_steps)
        self._log_run(
            pack_run(
                step,
                num_steps,
                num_decodes,
                len(chunks),
                plan.prefill_tokens,
                context_tokens,
                len(self.waiting),
                self._num_usable_blocks - self._free_at_plan,
            )
        )
        self._run_steps = 0
        # This is `batch.advance(num_steps)`, spelled out because it runs for every run.
        batch.step = step = step + num_steps
        if num_decodes:
            batch.context_tokens = context_tokens + num_steps * num_decodes
            if batch.finishes[0][0] <= step:
                self.zombies += batch.pop_finished()
        if plan.completing:
            self._begin_decoding(plan.completing)

    # -- runs of prefill chunks ------------------------------------------------------------------

    def _begin_chunks(self, num_steps: int, start_s: float) -> None:
        """Price a run of steps that prefill chunk after chunk of one prompt; it is never cut."""
        plan, ends, step = self.plan, self.step_ends, self.batch.step
        plan.counted_chunks = 1
        if self._chunk_arrivals_s:
            self._chunk_arrivals_s = []
        self._write_chunk_ends(self.batch, plan.chunks[0], num_steps, start_s, ends, step)
        self.loads.note_chunk_run(self, start_s if self.lag else ends.view[step])

    def _price_chunks(
        self,
        _batch: DecodeBatchView,
        chunk: PrefillChunk,
        num_steps: int,
        start_s: float,
        ends: StepEnds,
        at: int,
    ) -> None:
        """Write the ends of a run of chunks, priced step by step."""
        batch, end_s = self.batch, start_s
        step, context_tokens = batch.step, batch.context_tokens
        for entry in range(at, at + num_steps):
            ends.view[entry] = end_s = end_s + self._mixed_step_s(batch, [chunk])
            prefix_tokens = chunk.prefix_tokens + chunk.new_tokens
            chunk = PrefillChunk(chunk.new_tokens, prefix_tokens, False)
            batch.step += 1
            batch.context_tokens += batch.num_requests
        batch.step, batch.context_tokens = step, context_tokens

    def _commit_chunks(self, num_steps: int) -> None:
        """Apply a run of chunks: one row per step, as its chunks have been noted one by one."""
        batch, block_tokens = self.batch, self.kv.block_tokens
        first, size, context_tokens = batch.step, batch.num_requests, batch.context_tokens
        new_tokens, prefix_tokens, _ = self.plan.chunks[0]
        end, phases = prefix_tokens + new_tokens, batch.block_phases
        arrivals_s = self._chunk_arrivals_s
        waiting = num_waiting = len(self.waiting) - len(arrivals_s)
        used_blocks = self._num_usable_blocks - self._free_at_plan
        prompt_blocks = -(-end // block_tokens)
        others = used_blocks - prompt_blocks
        rows = b""
        for step in range(first, first + num_steps):
            if arrivals_s:
                at = step - self.lag  # where the plan of the next step is made
                num_come = bisect_right(arrivals_s, self.step_ends.view[at]) if at >= 0 else 0
                waiting = num_waiting + num_come
            used_blocks = others + prompt_blocks
            rows += pack_run(step, 1, size, 1, new_tokens, context_tokens, waiting, used_blocks)
            end += new_tokens
            prompt_blocks = -(-end // block_tokens)
            if size:
                context_tokens += size
                others += phases[(step + 1) % block_tokens]
        self._log_run(rows)
        self._take_run_blocks(num_steps)
        self._count_chunks(num_steps)
        self._run_steps = 0
        if batch.advance(num_steps):
            self.zombies += batch.pop_finished()

    # -- the end of a request --------------------------------------------------------------------

    def _begin_decoding(self, completing: list[Request]) -> None:
        """Requests whose prefill the run completed have produced one token."""
        batch = self.batch
        for request in completing:
            request.generated_tokens += 1
            if request.generated_tokens >= request.output_tokens:
                request.decode_start_step = request.finish_step = step = batch.step
                request.phase = FINISHED
                request.intervals += (step, step)
                self.zombies.append(request)
                continue
            batch.enter(request)
            if request.output_node >= 0:
                self.open_outputs.setdefault(request.output_node, request)

    def _release_finished(self, now_s: float) -> None:
        """Free what requests hold whose last token is out, in running order, and record them."""
        completed = self._completed
        done, self.zombies = self.zombies, []
        if self.lag:
            self.zombies = [r for r in done if r.finish_step > completed]
            done = [r for r in done if r.finish_step <= completed]
        if len(done) > 1:
            done.sort(key=_admission_index)
        kv, loads, i, running = self.kv, self.loads, self.instance_id, self.running
        tree = self.batch.tree
        for request in done:
            if request.output_node >= 0:
                self._close_output(request)
            if running.pop(request.request_id, None) is not None:
                kv.release(request, request.computed_tokens // kv.block_tokens, False)
                if tree is not None and tree.follows_running:
                    tree.release(request)
                loads.num_running[i] -= 1
                if self._hooks.on_finish is not None:
                    self._hooks.on_finish(self, request, now_s)
            else:  # preempted while its last token was in flight
                loads.num_waiting[i] -= 1
            loads.num_requests[i] -= 1
            self._log.close(request, i, COMPLETED)

    def _close_output(self, request: Request) -> None:
        """The output of a request grows no more; another request may write the same one."""
        if self.open_outputs.get(request.output_node) is request:
            del self.open_outputs[request.output_node]

    # -- what engine rules do --------------------------------------------------------------------

    def admit(self, request: Request, hits: list[Hit], num_hit_blocks: int, now_s: float) -> None:
        """Put a waiting request at the end of the running ones, holding its hits.

        The caller takes it out of `waiting` when the policy is done choosing.
        """
        i, loads = self.instance_id, self.loads
        self.running[request.request_id] = request
        request.phase = PREFILLING
        request.num_blocks = num_hit_blocks
        cached_tokens = num_hit_blocks * self.kv.block_tokens
        request.computed_tokens = cached_tokens
        if hits:
            self.kv.hold(request, hits)
            loads.prefill_tokens[i] -= cached_tokens
        tree = self.batch.tree
        if tree is not None and tree.follows_running:
            tree.hold(request)
        request.admission_index = self._admission_index
        self._admission_index += 1
        if request.cached_tokens < 0:
            request.cached_tokens = cached_tokens
            request.admitted_s = now_s
        loads.num_waiting[i] -= 1
        loads.num_running[i] += 1
        if self._hooks.on_admit is not None:
            self._hooks.on_admit(self, request, now_s)

    def preempt(self, request: Request, now_s: float) -> None:
        """Take the KV from a running request and put it at the head of the waiting ones."""
        batch, i, loads = self.batch, self.instance_id, self.loads
        left_to_prefill = 0
        unknown = 0
        if request.phase == DECODING:
            batch.leave(request)
            request.intervals += (request.decode_start_step, batch.step)
            unknown = self._tokens_in_flight(request, batch.step)
        elif request.phase == PREFILLING:
            self.prefilling.remove(request)
            left_to_prefill = request.total_tokens - request.computed_tokens
        else:
            unknown = self._tokens_in_flight(request, request.finish_step)
        hashed = (request.computed_tokens - unknown) // self.kv.block_tokens
        del self.running[request.request_id]
        if batch.tree is not None:
            batch.tree.release(request)
        self._close_output(request)
        loads.num_running[i] -= 1
        loads.num_waiting[i] += 1
        request.num_preemptions += 1
        self.plan.has_preempted = True
        self.kv.release(request, hashed, request.phase != FINISHED)
        if request.phase != FINISHED:
            request.phase = WAITING
            request.computed_tokens = 0
            self.waiting[request.request_id] = request
            self.waiting.move_to_end(request.request_id, last=False)
            loads.prefill_tokens[i] += request.total_tokens - left_to_prefill
        self._tell_of_preemption(request, now_s)

    def _tell_of_preemption(self, request: Request, now_s: float) -> None:
        hooks = self._hooks
        self._is_making_room = True
        if hooks.on_finish is not None:
            hooks.on_finish(self, request, now_s)
        if hooks.on_arrival is not None and request.phase == WAITING:
            hooks.on_arrival(self, request, now_s)
        self._is_making_room = False


def _admission_index(request: Request) -> int:
    return request.admission_index
