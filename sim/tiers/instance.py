"""An instance whose prefix cache goes on in the memory of its host, and in a store behind it.

A load takes its blocks on the GPU at once, but they can be hit by others only when it is complete
(two requests with one prompt load it twice). A request that is preempted while it loads gives its
blocks back; what is on the link arrives for nothing.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sim.checked_instance import CheckedInstance
from sim.errors import InvariantError
from sim.front_end_output import CheckedCountedInstance, CountedInstance
from sim.interfaces import DecodeBatchView, PrefillChunk
from sim.looped_instance import LoopedInstance
from sim.request import PREFILLING, Request
from sim.step_clock import IDLE_WAKE
from sim.tiers.caches import TieredIndexedKvCache, TieredKvCache
from sim.tiers.layerwise import LayerwiseLedger
from sim.tiers.loading import LOADING, Found, Load, LoadLog, found_within
from sim.tiers.spec import LAYERWISE, WRITE_BACK, TierSpec
from sim.transfer_network import Port, start_transfer

if TYPE_CHECKING:
    from sim.tiers.domain import TierDomain


class TieredInstance(LoopedInstance):
    """A replica with tiers behind its prefix cache.

    Attributes:
        loading: loads under way, by request.
        loaded: requests whose load is complete and that have not begun to compute.
        load_log: what the loads came to.
        from_host: the link from the host.
        loads_layerwise: whether the first step of a request waits for its load.
        has_layerwise_load: whether the planned step does.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.loading: dict[int, Load] = {}
        self.loaded: dict[int, Request] = {}
        self.load_log = LoadLog()
        self.has_layerwise_load = False
        self._plan_s = 0.0
        self._num_timed_steps = 1

    def join(
        self, spec: TierSpec, domain: "TierDomain", from_host: Port, from_remote: Port | None
    ) -> None:
        """Take the tiers; before the first request."""
        assert isinstance(self.kv, TieredKvCache | TieredIndexedKvCache)
        self._tier_spec, self._domain = spec, domain
        self._cache = self.kv
        self.from_host, self._from_remote = from_host, from_remote
        self.loads_layerwise = spec.load == LAYERWISE
        if spec.write == WRITE_BACK:
            self._cache.tell_evicted = self._note_write
        else:
            self._cache.tell_computed = self._note_write
        if self.loads_layerwise:
            self._layerwise = LayerwiseLedger(self.ledger, spec)
            self._price_mixed_step = self._mixed_step_s
            self._mixed_step_s = self._step_with_load_s
            self.ledger = self._layerwise
        domain.watch(self)

    def _note_write(self, time_s: float, owner: int, first: int, end: int) -> None:
        self._domain.note_write(self.instance_id, time_s, owner, first, end)

    # -- times of what is taken ------------------------------------------------------------------

    def begin_plan(self, now_s: float) -> None:
        """A step is planned at `now_s`."""
        self._cache.now_s = self._plan_s = now_s
        self._num_timed_steps = 1
        self.has_layerwise_load = False

    def bring_blocks_to_now(self) -> None:
        """Note what the steps planned by now have taken and computed."""
        self._sync_blocks()

    def _take_run_blocks(self, num_steps: int) -> None:
        """Take the blocks of the first `num_steps` steps of the run, each when it is planned."""
        first, cache = self.batch.step - 1 - self.lag, self._cache
        if cache.tell_evicted is None:
            is_told = bool(self.plan.chunks)
        else:
            is_told = not cache.evicts_nothing(self.missing_blocks(num_steps))
        if not is_told:
            self._num_timed_steps = max(self._num_timed_steps, num_steps)
            super()._take_run_blocks(num_steps)
            return
        view, plan, batch = self.step_ends.view, self.plan, self.batch
        phases, size = batch.block_phases, self.kv.block_tokens
        for step in range(self._num_timed_steps, num_steps):
            at = first + step
            num_blocks = phases[(batch.step + step) % size]
            if plan.chunks:
                cache.now_s = max(self._plan_s, view[at]) if at >= 0 else self._plan_s
                super()._take_run_blocks(step + 1)
            elif num_blocks:
                cache.now_s = max(self._plan_s, view[at]) if at >= 0 else self._plan_s
                cache.take(num_blocks)
                plan.decode_blocks += num_blocks
        self._num_timed_steps = max(self._num_timed_steps, num_steps)

    def _schedule_chunks(self, num_steps: int, decode_blocks: int) -> None:
        super()._schedule_chunks(num_steps, decode_blocks)
        self.note_chunks()

    def note_chunk(self, request: Request, num_tokens: int) -> None:
        """The planned step computes so many tokens of a request."""
        end, block_tokens = request.computed_tokens, self.kv.block_tokens
        first = (end - num_tokens) // block_tokens
        self._cache.note_computed(request, first, end // block_tokens)

    def note_chunks(self) -> None:
        """The same for the request that was part-way through its prefill."""
        if self.plan.chunks:
            completing = self.plan.completing
            request = completing[-1] if completing else self.prefilling[0]
            self.note_chunk(request, 0)

    def _release_finished(self, now_s: float) -> None:
        self._cache.now_s = now_s
        super()._release_finished(now_s)

    # -- loads -----------------------------------------------------------------------------------

    def find_in_tiers(
        self, request: Request, first_block: int, end_block: int, room: int, now_s: float
    ) -> Found | None:
        """What is worth loading for a request; at most `room` blocks, None for nothing."""
        if room <= 0:
            return None
        runs = self._domain.find(self.instance_id, request, first_block, end_block, now_s)
        num_blocks = min(sum(run.end - run.first for part in runs for run in part), room)
        if num_blocks <= 0 or num_blocks * self.kv.block_tokens < self._tier_spec.min_hit_tokens:
            return None
        return found_within(*runs, num_blocks)

    def begin_load(self, request: Request, found: Found, now_s: float) -> None:
        """Load what was found for a request that has just been admitted."""
        load = self._reserve(request, found, now_s)
        request.phase = LOADING
        self.loading[request.request_id] = load
        spec, size = self._tier_spec, self._tier_spec.block_bytes
        links = [([self.from_host], spec.host_link.latency_s, found.num_host)]
        if self._from_remote is not None and spec.remote_link is not None:
            latency_s = spec.remote_link.latency_s + spec.host_link.latency_s
            links.append(([self._from_remote, self.from_host], latency_s, found.num_remote))
        links = [link for link in links if link[2]]
        load.num_transfers = len(links)

        def on_done(time_s: float) -> None:
            load.num_transfers -= 1
            if not load.num_transfers:
                self._on_loaded(load, time_s)

        for ports, latency_s, num_blocks in links:
            start_transfer(self._clock, ports, latency_s, num_blocks * size, now_s, on_done)

    def _reserve(self, request: Request, found: Found, now_s: float) -> Load:
        """Take blocks for what was found."""
        kv, i = self._cache, self.instance_id
        self._domain.note_use(i, now_s, (*found.at_host, *found.at_remote))
        num_blocks = found.num_host + found.num_remote
        num_hit = request.num_blocks
        end_block = num_hit + num_blocks
        kv.take(num_blocks)
        kv.name_blocks(request, end_block, num_hit)
        request.num_blocks = end_block
        request.computed_tokens = end_block * kv.block_tokens
        self.loads.prefill_tokens[i] -= num_blocks * kv.block_tokens
        self.load_log.note(request, found, kv.block_tokens)
        return Load(request, found, end_block, now_s)

    def _make_hittable(self, request: Request, num_blocks: int) -> None:
        if request.extents:
            if self.open_outputs:
                self.name_open_outputs(request)
            self.kv.name_blocks(request, num_blocks, num_blocks)

    def _on_loaded(self, load: Load, now_s: float) -> None:
        request = load.request
        self._domain.note_passage(self.instance_id, now_s, load.found.at_remote)
        if self.loading.get(request.request_id) is not load:  # preempted meanwhile
            return
        del self.loading[request.request_id]
        self.load_log.wait_s[request.request_id] += now_s - load.start_s
        self._sync_blocks()
        self._make_hittable(request, load.num_blocks)
        self.loaded[request.request_id] = request
        if self.is_idle:
            self.is_idle = False
            self.run_log.busy_from_step.append(self.batch.step)
            self.run_log.busy_from_s.append(now_s)
            self._completed_at_wake = self.batch.step
            self._wake_at(now_s, IDLE_WAKE)
        elif self._run_steps > 1 and not self.plan.chunks:
            self._cut_run(now_s)

    def begin_prefill(self, request: Request) -> None:
        """A loaded request computes from the planned step on: it becomes the last one running."""
        del self.loaded[request.request_id]
        del self.running[request.request_id]
        self.running[request.request_id] = request
        request.phase = PREFILLING
        request.admission_index = self._admission_index
        self._admission_index += 1

    def preempt(self, request: Request, now_s: float) -> None:
        """Take the KV from a running request and put it at the head of the waiting ones."""
        if request.phase == LOADING:
            load = self.loading.pop(request.request_id, None)
            if load is not None:  # what has not arrived is no KV
                found, block_tokens = load.found, self.kv.block_tokens
                lost = (found.num_host + found.num_remote) * block_tokens
                request.computed_tokens -= lost
                self.loads.prefill_tokens[self.instance_id] += lost
                self.load_log.wait_s[request.request_id] += now_s - load.start_s
            else:
                del self.loaded[request.request_id]
            request.phase = PREFILLING
            self.prefilling.append(request)
        super().preempt(request, now_s)

    # -- loads that a step waits for -------------------------------------------------------------

    def load_with_step(self, request: Request, found: Found, now_s: float) -> None:
        """Load what was found while the planned step computes, layer by layer."""
        load = self._reserve(request, found, now_s)
        self._make_hittable(request, load.num_blocks)
        self.has_layerwise_load = True
        self._layerwise.add(request, found.num_host * self._tier_spec.block_bytes, now_s)

    def _step_with_load_s(self, batch: DecodeBatchView, chunks: Sequence[PrefillChunk]) -> float:
        compute_s = self._price_mixed_step(batch, chunks)
        if not self.has_layerwise_load:
            return compute_s
        step = self.batch.step
        start_s = self._plan_s if step == self._completed else self.step_ends.view[step - 1]
        wait_s, requests = self._layerwise.wait(step, start_s, compute_s)
        for request in requests:
            self.load_log.wait_s[request.request_id] += wait_s
        return compute_s + wait_s

    # -- reads -----------------------------------------------------------------------------------

    def kv_tokens_at(self, time_s: float) -> int:
        """KV tokens that running requests hold at `time_s`, shared ones counted per request."""
        admitted = [load.request for load in self.loading.values()] + list(self.loaded.values())
        return super().kv_tokens_at(time_s) + sum([r.computed_tokens for r in admitted])


class CheckedTieredInstance(TieredInstance, CheckedInstance):
    """The same under `check=true`."""

    def _may_idle(self) -> bool:
        return bool(self.loading)

    def stop(self, time_s: float) -> int:
        """End the run in flight for good; returns the steps that ended by `time_s`."""
        ended = super().stop(time_s)
        self._domain.check()
        port, log = self.from_host, self.load_log
        num_bytes = (log.host_blocks + log.remote_blocks) * self._tier_spec.block_bytes
        arrived = self._layerwise.num_bytes if self.loads_layerwise else port.num_bytes
        if arrived != num_bytes and not port.transfers and not port.num_expected:
            raise InvariantError(f"14: KV of {num_bytes} bytes loaded, {arrived} arrived")
        return ended


class CountedTieredInstance(TieredInstance, CountedInstance):
    """An instance of a closed loop behind a front end."""


class CheckedCountedTieredInstance(CheckedTieredInstance, CheckedCountedInstance):
    """The same under `check=true`."""
