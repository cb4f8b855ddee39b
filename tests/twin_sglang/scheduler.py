"""One instance of SGLang with FCFS, step by step and token by token.

Source: SGLang, python/sglang/srt/managers/{scheduler,schedule_policy,schedule_batch}.py (behaviour
only).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sim.workload import Workload
from tests.twin.arrival_book import ArrivalBook
from tests.twin_sglang.radix import Radix
from tests.twin_sglang.request import TwinRequest, TwinResult, load_request


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Sizes and constants of the engine, by the names of its own options where it has them."""

    num_tokens: int
    max_running_requests: int
    chunked_prefill_size: int
    max_prefill_tokens: int = 16384
    start_ratio: float = 0.7
    min_ratio: float = 0.7 * 0.14
    decay_steps: int = 600
    retract_decode_steps: int = 20
    clip: int = 4096
    radix_cache: bool = True


class Twin:
    """The instance."""

    def __init__(self, workload: Workload, limits: Limits) -> None:
        self.limits = limits
        self.requests = [load_request(workload, i) for i in range(workload.num_requests)]
        self.to_arrive = ArrivalBook(workload)
        self.radix = Radix(limits.num_tokens)
        self.waiting: list[TwinRequest] = []
        self.running: list[TwinRequest] = []
        self.chunked: TwinRequest | None = None
        self.prefilled: list[TwinRequest] = []
        self.is_full = False
        self.base_ratio, self.num_decays = limits.start_ratio, 0
        self.num_steps = 0

    @property
    def ratio(self) -> float:
        if not self.num_decays:
            return self.base_ratio
        decay = (self.limits.start_ratio - self.limits.min_ratio) / self.limits.decay_steps
        return max(self.base_ratio - self.num_decays * decay, self.limits.min_ratio)

    @property
    def unheld(self) -> int:
        return len(self.radix.free) + self.radix.num_evictable

    # -- a step ----------------------------------------------------------------------------------

    def plan(self, now_s: float) -> tuple[str, list[TwinRequest], list[int]]:
        """("prefill", "decode" or "idle", its requests, the tokens each of them computes)."""
        if self.chunked is not None:
            self.cache_unfinished(self.chunked)
        if self.prefilled:
            go_on = [r for r in self.prefilled if not r.has_ended and r is not self.chunked]
            if len(go_on) < len(self.prefilled):
                self.is_full = False
            self.running += go_on
            self.prefilled = []
        batch = self.plan_prefill(now_s)
        if batch:
            self.prefilled = [request for request, _ in batch]
            slots = self.radix.take(sum(count for _, count in batch))
            for request, count in batch:
                request.slots, slots = request.slots + slots[:count], slots[count:]
            return "prefill", self.prefilled, [count for _, count in batch]
        if self.plan_decode():
            return "decode", list(self.running), [1] * len(self.running)
        self.base_ratio, self.num_decays = self.limits.start_ratio, 0
        return "idle", [], []

    def plan_prefill(self, now_s: float) -> list[tuple[TwinRequest, int]]:
        if (self.is_full or not self.waiting) and self.chunked is None:
            return []
        seats = self.limits.max_running_requests - len(self.running)
        if seats <= 0 and self.chunked is None:
            self.is_full = True
            return []
        batch: list[tuple[TwinRequest, int]] = []
        left = sum(min(r.output - r.generated, self.limits.clip) for r in self.running)
        reserved = left * self.ratio
        rem_input, rem_chunk = self.limits.max_prefill_tokens, self.limits.chunked_prefill_size
        nothing_runs = self.chunked is None and all(r.has_ended for r in self.running)
        charged = 0
        if self.chunked is not None:
            request = self.chunked
            rest = request.prompt + request.generated - len(request.slots)
            count = min(rest, rem_chunk)
            batch.append((request, count))
            charged += count
            if count == rest:
                charged += min(request.output, self.limits.clip)
                self.chunked = None
            rem_input -= count
            rem_chunk -= count
        while self.waiting and not self.is_full:
            if len(batch) >= seats:
                self.is_full = True
                break
            request = self.waiting[0]
            known = request.known if self.limits.radix_cache else []
            hit_slots, node = self.radix.match(known[:-1])
            rest = request.prompt + request.generated - len(hit_slots)
            need = rest + min(request.output, self.limits.clip)
            is_forced = nothing_runs and not batch
            if not is_forced and not need < self.unheld - charged - reserved:
                self.is_full = True
                break
            if rest > rem_input and batch:
                break
            self.radix.lock(node)
            if not is_forced and not need < self.unheld - charged - reserved:
                self.radix.lock(node, -1)
                self.is_full = True
                break
            if rem_chunk <= 0:
                self.radix.lock(node, -1)
                break
            self.waiting.pop(0)
            request.node, request.in_tree, request.slots = node, len(hit_slots), hit_slots
            request.hits.append(len(hit_slots))
            request.admitted_s.append(now_s)
            count = min(rest, rem_chunk)
            batch.append((request, count))
            charged += count
            if count == rest:
                charged += min(request.output, self.limits.clip)
            else:
                self.chunked = request
            rem_input -= count
            rem_chunk -= count
            if self.unheld - charged - reserved <= 0:
                self.is_full = True
                break
            if rem_input <= 0 or rem_chunk <= 0:
                break
        return batch

    def plan_decode(self) -> bool:
        size = len(self.running)
        self.running = [request for request in self.running if not request.has_ended]
        if not self.running:
            self.is_full = False
            return False
        self.radix.make_free(len(self.running))
        if len(self.radix.free) < len(self.running):
            self.retract()
        else:
            self.num_decays += 1
        if len(self.running) < size:
            self.is_full = False
        for request, slot in zip(self.running, self.radix.take(len(self.running)), strict=True):
            request.slots = [*request.slots, slot]
        return True

    def retract(self) -> None:
        keep = sorted(self.running, key=lambda r: (-r.generated, r.prompt))
        while len(keep) > 1:
            request = keep.pop()
            self.running.remove(request)
            self.radix.free += request.slots[request.in_tree :]
            self.radix.lock(request.node, -1)
            request.node, request.in_tree, request.slots = None, 0, []
            request.retractions += 1
            self.waiting.append(request)
            self.radix.make_free(len(keep) * self.limits.retract_decode_steps)
            self.radix.make_free(len(keep))
            if len(self.radix.free) >= len(keep):
                break
        decoded = sum(request.generated for request in keep)
        room = self.limits.retract_decode_steps * len(keep)
        total = sum(request.output for request in keep)
        self.base_ratio, self.num_decays = min(1.0, (decoded + room) / (total + 1)), 0

    # -- its results -----------------------------------------------------------------------------

    def finish_step(self, kind: str, batch: Sequence[TwinRequest], now_s: float) -> None:
        self.num_steps += 1
        emitting = [request for request in batch if request is not self.chunked]
        for request in emitting:
            request.generated += 1
            request.token_steps.append(self.num_steps)
        for request in emitting:
            if request.has_ended:
                self.cache_finished(request)
                self.to_arrive.note_end(request.index, now_s)
            elif kind == "prefill":
                self.cache_unfinished(request)

    def cache_unfinished(self, request: TwinRequest) -> None:
        if not self.limits.radix_cache:
            return
        tokens = request.tokens[: len(request.slots)]
        found = self.radix.insert(tokens, request.slots)
        self.radix.free += request.slots[request.in_tree : found]
        request.slots, node = self.radix.match(tokens)
        assert len(request.slots) == len(tokens)
        self.radix.lock(node)
        self.radix.lock(request.node, -1)
        request.node, request.in_tree = node, len(tokens)

    def cache_finished(self, request: TwinRequest) -> None:
        assert len(request.slots) == request.prompt + request.output - 1
        found = len(request.slots)
        if self.limits.radix_cache:
            found = self.radix.insert(request.tokens[: len(request.slots)], request.slots)
        self.radix.free += request.slots[request.in_tree : found]
        self.radix.lock(request.node, -1)
        request.node, request.in_tree, request.slots = None, 0, []

    def check(self) -> None:
        """Every slot is free, in the tree or private to one request."""
        slots = list(self.radix.free)
        for node in self.radix.nodes():
            slots += node.slots
        for request in self.requests:
            slots += request.slots[request.in_tree :]
        assert sorted(slots) == list(range(self.limits.num_tokens))


def run_twin(workload: Workload, limits: Limits, *, step_s: float = 1.0) -> TwinResult:
    """Run every request of `workload` to its end; every step takes `step_s` seconds."""
    twin = Twin(workload, limits)
    ends: list[float] = []
    work: list[tuple[int, int, int]] = []
    unheld: list[int] = []
    ratios: list[float] = []
    now_s, was_idle = 0.0, False
    while not all(request.has_ended for request in twin.requests):
        for row in twin.to_arrive.take(now_s, was_idle=was_idle):
            twin.waiting.append(twin.requests[row])
        kind, batch, counts = twin.plan(now_s)
        if kind == "idle":
            if not twin.waiting:
                now_s, was_idle = max(now_s, twin.to_arrive.next_s), True
            continue
        was_idle = False
        twin.check()
        is_decode = kind == "decode"
        work.append((len(batch), 0, 0) if is_decode else (0, len(batch), sum(counts)))
        unheld.append(twin.unheld)
        ratios.append(twin.ratio)
        now_s += step_s
        ends.append(now_s)
        twin.finish_step(kind, batch, now_s)
    return TwinResult(twin.requests, ends, work, unheld, ratios, twin.to_arrive.arrival_s)
