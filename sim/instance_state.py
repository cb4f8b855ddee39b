"""The state of an instance, and what others may read of it at any time.

Reads in the middle of a run are brought to the instant by formula; they change no decision.
"""

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from math import inf
from typing import TYPE_CHECKING

from mypy_extensions import mypyc_attr

from sim.decode_batch import DecodeBatch
from sim.engine_rules import BringsParts
from sim.interfaces import BatchPolicy, CostModel
from sim.kv_cache import KvCache
from sim.loads import Loads, StaleView
from sim.policy_hooks import PolicyHooks
from sim.recorder import RequestLog, RunLog
from sim.request import DECODING, FINISHED, Request
from sim.step_clock import StepClock
from sim.step_ends import StepEnds
from sim.step_plan import StepPlan

if TYPE_CHECKING:
    from sim.engine_rules import EngineRules


@mypyc_attr(allow_interpreted_subclasses=True)
class InstanceState:
    """Queues, KV cache, decode batch, the planned run, and records of one replica.

    Args:
        instance_id: index in the cluster.
        clock: simulated time.
        rules: what a step contains.
        policy: which waiting requests are tried, in what order.
        cost: what a step costs.
        kv: KV cache.
        batch: decode batch, empty.
        running: running requests by id, empty.
        loads: counters of the cluster.
        log: columns over requests.
        macro_steps: False plans every step on its own (the plain reference path).
        stale_view: told of counter changes, or None.
        pays_for_plans: whether the cost of a step depends on what the policy did to plan it.

    Attributes:
        waiting: waiting requests by id, in queue order.
        prefilling: the running request that is part-way through its prefill, if any.
        zombies: requests whose last token is planned but not out.
        open_outputs: decoding requests by the node their output is written to.
        plan: content of the planned step.
        is_idle: whether nothing is planned or running.
        lag: steps planned ahead of the one that executes.
        runs_chunks: whether steps that prefill chunk after chunk of one prompt may form a run. Not
            where somebody must hear of every step: the policy, its CPU time, reports to a router.
    """

    __slots__ = (
        "_chunk_arrivals_s",
        "_clock",
        "_completed",
        "_completed_at_wake",
        "_free_at_plan",
        "_hooks",
        "_is_making_room",
        "_log",
        "_run_steps",
        "_stale_view",
        "_wake_key",
        "_wake_s",
        "batch",
        "cost",
        "instance_id",
        "is_idle",
        "kv",
        "lag",
        "ledger",
        "loads",
        "macro_steps",
        "open_outputs",
        "pays_for_plans",
        "plan",
        "policy",
        "prefilling",
        "rules",
        "run_log",
        "running",
        "runs_chunks",
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
        pays_for_plans: bool = False,
    ) -> None:
        if isinstance(rules, BringsParts):
            kv, batch = rules.bring_parts(kv, batch)
        self.instance_id = instance_id
        self.rules = rules
        self.lag = rules.lag
        self.policy = policy
        self.cost = cost
        self.ledger = cost.open_ledger()
        self.kv = kv
        self.batch = batch
        self.loads = loads
        self.macro_steps = macro_steps
        self.pays_for_plans = pays_for_plans
        self.waiting: OrderedDict[int, Request] = OrderedDict()
        self.running = running
        self.prefilling: list[Request] = []
        self.zombies: list[Request] = []
        self.open_outputs: dict[int, Request] = {}
        self.plan = StepPlan()
        self.step_ends = StepEnds()
        self.run_log = RunLog()
        self.is_idle = True
        self._clock = clock
        self._log = log
        self._stale_view = stale_view
        self._hooks = PolicyHooks(policy)
        self.runs_chunks = (
            macro_steps
            and stale_view is None
            and not pays_for_plans
            and self._hooks.on_step is None
            and self.kv.evicts_in_release_order
        )
        self._chunk_arrivals_s: list[float] = []
        self._completed = 0
        self._completed_at_wake = 0
        self._is_making_room = False
        self._run_steps = 0
        self._free_at_plan = 0
        self._wake_key = -1
        self._wake_s = 0.0
        self._bind_calls()

    def _bind_calls(self) -> None:
        """Look up once what is called for every run."""

    # -- for policies ----------------------------------------------------------------------------

    @property
    def num_free_blocks(self) -> int:
        """KV blocks that nobody holds (they may carry cached prefixes)."""
        self._sync_blocks()
        return self.kv.num_free

    @property
    def num_usable_blocks(self) -> int:
        """KV blocks of the instance less the null block."""
        return self.kv.num_usable_blocks

    def cached_tokens(self, request: Request) -> int:
        """Prompt tokens of a request that the prefix cache holds now. Changes no decision."""
        self._sync_blocks()
        if self.open_outputs:
            self.name_open_outputs(request)
        limit = (request.total_tokens - 1) // self.kv.block_tokens
        return self.kv.lookup(request, limit)[1] * self.kv.block_tokens

    def _sync_blocks(self) -> None:
        """Bring the free queue to what it is now, inside a run."""
        if self._run_steps > 1:
            self._take_run_blocks(max(1, self.steps_planned_by(self._clock.now)))

    # -- for routers and records -----------------------------------------------------------------

    def look_s(self) -> float:
        """A time before which lie the steps that have ended when somebody looks now."""
        return self._clock.now

    def steps_ended_by(self, time_s: float) -> int:
        """Steps of the instance ended by `time_s`, which is not before its last event."""
        last = self.batch.step + self._run_steps
        return bisect_right(self.step_ends.view, time_s, self._completed, last)

    def steps_planned_by(self, time_s: float) -> int:
        """Steps of the current run that are planned when somebody looks at `time_s`."""
        first = self.batch.step
        last = first + self._run_steps
        ended = bisect_left(self.step_ends.view, time_s, self._completed, last)
        return min(self._run_steps, ended + 1 + self.lag - first)

    def kv_tokens_at(self, time_s: float) -> int:
        """KV tokens that running requests hold at `time_s`, shared ones counted per request."""
        batch = self.batch
        decoding = batch.context_tokens - batch.num_requests + batch.parked_tokens
        completing: list[Request] = []
        if self._run_steps:
            num_steps = max(0, self.steps_planned_by(time_s))
            decoding += batch.num_requests * num_steps
            completing = self.plan.completing
            if self._run_steps > 1 and self.plan.chunks:
                decoding += self._chunk_end(num_steps) - self.prefilling[0].computed_tokens
        others = [*self.prefilling, *completing, *self.zombies]
        return decoding + sum([r.computed_tokens for r in others])

    def kv_usage_at(self, time_s: float) -> float:
        """Share of the KV blocks that running requests hold at `time_s`, 0 to 1."""
        free = self.kv.num_free
        if self._run_steps > 1:
            num_steps = max(1, self.steps_planned_by(time_s))
            # Blocks of later steps may have been taken already: then this adds.
            free -= self.missing_blocks(num_steps)
        usable = self.kv.num_usable_blocks
        return (usable - free) / usable

    # -- output nodes ----------------------------------------------------------------------------

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

        While a step is being planned that is this plan, with the request already scheduled; while
        that plan is still making room by preemption, the one before.
        """
        if request.phase == FINISHED:
            return request.computed_tokens - self._tokens_in_flight(request, request.finish_step)
        step = self.batch.step
        is_in_flight = step > self._completed
        ahead = 0 if self._is_making_room else 1
        if self._run_steps:
            ahead = self.steps_planned_by(self._clock.now)
        held = request.computed_tokens + step + ahead - request.decode_start_step
        return held - 1 if is_in_flight else held

    def _tokens_in_flight(self, request: Request, step: int) -> int:
        """Computed tokens of a decoding request whose values are not known yet (0 or 1)."""
        is_in_flight = step > self._completed and step > request.decode_start_step
        return 1 if is_in_flight else 0

    # -- runs ------------------------------------------------------------------------------------

    def missing_blocks(self, num_steps: int) -> int:
        """Blocks that the first `num_steps` steps of the run need beside those taken for it."""
        plan, batch = self.plan, self.batch
        missing = 0
        if batch.num_requests:
            missing = batch.blocks_for_steps(num_steps) - plan.decode_blocks
        if plan.chunks:
            end_block = -(-self._chunk_end(num_steps) // self.kv.block_tokens)
            missing += end_block - self.prefilling[0].num_blocks
        return missing

    def _chunk_end(self, num_steps: int) -> int:
        """Tokens that the prompt of a run of chunks has computed after `num_steps` steps."""
        new_tokens, prefix_tokens, _ = self.plan.chunks[0]
        return prefix_tokens + num_steps * new_tokens

    def _take_run_blocks(self, num_steps: int) -> None:
        """Take the blocks that the first `num_steps` steps of the run need, and name them."""
        plan, batch = self.plan, self.batch
        missing = 0
        if batch.num_requests:
            missing = batch.blocks_for_steps(num_steps) - plan.decode_blocks
        if plan.chunks:
            self._schedule_chunks(num_steps, missing)
        elif missing > 0:
            self.kv.take(missing)
            plan.decode_blocks += missing

    def _schedule_chunks(self, num_steps: int, decode_blocks: int) -> None:
        """Bring the prompt of a run of chunks to what its first `num_steps` steps compute."""
        request, kv, block_tokens = self.prefilling[0], self.kv, self.kv.block_tokens
        end = self._chunk_end(num_steps)
        if end <= request.computed_tokens:
            return
        end_block = -(-end // block_tokens)
        kv.take(decode_blocks + end_block - request.num_blocks)
        self.plan.decode_blocks += decode_blocks
        if request.num_blocks < request.shared_blocks or request.extents:
            kv.name_blocks(request, end_block, end // block_tokens)
        request.num_blocks = end_block
        request.computed_tokens = end

    def count_chunks(self) -> float:
        """Take the chunks planned by now off the queued prefill tokens.

        Returns:
            The time after which the next chunk of the run is planned, seconds; infinite if there is
            none.
        """
        num_steps = self._run_steps
        if num_steps <= 1 or not self.plan.chunks:
            return inf
        planned = self.steps_planned_by(self._clock.now)
        self._count_chunks(planned)
        if planned >= num_steps:
            return inf
        return self.step_ends.view[self.batch.step + planned - 1 - self.lag]

    def _count_chunks(self, num_steps: int) -> None:
        plan = self.plan
        more = num_steps - plan.counted_chunks
        if more > 0:
            plan.counted_chunks = num_steps
            tokens = more * plan.chunks[0].new_tokens
            self.loads.prefill_tokens[self.instance_id] -= tokens
