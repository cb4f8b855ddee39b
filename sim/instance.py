"""One model replica: queues, KV cache, and the loop plan -> price -> wait -> commit.

One event per *run* of equal steps, never per token. Engine rules (`sim.vllm_v1`) decide what a step
contains and how many steps may repeat it; this file executes that exactly as if every step had been
planned on its own. With `lag` 1 (asynchronous scheduling) a step is planned while its predecessor
executes, so finishes and arrivals take effect one step later.

Not modelled here: the order of work inside a step, and anything between instances.
"""

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from typing import TYPE_CHECKING

from sim.decode_batch import DecodeBatch
from sim.interfaces import BatchPolicy, CostModel
from sim.kv_cache import Hit, KvCache
from sim.loads import Loads, StaleView
from sim.recorder import COMPLETED, RequestLog, RunLog, pack_run
from sim.request import DECODING, FINISHED, PREFILLING, WAITING, Request
from sim.step_clock import IDLE_WAKE, STEP_END, Call, StepClock
from sim.step_ends import StepEnds
from sim.step_plan import StepPlan

if TYPE_CHECKING:
    from sim.engine_rules import EngineRules

MAX_RUN_STEPS = 4096
"""Longest run priced at once, steps."""


class Instance:
    """A replica that spans its tensor-parallel GPUs.

    Args:
        instance_id: index in the cluster.
        clock: simulated time.
        rules: what a step contains.
        policy: which waiting requests are tried, in what order.
        cost: what a step costs.
        kv: KV cache.
        batch: decode batch, empty.
        loads: counters of the cluster.
        log: columns over requests.
        macro_steps: False plans every step on its own (the plain reference path).
        stale_view: told of counter changes, or None.
    """

    __slots__ = (
        "_add_decode",
        "_admission_index",
        "_clock",
        "_completed",
        "_completed_at_wake",
        "_decode_step_s",
        "_generation",
        "_hooks",
        "_lag",
        "_log",
        "_log_run",
        "_mixed_step_s",
        "_plan_step",
        "_run_steps",
        "_stale_view",
        "_tells_steps",
        "_used_at_plan",
        "_wake_callback",
        "_wake_s",
        "_write_run_ends",
        "batch",
        "cost",
        "instance_id",
        "is_idle",
        "kv",
        "ledger",
        "loads",
        "macro_steps",
        "open_outputs",
        "plan",
        "policy",
        "prefilling",
        "rules",
        "run_log",
        "running",
        "step_ends",
        "waiting",
        "zombies",
    )

    def __init__(
        self,
        instance_id: int,
        clock: StepClock,
        rules: "EngineRules",
        policy: BatchPolicy,
        cost: CostModel,
        kv: KvCache,
        batch: DecodeBatch,
        running: dict[int, Request],
        loads: Loads,
        log: RequestLog,
        macro_steps: bool = True,
        stale_view: StaleView | None = None,
    ) -> None:
        self.instance_id = instance_id
        self.rules = rules
        self.policy = policy
        self.cost = cost
        self.kv = kv
        self.batch = batch
        self.loads = loads
        self.macro_steps = macro_steps
        self.waiting: OrderedDict[int, Request] = OrderedDict()
        self.running = running
        self.prefilling: list[Request] = []
        self.zombies: list[Request] = []
        self.open_outputs: dict[int, Request] = {}
        self.plan = StepPlan()
        self.step_ends = StepEnds()
        self.run_log = RunLog()
        self.ledger = cost.open_ledger()
        self.is_idle = True
        self._clock = clock
        self._lag = rules.lag
        self._plan_step = rules.plan_step
        self._log_run = self.run_log.rows.frombytes
        self._mixed_step_s = self.ledger.mixed_step_s
        self._add_decode = self.ledger.add_decode
        self._decode_step_s = cost.decode_step_s
        self._write_run_ends = cost.write_run_ends
        self._log = log
        self._stale_view = stale_view
        self._hooks = hooks = _Hooks.of(policy)
        self._tells_steps = hooks.on_step
        self._admission_index = 0
        self._completed = 0
        self._completed_at_wake = 0
        self._generation = 0
        self._run_steps = 0
        self._used_at_plan = 0
        self._wake_s = 0.0
        self._wake_callback = self._on_wake

    # -- arrival ---------------------------------------------------------------------------------

    def submit(self, request: Request, now_s: float) -> None:
        """Take an arriving request into the waiting queue."""
        request.shared_blocks = self.kv.shared_blocks_of(request.kv_path)
        view, loads, i = self._stale_view, self.loads, self.instance_id
        if view is not None:
            view.before_change(now_s)
        self.waiting[request.request_id] = request
        loads.num_waiting[i] += 1
        loads.num_requests[i] += 1
        loads.queued_prefill_tokens[i] += request.prompt_tokens
        if view is not None:
            view.after_change(i, now_s)
        if self._hooks.on_arrival:
            self.policy.on_arrival(self, request, now_s)
        if self.is_idle:
            self.is_idle = False
            self._generation += 1
            self._completed_at_wake = self.batch.step
            self._wake_s = now_s
            self.run_log.busy_from_step.append(self.batch.step)
            self.run_log.busy_from_s.append(now_s)
            Call(self._clock, now_s, IDLE_WAKE, self._wake_callback, self._generation)
        elif (
            self._run_steps > 1
            and (len(self.waiting) == 1 or not self.policy.admits_in_arrival_order)
            and self.rules.has_room(self)
        ):
            self._cut_run(now_s)

    def _cut_run(self, now_s: float) -> None:
        """End the run so that the first plan made at or after `now_s` is made anew."""
        first = self.batch.step
        last = first + self._run_steps
        boundary = bisect_left(self.step_ends.view, now_s, self._completed, last)
        num_steps = boundary + 1 + self._lag - first
        if num_steps < self._run_steps:
            self._run_steps = num_steps
            self._wake_after(boundary + 1)

    def _wake_after(self, num_steps: int) -> None:
        """Plan again when `num_steps` steps of the instance have ended."""
        self._generation += 1
        self._completed_at_wake = num_steps
        self._wake_s = time_s = self.step_ends.view[num_steps - 1]
        Call(self._clock, time_s, STEP_END, self._wake_callback, self._generation)

    # -- the loop --------------------------------------------------------------------------------

    def _on_wake(self, call: Call) -> None:
        if call.generation != self._generation:
            return
        now_s = self._wake_s
        view = self._stale_view
        if view is not None:
            view.before_change(now_s)
        if self._run_steps:
            self._commit_run()
        self._completed = self._completed_at_wake
        if self.zombies:
            self._release_finished(now_s)
        self._plan_ahead(now_s)
        if view is not None:
            view.after_change(self.instance_id, now_s)

    def _plan_ahead(self, now_s: float) -> None:
        """Plan until enough steps are in flight, and ask to be woken for the next plan."""
        batch, plan, ends = self.batch, self.plan, self.step_ends
        while True:
            self._plan_step(self, now_s)
            if plan.is_empty:
                break
            step, num_steps = batch.step, plan.max_steps
            planned = step + num_steps
            if planned > ends.capacity:
                ends.reserve(planned)
            view = ends.view
            start_s = now_s if step == self._completed else view[step - 1]
            if plan.chunks:
                view[step] = start_s + self._mixed_step_s(batch, plan.chunks)
            elif num_steps == 1:
                view[step] = start_s + self._decode_step_s(batch)
            else:
                self._write_run_ends(batch, num_steps, start_s, ends, step)
            self._run_steps = num_steps
            self._used_at_plan = self.kv.num_usable_blocks - self.kv.queue.num_blocks
            if self._tells_steps and num_steps == 1:
                self.policy.on_step(self, batch_size(self), view[step] - start_s)
            planned -= self._lag
            if planned > self._completed:
                self._wake_after(planned)
                return
            self._commit_run()
        if batch.step > self._completed:
            self._wake_after(batch.step)
        else:
            self.is_idle = True

    def _commit_run(self) -> None:
        """Apply the planned run; from here on it cannot be cut."""
        batch, plan, num_steps = self.batch, self.plan, self._run_steps
        chunks = plan.chunks
        self._run_steps = 0
        if not chunks:
            if num_steps > 1:
                self._take_run_blocks(num_steps)
            self._add_decode(batch, num_steps)
        self._log_run(
            pack_run(
                batch.step,
                num_steps,
                batch.num_requests,
                len(chunks),
                plan.prefill_tokens,
                batch.context_tokens,
                len(self.waiting),
                self._used_at_plan,
            )
        )
        if batch.advance(num_steps):
            self._await_release(batch.pop_finished())
        if plan.completing:
            self._begin_decoding(plan.completing)

    def _take_run_blocks(self, num_steps: int) -> None:
        """Take the blocks that the first `num_steps` steps of the run need."""
        needed = self.batch.blocks_for_steps(num_steps)
        missing = needed - self.plan.decode_blocks
        if missing > 0:
            self.kv.take(missing)
            self.plan.decode_blocks = needed

    def _begin_decoding(self, completing: list[Request]) -> None:
        """Requests whose prefill the run completed have produced one token."""
        step = self.batch.step
        for request in completing:
            request.generated_tokens += 1
            if request.generated_tokens >= request.output_tokens:
                request.decode_start_step = request.finish_step = step
                self._await_release([request])
                continue
            self.batch.enter(request)
            if request.output_node >= 0:
                self.open_outputs[request.output_node] = request

    def _await_release(self, finished: list[Request]) -> None:
        """Requests whose last token is planned: they keep seat and blocks until it is out."""
        for request in finished:
            request.phase = FINISHED
            request.intervals += (request.decode_start_step, request.finish_step)
        self.zombies += finished

    def _release_finished(self, now_s: float) -> None:
        """Free what finished requests hold, in running order, and write their records."""
        done = self.zombies
        if self._lag:
            completed = self._completed
            self.zombies = [r for r in done if r.finish_step > completed]
            done = [r for r in done if r.finish_step <= completed]
        else:
            self.zombies = []
        if len(done) > 1:
            done.sort(key=_admission_index)
        kv, loads, i = self.kv, self.loads, self.instance_id
        for request in done:
            if request.output_node >= 0:
                self.open_outputs.pop(request.output_node, None)
            if request.request_id in self.running:
                kv.release(request, request.computed_tokens // kv.block_tokens, False)
                del self.running[request.request_id]
                loads.num_running[i] -= 1
                if self._hooks.on_finish:
                    self.policy.on_finish(self, request, now_s)
            else:
                loads.num_waiting[i] -= 1
            loads.num_requests[i] -= 1
            self._log.close(request, i, COMPLETED)

    # -- what engine rules do --------------------------------------------------------------------

    def admit(self, request: Request, hits: list[Hit], num_hit_blocks: int, now_s: float) -> None:
        """Move a waiting request to the end of the running ones, holding its hits."""
        i, loads = self.instance_id, self.loads
        del self.waiting[request.request_id]
        self.running[request.request_id] = request
        cached_tokens = num_hit_blocks * self.kv.block_tokens
        if hits:
            self.kv.hold(request, hits)
        request.phase = PREFILLING
        request.num_blocks = num_hit_blocks
        request.computed_tokens = cached_tokens
        request.admission_index = self._admission_index
        self._admission_index += 1
        if request.cached_tokens < 0:
            request.cached_tokens = cached_tokens
            request.admitted_s = now_s
        loads.num_waiting[i] -= 1
        loads.num_running[i] += 1
        loads.queued_prefill_tokens[i] -= cached_tokens
        if self._hooks.on_admit:
            self.policy.on_admit(self, request, now_s)

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
        self.open_outputs.pop(request.output_node, None)
        loads.num_running[i] -= 1
        loads.num_waiting[i] += 1
        request.num_preemptions += 1
        self.plan.has_preempted = True
        self.kv.release(request, hashed, request.phase != FINISHED)
        if self._hooks.on_finish:
            self.policy.on_finish(self, request, now_s)
        if request.phase == FINISHED:
            return
        request.phase = WAITING
        request.computed_tokens = 0
        self.waiting[request.request_id] = request
        self.waiting.move_to_end(request.request_id, last=False)
        loads.queued_prefill_tokens[i] += request.total_tokens - left_to_prefill
        if self._hooks.on_arrival:
            self.policy.on_arrival(self, request, now_s)

    def _tokens_in_flight(self, request: Request, step: int) -> int:
        """Computed tokens of a decoding request whose values are not known yet (0 or 1)."""
        is_in_flight = step > self._completed and step > request.decode_start_step
        return 1 if is_in_flight else 0

    def name_open_outputs(self, request: Request) -> None:
        """Make what running requests have decoded so far visible to a lookup of `request`.

        Also called before `request` hashes blocks of its own, so that copies of one content stay in
        the order in which they were hashed.
        """
        for node in request.kv_path:
            writer = self.open_outputs.get(node)
            if writer is not None and writer is not request:
                known = self.hashed_tokens(writer)
                comes_later = writer.admission_index > request.admission_index >= 0
                if comes_later and writer.phase == DECODING:
                    known -= 1  # not scheduled yet in this step
                self.kv.name_output(writer, known // self.kv.block_tokens)

    def hashed_tokens(self, request: Request) -> int:
        """Tokens of a decoding request whose content is known to the latest plan.

        While a step is being planned that is this plan, with the request already scheduled.
        """
        if request.phase == FINISHED:
            return request.computed_tokens - self._tokens_in_flight(request, request.finish_step)
        step = self.batch.step
        is_in_flight = step > self._completed
        ahead = self.steps_planned_by(self._clock.now) if self._run_steps else 1
        held = request.computed_tokens + step + ahead - request.decode_start_step
        return held - 1 if is_in_flight else held

    # -- views -----------------------------------------------------------------------------------

    @property
    def num_free_blocks(self) -> int:
        """KV blocks that nobody holds, as of the last event of the instance."""
        return self.kv.num_free

    @property
    def num_usable_blocks(self) -> int:
        """KV blocks of the instance less the null block."""
        return self.kv.num_usable_blocks

    def cached_tokens(self, request: Request) -> int:
        """Prompt tokens of a request that the prefix cache holds now. Changes no decision."""
        if self._run_steps > 1:
            self._take_run_blocks(max(1, self.steps_planned_by(self._clock.now)))
        if self.open_outputs:
            self.name_open_outputs(request)
        limit = (request.total_tokens - 1) // self.kv.block_tokens
        return self.kv.lookup(request, limit)[1] * self.kv.block_tokens

    def steps_ended_by(self, time_s: float) -> int:
        """Steps of the instance ended by `time_s`, which is not before its last event."""
        last = self.batch.step + self._run_steps
        return bisect_right(self.step_ends.view, time_s, self._completed, last)

    def steps_planned_by(self, time_s: float) -> int:
        """Steps of the current run that are planned when a router looks at `time_s`."""
        first, num_steps = self.batch.step, self._run_steps
        ended = bisect_left(
            self.step_ends.view,
            time_s,
            self._completed,
            first + num_steps,
        )
        return min(num_steps, ended + 1 + self._lag - first)

    def kv_tokens_at(self, time_s: float) -> int:
        """KV tokens that running requests hold at `time_s`, shared ones counted per request."""
        batch = self.batch
        decoding = batch.context_tokens - batch.num_requests
        if self._run_steps:
            decoding += batch.num_requests * max(0, self.steps_planned_by(time_s))
        held = sum([r.computed_tokens for r in self.prefilling])
        held += sum([r.computed_tokens for r in self.plan.completing] if self._run_steps else ())
        return decoding + held + sum([r.computed_tokens for r in self.zombies])


class _Hooks:
    """Which optional hooks a policy overrides, so that the others are never called."""

    __slots__ = ("on_admit", "on_arrival", "on_finish", "on_step")

    def __init__(self, policy: type[BatchPolicy]) -> None:
        self.on_arrival = policy.on_arrival is not BatchPolicy.on_arrival
        self.on_admit = policy.on_admit is not BatchPolicy.on_admit
        self.on_finish = policy.on_finish is not BatchPolicy.on_finish
        self.on_step = policy.on_step is not BatchPolicy.on_step

    @staticmethod
    def of(policy: BatchPolicy) -> "_Hooks":
        """Hooks of a policy object."""
        return _Hooks(type(policy))


def _admission_index(request: Request) -> int:
    return request.admission_index


def batch_size(instance: Instance) -> int:
    """Requests that get a token or prefill in the planned step."""
    return instance.batch.num_requests + len(instance.plan.chunks)
