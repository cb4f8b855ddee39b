"""The rules of vLLM v1 where KV can be loaded from tiers behind the GPU.

A request with a hit in the tiers is admitted like any other; then it holds a seat and the blocks
for its hit until they are loaded, and computes the rest. Requests that are loaded come after those
that run and before those that wait. One that lacks blocks takes them from requests that were
admitted after it and have not begun to compute, last first, and else keeps everybody waiting.

Source: vLLM v1 `scheduler.py` (requests that wait for remote KV hold blocks and are skipped until
they are loaded). There they hold no seat, and cannot be preempted.
"""

from sim.candidates import iterate_candidates, not_waiting
from sim.instance import Instance
from sim.kv_cache import Hit
from sim.request import WAITING, Request
from sim.tiers.instance import TieredInstance
from sim.tiers.loading import LOADING, Found
from sim.vllm_v1 import BlockedHead, VllmV1, schedule_chunk


class TieredVllmV1(VllmV1):
    """Engine rules of vLLM v1 with tiers behind the prefix cache.

    Args:
        rules: the rules without tiers.
    """

    def __init__(self, rules: VllmV1) -> None:
        super().__init__(rules.max_num_seqs, rules.max_num_batched_tokens, rules.lag > 0)

    def plan_step(self, instance: Instance, now_s: float) -> int:
        """Schedule running requests, then loaded ones, then admit waiting ones."""
        assert isinstance(instance, TieredInstance)
        plan, batch, kv = instance.plan, instance.batch, instance.kv
        instance.begin_plan(now_s)
        if plan.chunks:  # others may still hold the lists
            plan.chunks = []
            plan.prefill_tokens = 0
            if plan.completing:
                plan.completing = []
        plan.has_preempted = False
        blocks = batch.block_phases[batch.step % kv.block_tokens]
        if instance.prefilling or blocks > kv.queue.num_blocks:
            budget = self._schedule_running(instance, blocks, now_s)
            instance.note_chunks()
        else:
            plan.decode_blocks = blocks
            if blocks:
                kv.take(blocks)
            budget = self.max_num_batched_tokens - batch.num_requests
        is_blocked, blocked = False, None
        if instance.loaded and budget > 0 and not plan.has_preempted:
            budget, is_blocked = self._schedule_loaded(instance, budget, now_s)
        if (
            instance.waiting
            and len(instance.running) < self.max_num_seqs
            and budget > 0
            and not is_blocked
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
                and not instance.has_layerwise_load
            ):
                return self._chunks_until_change(instance)
            return 1
        if not batch.num_requests:
            if plan.has_preempted and not instance.is_step_in_flight:
                # Making room has left nobody to run, and nothing else would wake those who wait.
                return self.plan_step(instance, now_s)
            return 0
        if not instance.macro_steps or plan.has_preempted or instance.zombies:
            return 1
        return self._steps_until_change(instance, blocked)

    # -- loaded requests -------------------------------------------------------------------------

    def _schedule_loaded(
        self, instance: TieredInstance, budget: int, now_s: float
    ) -> tuple[int, bool]:
        """Let loaded requests compute what is left, in the order of their admissions.

        Returns:
            The budget that is left, and whether one of them lacks blocks.
        """
        kv, block_tokens = instance.kv, instance.kv.block_tokens
        for request in sorted(instance.loaded.values(), key=_admission_index):
            if budget <= 0:
                break
            if request.phase != LOADING:  # it has been preempted
                continue
            held = request.computed_tokens
            tokens = min(request.total_tokens - held, budget)
            blocks = -(-(held + tokens) // block_tokens) - request.num_blocks
            while blocks > kv.queue.num_blocks:
                last = next(reversed(instance.running.values()))
                is_later = last.admission_index > request.admission_index
                if last.phase != LOADING or not is_later:
                    return budget, True
                instance.preempt(last, now_s)
            kv.take(blocks)
            instance.begin_prefill(request)
            self._schedule(instance, request, tokens)
            budget -= tokens
        return budget, False

    # -- waiting requests ------------------------------------------------------------------------

    def _admit_waiting(self, instance: Instance, budget: int, now_s: float) -> BlockedHead | None:
        """Admit in the policy's order until one does not fit; returns that one.

        Whether a request fits does not depend on the tiers, which may change while it waits.
        """
        assert isinstance(instance, TieredInstance)
        kv, waiting, policy = instance.kv, instance.waiting, instance.policy
        block_tokens = kv.block_tokens
        admitted: list[int] = []
        blocked = None
        for request in iterate_candidates(policy, policy.candidates(instance, now_s)):
            if not isinstance(request, Request) or request.phase != WAITING:
                raise not_waiting(instance, request)
            total = request.prompt_tokens + request.generated_tokens
            most = (total - 1) // block_tokens
            hits: list[Hit] = []
            num_hit = free_hits = 0
            found: Found | None = None
            can_hit = bool(request.kv_path or request.num_preemptions)
            if can_hit:
                if instance.open_outputs:
                    instance.name_open_outputs(request)
                hits, num_hit = kv.lookup(request, most)
                for extent, first, end in hits:
                    if extent.is_queued:
                        free_hits += end - first
            tokens = min(total - num_hit * block_tokens, budget)
            blocks = -(-tokens // block_tokens)
            room = kv.queue.num_blocks - free_hits
            if blocks > room:
                blocked = BlockedHead(request, hits, free_hits > 0, total > budget, blocks)
                break
            if can_hit and most > num_hit:
                if instance.loads_layerwise and -(-total // block_tokens) - num_hit > room:
                    room -= -(-budget // block_tokens)  # its first chunk must fit too
                found = instance.find_in_tiers(request, num_hit, most, room, now_s)
            instance.admit(request, hits, num_hit, now_s)
            admitted.append(request.request_id)
            if found is not None and instance.loads_layerwise:
                instance.load_with_step(request, found, now_s)
                tokens = min(total - request.computed_tokens, budget)
            elif found is not None:
                instance.begin_load(request, found, now_s)
                tokens = 0
            if tokens:
                end = request.computed_tokens + tokens
                kv.take(-(-end // block_tokens) - request.num_blocks)
                self._schedule(instance, request, tokens)
                budget -= tokens
            if budget <= 0 or len(instance.running) >= self.max_num_seqs:
                break
        for request_id in admitted:
            if waiting.pop(request_id, None) is None:
                raise not_waiting(instance, instance.running[request_id])
        return blocked

    def _schedule(self, instance: TieredInstance, request: Request, tokens: int) -> None:
        schedule_chunk(instance, request, tokens)
        instance.note_chunk(request, tokens)


def _admission_index(request: Request) -> int:
    return request.admission_index
