"""The rules of vLLM v1 where some waiting requests have their KV already.

A request whose KV has come from elsewhere decodes in the step that admits it: one token of the
budget, no more blocks. It is tried in the policy's order, and waits behind a request that lacks
blocks (one that was preempted, or a prompt of a mixed instance). If then nothing runs, it goes
first: its own blocks are reserved, and only when it has run are they free.
"""

from sim.candidates import iterate_candidates, not_waiting
from sim.disaggregation.decode_instance import DecodeInstance
from sim.disaggregation.spec import refuse_other_rules
from sim.engine_rules import EngineRules
from sim.instance import Instance
from sim.kv_cache import Hit
from sim.request import WAITING, Request
from sim.vllm_v1 import BlockedHead, VllmV1, schedule_chunk


class DecodeVllmV1(VllmV1):
    """Engine rules of an instance that takes KV from others."""

    def plan_step(self, instance: Instance, now_s: float) -> int:
        """Schedule running requests, then admit waiting ones."""
        num_steps = super().plan_step(instance, now_s)
        if not num_steps and instance.plan.has_preempted:
            assert isinstance(instance, DecodeInstance)
            # Whoever ran is waiting again. The engine's loop turns over at once; those who hold
            # the blocks go first, or this would happen again and again.
            instance.is_stuck = True
            num_steps = super().plan_step(instance, now_s)
            instance.is_stuck = False
        return num_steps

    def _admit_waiting(self, instance: Instance, budget: int, now_s: float) -> BlockedHead | None:
        assert isinstance(instance, DecodeInstance)
        waiting, policy, arrived = instance.waiting, instance.policy, instance.arrived
        if instance.is_stuck:
            budget -= self._enter_all(instance, budget, now_s)
            if budget <= 0 or len(instance.running) >= self.max_num_seqs:
                return None
        admitted: list[int] = []
        blocked = None
        for request in iterate_candidates(policy, policy.candidates(instance, now_s)):
            if not isinstance(request, Request) or request.phase != WAITING:
                raise not_waiting(instance, request)
            if request.request_id in arrived:
                instance.enter(request, now_s)
                budget -= 1
            else:
                found = self._try(instance, request, budget, now_s)
                if isinstance(found, BlockedHead):
                    blocked = found
                    break
                budget -= found
            admitted.append(request.request_id)
            if budget <= 0 or len(instance.running) >= self.max_num_seqs:
                break
        for request_id in admitted:
            if waiting.pop(request_id, None) is None:
                raise not_waiting(instance, instance.running[request_id])
        if blocked is not None and not instance.running:
            self._enter_all(instance, budget, now_s)
        return blocked

    def _enter_all(self, instance: DecodeInstance, budget: int, now_s: float) -> int:
        """Let requests run whose KV is here, whatever the policy says; returns how many.

        For an instance on which nothing runs because they hold the blocks.
        """
        limit = min(budget, self.max_num_seqs - len(instance.running))
        entering = [r for r in instance.waiting.values() if r.request_id in instance.arrived]
        for request in entering[:limit]:
            instance.enter(request, now_s)
            del instance.waiting[request.request_id]
        return min(limit, len(entering))

    def _try(
        self, instance: DecodeInstance, request: Request, budget: int, now_s: float
    ) -> int | BlockedHead:
        """Admit a request that has to be computed; its tokens in this step, or why it must wait."""
        kv, block_tokens = instance.kv, instance.kv.block_tokens
        total = request.total_tokens
        hits: list[Hit] = []
        num_hit = free_hits = 0
        if request.kv_path or request.num_preemptions:
            if instance.open_outputs:
                instance.name_open_outputs(request)
            hits, num_hit = kv.lookup(request, (total - 1) // block_tokens)
            free_hits = sum(hit.end - hit.first for hit in hits if hit.extent.is_queued)
        tokens = min(total - num_hit * block_tokens, budget)
        blocks = -(-tokens // block_tokens)
        if blocks + free_hits > kv.queue.num_blocks:
            return BlockedHead(request, hits, free_hits > 0, total > budget, blocks)
        instance.admit(request, hits, num_hit, now_s)
        kv.take(blocks)
        schedule_chunk(instance, request, tokens)
        return tokens


def decode_rules_of(rules: EngineRules) -> DecodeVllmV1:
    """The same sizes, for instances that take KV.

    Raises:
        ConfigError: the rules are not those of synchronous vLLM v1.
    """
    refuse_other_rules(rules)
    return DecodeVllmV1(rules.max_num_seqs, rules.max_num_batched_tokens)
