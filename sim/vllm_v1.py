"""The scheduling rules of vLLM v1: one token budget per step, running requests before waiting ones.

Models the scheduler of the v1 engine with chunked prefill on, priority off, no speculative decoding
and `long_prefill_token_threshold` 0 (its default).

Source: vLLM v1 `scheduler.py`, `async_scheduler.py`; restated in docs/engine.md.
"""

from typing import NamedTuple

from mypy_extensions import mypyc_attr

from sim.candidates import iterate_candidates, not_waiting
from sim.errors import ConfigError
from sim.instance import MAX_RUN_STEPS, Instance
from sim.interfaces import PrefillChunk
from sim.kv_cache import Hit
from sim.request import DECODING, PREFILLING, WAITING, Request

_new_tuple = tuple.__new__
"""Makes a named tuple without its Python-level constructor (this is the hot path)."""


class BlockedHead(NamedTuple):
    """The request that did not fit, with the hits and the budget it was tried with.

    Attributes:
        num_new_blocks: blocks of its first chunk; it grows as hits are lost.
    """

    request: Request
    hits: list[Hit]
    has_free_hits: bool
    is_chunked: bool
    num_new_blocks: int


@mypyc_attr(allow_interpreted_subclasses=True)
class VllmV1:
    """Engine rules of vLLM v1.

    Args:
        max_num_seqs: running requests at most.
        max_num_batched_tokens: token budget of a step.
        async_scheduling: plan a step while its predecessor executes (default since vLLM 0.14).

    Raises:
        ConfigError: seats exceed the token budget, or a value is below 1.
    """

    def __init__(
        self, max_num_seqs: int, max_num_batched_tokens: int, async_scheduling: bool = False
    ) -> None:
        if max_num_seqs < 1:
            raise ConfigError(f"engine.max_num_seqs={max_num_seqs}: must be at least 1")
        if max_num_seqs > max_num_batched_tokens:
            raise ConfigError(
                f"engine.max_num_seqs={max_num_seqs} exceeds "
                f"engine.max_num_batched_tokens={max_num_batched_tokens}: "
                "every running request needs one token of the budget"
            )
        self.max_num_seqs = max_num_seqs
        self.max_num_batched_tokens = max_num_batched_tokens
        self.lag = 1 if async_scheduling else 0

    def has_room(self, instance: Instance) -> bool:
        """Whether a seat is free."""
        return len(instance.running) < self.max_num_seqs

    def plan_step(self, instance: Instance, now_s: float) -> int:
        """Schedule running requests, then admit waiting ones."""
        plan, batch, kv = instance.plan, instance.batch, instance.kv
        if plan.chunks:  # others may still hold the lists
            plan.chunks = []
            plan.prefill_tokens = 0
            if plan.completing:
                plan.completing = []
        plan.has_preempted = False
        blocks = batch.block_phases[batch.step % kv.block_tokens]
        if instance.prefilling or blocks > kv.queue.num_blocks:
            budget = self._schedule_running(instance, blocks, now_s)
        else:
            plan.decode_blocks = blocks
            if blocks:
                kv.take(blocks)
            budget = self.max_num_batched_tokens - batch.num_requests
        blocked = None
        if (
            instance.waiting
            and len(instance.running) < self.max_num_seqs
            and budget > 0
            and not plan.has_preempted
        ):
            blocked = self._admit_waiting(instance, budget, now_s)
        chunks = plan.chunks
        if chunks:
            if (
                len(chunks) == 1
                and instance.prefilling
                and instance.runs_chunks
                and not plan.has_preempted
                and not instance.zombies
            ):
                return self._chunks_until_change(instance)
            return 1
        if not batch.num_requests:
            return 0
        if not instance.macro_steps or plan.has_preempted or instance.zombies:
            return 1
        return self._steps_until_change(instance, blocked)

    # -- running requests ------------------------------------------------------------------------

    def _schedule_running(self, instance: Instance, decode_blocks: int, now_s: float) -> int:
        """Give every running request its tokens; returns the budget that is left.

        At most one request is part-way through its prefill, and it is the last one running: a
        prefill is left unfinished only when it has used up the budget.
        """
        batch, kv = instance.batch, instance.kv
        free = kv.queue.num_blocks - decode_blocks
        if free < 0:
            return self._schedule_scarce(instance, now_s)
        request = instance.prefilling[0]
        budget = self.max_num_batched_tokens - batch.num_requests
        held = request.computed_tokens
        tokens = min(request.prompt_tokens + request.generated_tokens - held, budget)
        blocks = -(-(held + tokens) // kv.block_tokens) - request.num_blocks
        instance.plan.decode_blocks = decode_blocks
        if blocks > free:  # it is the last one running, so it gives itself up
            kv.take(decode_blocks)
            instance.preempt(request, now_s)
            return budget
        kv.take(decode_blocks + blocks)
        schedule_chunk(instance, request, tokens)
        return budget - tokens

    def _schedule_scarce(self, instance: Instance, now_s: float) -> int:
        """The same request by request, preempting from the end when blocks run out."""
        plan, kv, step = instance.plan, instance.kv, instance.batch.step
        queue, block_tokens = kv.queue, kv.block_tokens
        plan.decode_blocks = 0
        order = list(instance.running.values())
        budget = self.max_num_batched_tokens
        index = wanted = 0  # blocks of decodes are taken together, before somebody is preempted
        while index < len(order) and budget > 0:
            request = order[index]
            index += 1
            if request.phase == DECODING:
                held = request.computed_tokens + step - request.decode_start_step
                if held % block_tokens:
                    budget -= 1
                    continue
                tokens = blocks = 1
            elif request.phase == PREFILLING:
                held = request.computed_tokens
                tokens = min(request.total_tokens - held, budget)
                blocks = -(-(held + tokens) // block_tokens) - request.num_blocks
            else:
                continue
            if wanted + blocks > queue.num_blocks:
                self._take_for_decodes(instance, wanted)
                wanted = 0
                while blocks > queue.num_blocks:
                    victim = order.pop()
                    instance.preempt(victim, now_s)
                    if victim is request:
                        return budget
            budget -= tokens
            if request.phase == PREFILLING:
                self._take_for_decodes(instance, wanted)
                wanted = 0
                kv.take(blocks)
                schedule_chunk(instance, request, tokens)
            else:
                wanted += 1
        self._take_for_decodes(instance, wanted)
        return budget

    def _take_for_decodes(self, instance: Instance, num_blocks: int) -> None:
        if num_blocks:
            instance.kv.take(num_blocks)
            instance.plan.decode_blocks += num_blocks

    # -- waiting requests ------------------------------------------------------------------------

    def _admit_waiting(self, instance: Instance, budget: int, now_s: float) -> BlockedHead | None:
        """Admit in the policy's order until one does not fit; returns that one.

        Requests leave the queue when the policy is done, so that it may iterate over the queue.
        """
        kv, waiting, policy = instance.kv, instance.waiting, instance.policy
        block_tokens = kv.block_tokens
        admitted: list[int] = []
        blocked = None
        for request in iterate_candidates(policy, policy.candidates(instance, now_s)):
            if not isinstance(request, Request) or request.phase != WAITING:
                raise not_waiting(instance, request)
            total = request.prompt_tokens + request.generated_tokens
            hits: list[Hit] = []
            num_hit = free_hits = 0
            if request.kv_path or request.num_preemptions:
                if instance.open_outputs:
                    instance.name_open_outputs(request)
                hits, num_hit = kv.lookup(request, (total - 1) // block_tokens)
                for extent, first, end in hits:
                    if extent.is_queued:
                        free_hits += end - first
            tokens = min(total - num_hit * block_tokens, budget)
            blocks = -(-tokens // block_tokens)
            if blocks + free_hits > kv.queue.num_blocks:
                blocked = _new_tuple(
                    BlockedHead, (request, hits, free_hits > 0, total > budget, blocks)
                )
                break
            instance.admit(request, hits, num_hit, now_s)
            kv.take(blocks)
            schedule_chunk(instance, request, tokens)
            admitted.append(request.request_id)
            budget -= tokens
            if budget <= 0 or len(instance.running) >= self.max_num_seqs:
                break
        for request_id in admitted:
            if waiting.pop(request_id, None) is None:
                raise not_waiting(instance, instance.running[request_id])
        return blocked

    # -- macro-stepping --------------------------------------------------------------------------

    def _chunks_until_change(self, instance: Instance) -> int:
        """Steps in which one prompt takes all that decodes leave of the budget and is not done.

        Nobody can be admitted in them, so nobody is asked.
        """
        batch, kv, request = instance.batch, instance.kv, instance.prefilling[0]
        tokens = instance.plan.chunks[0].new_tokens
        end = request.computed_tokens
        left = request.prompt_tokens + request.generated_tokens - end
        steps = min(1 + (left - 1) // tokens, MAX_RUN_STEPS)
        if steps > 1 and batch.num_requests:
            steps = min(steps, batch.steps_to_first_finish())
        if steps <= 1:
            return 1
        if instance.open_outputs and not instance.open_outputs.keys().isdisjoint(request.kv_path):
            return 1  # what others write of its path is named before each of its chunks
        free_blocks = kv.queue.num_blocks
        while instance.missing_blocks(steps) > free_blocks:
            steps -= 1
        return steps

    def _steps_until_change(self, instance: Instance, blocked: BlockedHead | None) -> int:
        """Decode steps for which planning anew would change nothing."""
        batch, kv = instance.batch, instance.kv
        finish_step, admission_index, request = batch.finishes[0]
        if request.admission_index == admission_index and request.phase == DECODING:
            steps = finish_step - batch.step
        else:  # preempted since
            steps = batch.steps_to_first_finish()
        if steps > MAX_RUN_STEPS:
            steps = MAX_RUN_STEPS
        cycles = steps // kv.block_tokens + 1
        if batch.num_requests * cycles > kv.queue.num_blocks:
            available = kv.queue.num_blocks + instance.plan.decode_blocks
            steps = max(1, min(steps, batch.steps_within_blocks(available)))
        if instance.waiting and steps > 1:
            if instance.policy.decides == "every_step":
                return 1
            if blocked is not None:
                steps = self._steps_until_unblocked(instance, blocked, steps)
        return steps

    def _steps_until_unblocked(self, instance: Instance, blocked: BlockedHead, steps: int) -> int:
        """Steps after which the blocked head's need for blocks may have shrunk.

        It shrinks in two ways only: a running ancestor fills a block that the head can hit, or, for
        a head that is longer than the budget, decodes evict free blocks that it would have hit so
        that it loses more hits than that (it then needs fewer blocks in its first step; not where
        even the first chunk is too much).
        """
        batch, kv = instance.batch, instance.kv
        is_tight = blocked.num_new_blocks > kv.queue.num_blocks
        if blocked.has_free_hits and blocked.is_chunked and not is_tight:
            spare = batch.blocks_for_steps(steps) - instance.plan.decode_blocks
            ahead = kv.blocks_before_gap(blocked.hits, spare)
            if ahead < spare:
                within = batch.steps_within_blocks(ahead + instance.plan.decode_blocks)
                steps = max(1, min(steps, within))
        if instance.open_outputs:
            for node in blocked.request.kv_path:
                writer = instance.open_outputs.get(node)
                if writer is not None:
                    hashed = instance.hashed_tokens(writer)
                    steps = min(steps, kv.block_tokens - hashed % kv.block_tokens)
        return steps


def schedule_chunk(instance: Instance, request: Request, num_tokens: int) -> None:
    """Plan `num_tokens` of prefill of a running request; its blocks have been taken."""
    plan, prefilling = instance.plan, instance.prefilling
    block_tokens = instance.kv.block_tokens
    prefix = request.computed_tokens
    end = prefix + num_tokens
    end_block = -(-end // block_tokens)
    if request.num_blocks < request.shared_blocks or request.extents:
        if instance.open_outputs:
            instance.name_open_outputs(request)
        instance.kv.name_blocks(request, end_block, end // block_tokens)
    request.num_blocks = end_block
    request.computed_tokens = end
    is_last = end >= request.prompt_tokens + request.generated_tokens
    plan.chunks.append(_new_tuple(PrefillChunk, (num_tokens, prefix, is_last)))
    plan.prefill_tokens += num_tokens
    instance.loads.prefill_tokens[instance.instance_id] -= num_tokens
    if is_last:
        plan.completing.append(request)
        if prefilling:
            prefilling.clear()
    elif not prefilling:
        prefilling.append(request)
