"""The scheduling rules of SGLang: a step is a prefill batch or a decode batch.

Waiting requests go first, as long as their input and a share of all outstanding output fit; running
requests decode only when no prefill batch can be made. Models the scheduler with its radix cache
(page size 1), chunked prefill on, mixed chunks, overlap, priorities and speculative decoding off.

Source: SGLang `scheduler.py`, `schedule_policy.py`, `schedule_batch.py`; restated in
docs/engine.md, which also says what is not modelled.
"""

from typing import ClassVar

from mypy_extensions import mypyc_attr

from sim.candidates import iterate_candidates, not_waiting
from sim.decode_batch import DecodeBatch
from sim.errors import ConfigError
from sim.instance import MAX_RUN_STEPS, Instance
from sim.interfaces import PrefillChunk
from sim.kv_cache import KvCache
from sim.prefill_adder import PrefillAdder, Verdict
from sim.radix_cache import RadixCache
from sim.request import DECODING, FINISHED, WAITING, Request
from sim.sglang_batch import SglangBatch
from sim.token_ratio import (
    DECAY_STEPS,
    INIT_RATIO,
    MIN_RATIO_FACTOR,
    RETRACT_DECODE_STEPS,
    NewTokenRatio,
)

MAX_PREFILL_TOKENS = 16_384
"""Input of one prefill batch. Source: SGLang `ServerArgs.max_prefill_tokens`."""

CLIP_MAX_NEW_TOKENS = 4_096
"""Output of one request that is reserved at most. Source: SGLang `schedule_policy.py`."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Sglang:
    """Engine rules of SGLang.

    Args:
        max_num_seqs: running requests at most (`max_running_requests`).
        max_num_batched_tokens: tokens of a prefill batch (`chunked_prefill_size`); longer inputs
            are cut.
        max_prefill_tokens: input of a prefill batch; the first request may exceed it.
        schedule_conservativeness: scales the reservation for running requests.
        init_new_token_ratio: share of the outstanding output that is reserved at first.
        min_new_token_ratio_factor: where its decay ends, relative to its start.
        new_token_ratio_decay_steps: decode steps from the start to that end.
        retract_decode_steps: decode steps that a retraction makes room for.
        clip_max_new_tokens: output of one request that is reserved at most, tokens.

    Attributes:
        lag: 0, a step is planned when its predecessor has ended.
        max_num_batched_tokens: tokens of one step at most, of either kind.

    Raises:
        ConfigError: a value is out of range.
    """

    only_block_tokens: ClassVar[int] = 1
    """Page size that is modelled."""

    def __init__(
        self,
        max_num_seqs: int,
        max_num_batched_tokens: int,
        max_prefill_tokens: int = MAX_PREFILL_TOKENS,
        schedule_conservativeness: float = 1.0,
        init_new_token_ratio: float = INIT_RATIO,
        min_new_token_ratio_factor: float = MIN_RATIO_FACTOR,
        new_token_ratio_decay_steps: int = DECAY_STEPS,
        retract_decode_steps: int = RETRACT_DECODE_STEPS,
        clip_max_new_tokens: int = CLIP_MAX_NEW_TOKENS,
    ) -> None:
        counts = {
            "max_num_seqs": max_num_seqs,
            "max_num_batched_tokens": max_num_batched_tokens,
            "max_prefill_tokens": max_prefill_tokens,
            "new_token_ratio_decay_steps": new_token_ratio_decay_steps,
            "retract_decode_steps": retract_decode_steps,
            "clip_max_new_tokens": clip_max_new_tokens,
        }
        for name, count in counts.items():
            if count < 1:
                raise ConfigError(f"engine.{name}={count}: must be at least 1")
        shares = {
            "init_new_token_ratio": init_new_token_ratio,
            "min_new_token_ratio_factor": min_new_token_ratio_factor,
        }
        for name, share in shares.items():
            if not 0 < share <= 1:
                raise ConfigError(f"engine.{name}={share:g}: must be above 0 and at most 1")
        if not 0 <= schedule_conservativeness < float("inf"):
            raise ConfigError(
                f"engine.schedule_conservativeness={schedule_conservativeness:g}: "
                "must be finite and >= 0"
            )
        self.lag = 0
        self.max_num_seqs = max_num_seqs
        self.max_num_batched_tokens = max(max_num_batched_tokens, max_num_seqs)
        self._chunked_prefill_size = max_num_batched_tokens
        self._max_prefill_tokens = max_prefill_tokens
        self._start_ratio = min(init_new_token_ratio * schedule_conservativeness, 1.0)
        self._min_ratio = min(self._start_ratio * min_new_token_ratio_factor, 1.0)
        self._decay_steps = new_token_ratio_decay_steps
        self._retract_decode_steps = retract_decode_steps
        self._clip_tokens = clip_max_new_tokens

    def bring_parts(self, kv: KvCache, batch: DecodeBatch) -> tuple[KvCache, DecodeBatch]:
        """A radix cache and a batch that can stand still, in the place of unused ones."""
        cache = RadixCache(kv)
        ratio = NewTokenRatio(self._start_ratio, self._min_ratio, self._decay_steps)
        return cache, SglangBatch(cache, batch.tree, ratio, self._clip_tokens)

    def has_room(self, instance: Instance) -> bool:
        """Whether waiting requests are looked at."""
        return not _batch_of(instance).is_full

    def plan_step(self, instance: Instance, now_s: float) -> int:
        """Plan a prefill batch if there is one, else a decode batch."""
        plan, batch = instance.plan, _batch_of(instance)
        if batch.is_paused:
            batch.resume()
            self._note_prefill_results(instance, batch)
        plan.has_preempted = False
        while True:
            if instance.prefilling or (instance.waiting and not batch.is_full):
                self._plan_prefill(instance, batch, now_s)
                if plan.chunks:
                    batch.pause()
                    return 1
            if batch.num_requests:
                return self._plan_decode(instance, batch, now_s)
            batch.ratio.reset(batch.clock)
            batch.num_stale = 0
            if not (batch.is_full and instance.waiting):
                batch.is_full = False
                return 0
            batch.is_full = False

    def _note_prefill_results(self, instance: Instance, batch: SglangBatch) -> None:
        """What the prefill batch that has just ended leaves behind."""
        plan = instance.plan
        has_ended = any(request.phase == FINISHED for request in plan.completing)
        if instance.prefilling:
            _cache_of(instance).cache_unfinished(instance.prefilling[0])
        if has_ended or instance.prefilling:
            batch.is_full = False
        plan.chunks = []  # others may still hold the lists
        plan.completing = []
        plan.prefill_tokens = 0

    # -- prefill batches -------------------------------------------------------------------------

    def _plan_prefill(self, instance: Instance, batch: SglangBatch, now_s: float) -> None:
        """Fill the plan with a prefill batch, if any request goes in."""
        kv, prefilling = _cache_of(instance), instance.prefilling
        seats = self.max_num_seqs - batch.num_requests - batch.num_stale
        if seats <= 0 and not prefilling:
            batch.is_full = True
            return
        ratio = batch.ratio.at(batch.clock)
        adder = PrefillAdder(
            kv,
            reserved_tokens=batch.outstanding_tokens * ratio,
            clip_tokens=self._clip_tokens,
            rem_input_tokens=self._max_prefill_tokens,
            rem_chunk_tokens=self._chunked_prefill_size,
            may_overdraw=not (batch.num_requests or prefilling),
        )
        if prefilling:
            request = prefilling.pop()
            adder.add_chunked(request)
            _schedule_chunk(instance, request, adder.chunk_tokens)
        if instance.waiting and not batch.is_full:
            if adder.num_requests >= seats:
                batch.is_full = True
            else:
                self._admit_waiting(instance, batch, adder, seats, now_s)
        if adder.new_tokens:
            kv.allocate(adder.new_tokens)
            instance.plan.decode_blocks = 0

    def _admit_waiting(
        self,
        instance: Instance,
        batch: SglangBatch,
        adder: PrefillAdder,
        seats: int,
        now_s: float,
    ) -> None:
        """Admit in the policy's order until one does not go in.

        Requests leave the queue when the policy is done, so that it may iterate over the queue.
        """
        waiting, policy = instance.waiting, instance.policy
        admitted: list[int] = []
        for request in iterate_candidates(policy, policy.candidates(instance, now_s)):
            if not isinstance(request, Request) or request.phase != WAITING:
                raise not_waiting(instance, request)
            verdict = adder.try_request(request)
            if verdict is Verdict.NO_TOKENS:
                batch.is_full = True
                break
            if verdict is Verdict.NO_BUDGET:
                break
            self._admit(instance, request, adder, now_s)
            admitted.append(request.request_id)
            if verdict is Verdict.FILLS:
                batch.is_full = True
            if verdict is not Verdict.ADDED:
                break
            if adder.num_requests >= seats:
                batch.is_full = len(admitted) < len(waiting)
                break
        for request_id in admitted:
            if waiting.pop(request_id, None) is None:
                raise not_waiting(instance, instance.running[request_id])

    def _admit(
        self, instance: Instance, request: Request, adder: PrefillAdder, now_s: float
    ) -> None:
        hit_tokens = adder.hit_tokens
        instance.loads.queued_prefill_tokens[instance.instance_id] -= hit_tokens
        instance.admit(request, [], hit_tokens, now_s)
        _schedule_chunk(instance, request, adder.chunk_tokens)

    # -- decode batches --------------------------------------------------------------------------

    def _plan_decode(self, instance: Instance, batch: SglangBatch, now_s: float) -> int:
        """Take the tokens of a decode step, retracting if they run out.

        Returns:
            The number of steps for which planning anew would give the same.
        """
        plan, kv = instance.plan, _cache_of(instance)
        has_shrunk = batch.num_stale > 0
        batch.num_stale = 0
        available = kv.queue.num_blocks
        if available < batch.num_requests:
            self._retract(instance, batch, kv, now_s)
            has_shrunk = True
            available = kv.queue.num_blocks
        if has_shrunk:
            batch.is_full = False
        size = batch.num_requests
        kv.step_tokens = plan.decode_blocks = size
        kv.take(size)
        if not instance.macro_steps or plan.has_preempted:
            return 1
        if instance.waiting and (has_shrunk or instance.policy.decides == "every_step"):
            return 1
        steps = min(batch.steps_to_first_finish(), batch.steps_within_blocks(available))
        return min(steps, MAX_RUN_STEPS)

    def _retract(
        self, instance: Instance, batch: SglangBatch, kv: RadixCache, now_s: float
    ) -> None:
        """Take requests out of the batch until a decode step of the others fits.

        The one with the least output goes first, of several the one with the longest prompt, of
        those the last one running. They join the tail of the queue in this order. One stays.

        Source: SGLang `ScheduleBatch.retract_decode`.
        """
        decoding = [r for r in instance.running.values() if r.phase == DECODING]
        decoding.sort(key=lambda r: (batch.generated_tokens(r), -r.prompt_tokens), reverse=True)
        clock = batch.clock
        # That the step does not fit is found by evicting for it, so everything evictable is gone.
        kv.make_free(len(decoding))
        while len(decoding) > 1:
            request = decoding.pop()
            intervals = request.intervals + batch.token_intervals(request)
            instance.preempt(request, now_s)
            request.intervals = intervals
            instance.waiting.move_to_end(request.request_id)
            kv.make_free(len(decoding) * self._retract_decode_steps)
            kv.make_free(len(decoding))
            if kv.num_free_tokens >= len(decoding):
                break
        batch.ratio.estimate(
            decoded_tokens=sum([batch.generated_tokens(r) for r in decoding]),
            max_new_tokens=sum([r.output_tokens for r in decoding]),
            room_tokens=self._retract_decode_steps * len(decoding),
            clock=clock,
        )


def _batch_of(instance: Instance) -> SglangBatch:
    batch = instance.batch
    assert isinstance(batch, SglangBatch)
    return batch


def _cache_of(instance: Instance) -> RadixCache:
    kv = instance.kv
    assert isinstance(kv, RadixCache)
    return kv


def _schedule_chunk(instance: Instance, request: Request, num_tokens: int) -> None:
    """Plan `num_tokens` of prefill of a running request."""
    plan = instance.plan
    prefix = request.computed_tokens
    request.computed_tokens = request.num_blocks = end = prefix + num_tokens
    is_last = end >= request.prompt_tokens + request.generated_tokens
    plan.chunks.append(PrefillChunk(num_tokens, prefix, is_last))
    plan.prefill_tokens += num_tokens
    instance.loads.queued_prefill_tokens[instance.instance_id] -= num_tokens
    if is_last:
        plan.completing.append(request)
    else:
        instance.prefilling.append(request)
