"""One instance of vLLM v1 with FCFS, step by step and block by block.

Not modelled: priorities, speculative tokens, max_model_len, aborts.
Source: vLLM v1, vllm/v1/core/sched/{scheduler,async_scheduler}.py (behaviour only).
"""

from collections import deque

from sim.workload import Workload
from tests.twin.arrival_book import ArrivalBook
from tests.twin.block_pool import BlockPool
from tests.twin.content import block_keys
from tests.twin.plan import Plan, TwinRequest
from tests.twin.result import RequestLog


class Planner:
    """Plans steps and applies their outputs; who calls when decides sync or async."""

    def __init__(
        self,
        workload: Workload,
        *,
        pool: BlockPool,
        max_num_seqs: int,
        max_num_batched_tokens: int,
        block_tokens: int,
        token_threshold: int,
        prefix_caching: bool,
        hash_in_flight_input: bool,
    ) -> None:
        self.pool = pool
        self.max_num_seqs = max_num_seqs
        self.max_num_batched_tokens = max_num_batched_tokens
        self.block_tokens = block_tokens
        self.token_threshold = token_threshold
        self.prefix_caching = prefix_caching
        self.hash_in_flight_input = hash_in_flight_input
        self.requests = [self._load(workload, i) for i in range(workload.num_requests)]
        self.to_arrive = ArrivalBook(workload)
        self.waiting: deque[TwinRequest] = deque()
        self.running: list[TwinRequest] = []
        self.num_steps = 0

    def _load(self, workload: Workload, index: int) -> TwinRequest:
        prompt, output = int(workload.prompt_tokens[index]), int(workload.output_tokens[index])
        if self._blocks_for(prompt + output - 1) > self.pool.num_usable:
            raise ValueError(f"request {index} never fits in {self.pool.num_usable} blocks")
        return TwinRequest(
            prompt=prompt,
            output=output,
            keys=block_keys(workload, index, self.block_tokens),
            log=RequestLog(index),
        )

    @property
    def has_requests(self) -> bool:
        return bool(self.waiting or self.running)

    @property
    def is_done(self) -> bool:
        return not self.has_requests and self.to_arrive.is_empty

    def collect(self, now_s: float, *, was_idle: bool) -> None:
        """Put the requests that have come by `now_s` into the queue."""
        for row in self.to_arrive.take(now_s, was_idle=was_idle):
            self.waiting.append(self.requests[row])

    def plan(self, now_s: float) -> Plan | None:
        """Decide the next step as seen at `now_s`; None if nothing can be scheduled."""
        plan = Plan(self.num_steps + 1, now_s)
        budget, has_preempted = self._schedule_running(plan, self.max_num_batched_tokens)
        if not has_preempted:
            self._schedule_waiting(plan, budget)
        plan.num_free_blocks = self.pool.num_free
        self._check()
        if not plan.scheduled:
            return None
        self.num_steps += 1
        return plan

    def _schedule_running(self, plan: Plan, budget: int) -> tuple[int, bool]:
        """Schedule running requests in order; returns the budget left and if any lost its KV."""
        has_preempted = False
        position = 0
        while position < len(self.running) and budget > 0:
            request = self.running[position]
            if request.num_generated == request.output:  # last token in flight: keeps its seat
                position += 1
                continue
            tokens = min(request.num_remaining, self.token_threshold, budget)
            need = self._blocks_for(request.num_computed + tokens) - len(request.blocks)
            while need > self.pool.num_free:
                has_preempted = True
                victim = self.running.pop()
                self._preempt(victim)
                if victim is request:
                    return budget, has_preempted
            request.blocks += self.pool.take(need)
            plan.add(request, tokens)
            self._hash(request, request.num_computed)
            budget -= tokens
            position += 1
        return budget, has_preempted

    def _schedule_waiting(self, plan: Plan, budget: int) -> None:
        """Admit from the head of the queue until seats, budget or blocks run out."""
        while self.waiting and budget > 0 and len(self.running) < self.max_num_seqs:
            request = self.waiting[0]
            assert request.num_in_flight == 0 and request.num_delivered < request.output
            hits = self._lookup(request)
            hit_tokens = len(hits) * self.block_tokens
            tokens = min(request.num_known - hit_tokens, self.token_threshold, budget)
            need = self._blocks_for(tokens)
            if need + sum(self.pool.is_free(block) for block in hits) > self.pool.num_free:
                return
            self.waiting.popleft()
            self.running.append(request)
            for block in hits:
                self.pool.hold(block)
            request.blocks = hits + self.pool.take(need)
            request.num_hashed = len(hits)
            request.num_computed = hit_tokens
            request.has_emitted = False
            self._log_admission(request, plan, len(hits))
            plan.add(request, tokens)
            self._hash(request, request.num_computed)
            budget -= tokens

    def deliver(self, plan: Plan, now_s: float) -> None:
        """Apply the output of a step that ended now: tokens, hashes, finishes, in plan order.

        By default a running request is hashed up to all its known tokens, the input of the step
        that starts now included. vLLM leaves that input token to the next plan (it hashes up to
        `num_computed_tokens - num_output_placeholders`), which differs only for a request that
        the next plan does not schedule: `hash_in_flight_input=False`.
        """
        for request in plan.emitting:
            request.num_in_flight -= 1
            request.num_delivered += 1
            request.log.token_steps.append(plan.index)
            is_running = request in self.running
            if is_running:
                pending = 0 if self.hash_in_flight_input else request.num_in_flight
                self._hash(request, request.num_computed - pending)
            if request.num_delivered == request.output:
                request.log.finish_step = plan.index
                self._release(request)
                self.to_arrive.note_end(request.log.request_id, now_s)
                if is_running:
                    self.running.remove(request)
                else:  # preempted while its last token was in flight
                    self.waiting.remove(request)
        self._check()

    def _lookup(self, request: TwinRequest) -> list[int]:
        """Cached blocks of the request; the last known token is always computed."""
        most = (request.num_known - 1) // self.block_tokens
        return self.pool.longest_hit(request.keys[:most])

    def _hash(self, request: TwinRequest, num_tokens: int) -> None:
        """Make full blocks of the first `num_tokens` findable, as far as values are known."""
        if not self.prefix_caching:
            return
        num_full = min(num_tokens, request.num_known) // self.block_tokens
        for position in range(request.num_hashed, num_full):
            self.pool.set_key(request.blocks[position], request.keys[position])
        request.num_hashed = max(request.num_hashed, num_full)

    def _preempt(self, request: TwinRequest) -> None:
        self._release(request)
        request.num_computed = 0
        request.log.num_preemptions += 1
        self.waiting.appendleft(request)

    def _release(self, request: TwinRequest) -> None:
        self.pool.release(request.blocks)
        request.blocks = []
        request.num_hashed = 0

    def _log_admission(self, request: TwinRequest, plan: Plan, num_hits: int) -> None:
        log = request.log
        if not log.hit_blocks:
            log.cached_tokens = num_hits * self.block_tokens
        log.hit_blocks.append(num_hits)
        log.admission_plan_s.append(plan.planned_s)
        log.admission_steps.append(plan.index)

    def _blocks_for(self, tokens: int) -> int:
        return -(-tokens // self.block_tokens)

    def _check(self) -> None:
        self.pool.check([request.blocks for request in self.requests])
        assert len(self.running) <= self.max_num_seqs
        for request in self.running:
            assert request.num_computed <= request.prompt + request.output - 1
            assert len(request.blocks) == self._blocks_for(request.num_computed)
