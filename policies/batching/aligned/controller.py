"""AlignedServe: a pool of prefilled requests on the host, and decode batches of similar KV length.

A feeder between prefill and decode instances (`sim.disaggregation`). Not modelled: CPU time of the
search, a limit of the host's memory bandwidth, KV that arrives in parts.
"""

from collections import deque
from collections.abc import Mapping
from math import isfinite
from typing import ClassVar

from policies.batching.aligned.feeding_log import FeedingLog
from policies.batching.aligned.forming import BatchForming
from policies.batching.aligned.lane import Lane
from policies.batching.aligned.length_tree import FANOUT, MAX_TOKENS, ROOT, LengthTree, Node
from sim.disaggregation.interfaces import DecodeFeeder, KvMover
from sim.disaggregation.moving import (
    DECODE_GPU,
    HOST_POOL,
    PREFILL_BUFFER,
    MovingRequest,
    Stage,
)
from sim.errors import ConfigError

K_MIN = 36
BATCH_RATIO = 0.4
"""Requests that an interval must hold, and a batch's share of a decode instance's KV blocks.

Source: AlignedServe as summarised by a third party; both were tuned for its machine."""

CANDIDATE_REQUESTS_RATIO = 0.2
"""Share of the buffer for requests that top up the running batch (ours: the sizes are unknown)."""

FILLS = ("node", "widen")
FORMS = ("k_min", "at_once")

_POOL = Stage(HOST_POOL, 0)


class AlignedServe(DecodeFeeder):
    """Feeds decode instances with batches of requests of similar KV length.

    A prefilled request goes to the pool of the host. From there, per decode instance:

    * the next batch is formed (`BatchForming`) and prefetched to the buffer of a prefill instance;
    * requests of the running batch's interval are prefetched there too, and top it up, oldest
      first, while its KV stays within `batch_ratio` of the blocks;
    * the next batch is switched in as a whole when fewer than `switch_below` requests run, the
      whole of it is in the buffer, and there are blocks for it. What still runs goes on with it.

    A request that is evicted for lack of blocks goes to the buffer with its KV, or to the pool if
    there is no room, and is the first to come back to its decode instance. Requests that were to
    top up a batch that ended go back to the pool. All ways are paid for. The pool is shared;
    decode instance k uses the buffer of prefill instance k modulo their number, and those that use
    the same one have equal parts of it.

    Args:
        k_min: requests that an interval must hold to give a batch, at least 1.
        batch_ratio: KV of a batch at most, as a share of the decode instance's, in (0, 1].
        leaf_tokens: width of the smallest intervals, tokens, a power of 4 up to 65,536; null: 1.
        fills: what a batch takes when its interval is used up: ``node`` (null), nothing more;
            ``widen``, the rest of the intervals around it, up to the limit.
        forms: when the next batch is formed: ``k_min``, when an interval has enough requests, or
            the batch that runs is about to end; ``at_once``, when there is none.
        switch_below: requests; null: half of `k_min`.
        candidate_requests_ratio: share of the buffer for requests that top up, in [0, 1); null:
            0.2.
        prefetch: False: KV goes from the pool to the decode instance when it is wanted there (an
            ablation); the buffer is not used.
        length_aware: False: batches and top-ups are the oldest requests of the pool (an ablation).
        max_wait_s: ours, off by default: while a request has been in the pool for longer, nothing
            tops up the running batches, and the next batch formed takes the oldest requests.

    Attributes:
        log: what was done.

    Raises:
        ConfigError: a value is out of range, or is not read.

    Source: AlignedServe (arXiv 2605.23389; SIGMOD 2026): pool, quad-tree, buffers, prefetch. Its
    code is not public; what is ours is said in docs/policies/aligned_serve.md.
    """

    keeps_preempted: bool = True
    chooses_by_router: ClassVar[bool] = False
    """Whether a decode router picks the instance of a request."""

    def __init__(
        self,
        k_min: int = K_MIN,
        batch_ratio: float = BATCH_RATIO,
        leaf_tokens: int | None = None,
        fills: str | None = None,
        forms: str = "k_min",
        switch_below: int | None = None,
        candidate_requests_ratio: float | None = None,
        prefetch: bool = True,
        length_aware: bool = True,
        max_wait_s: float | None = None,
    ) -> None:
        if not length_aware:
            _refuse_given("length_aware", {"leaf_tokens": leaf_tokens, "fills": fills})
        if not prefetch:
            given = {"candidate_requests_ratio": candidate_requests_ratio}
            _refuse_given("prefetch", given)
        leaf_tokens = 1 if leaf_tokens is None else leaf_tokens
        fills = FILLS[0] if fills is None else fills
        share = candidate_requests_ratio
        share = CANDIDATE_REQUESTS_RATIO if share is None else share
        _check(k_min >= 1, "k_min", k_min, "at least 1")
        _check(0 < batch_ratio <= 1, "batch_ratio", batch_ratio, "above 0 and at most 1")
        widths = [FANOUT**k for k in range(9) if FANOUT**k <= MAX_TOKENS]
        _check(leaf_tokens in widths, "leaf_tokens", leaf_tokens, f"one of {widths}")
        _check(fills in FILLS, "fills", fills, " or ".join(FILLS))
        _check(forms in FORMS, "forms", forms, " or ".join(FORMS))
        if switch_below is not None:
            _check(switch_below >= 1, "switch_below", switch_below, "at least 1, or null")
        _check(0 <= share < 1, "candidate_requests_ratio", share, "at least 0 and below 1")
        if max_wait_s is not None:
            is_good = max_wait_s > 0 and isfinite(max_wait_s)
            _check(is_good, "max_wait_s", max_wait_s, "finite and above 0, or null")
        self._batch_ratio = batch_ratio
        self._forms_at_once = forms == "at_once"
        # Fewer than half of k_min: for whole numbers, fewer than that half rounded up.
        self._switch_below = -(-k_min // 2) if switch_below is None else switch_below
        self._spare_ratio = share
        self._prefetches = prefetch
        self._length_aware = length_aware
        self._tree = LengthTree(leaf_tokens)
        self._forming = BatchForming(self._tree, k_min, length_aware, fills, max_wait_s)
        self._lanes: list[Lane] = []
        self._lane_of: dict[int, Lane] = {}
        self._moving: dict[int, MovingRequest] = {}
        self._since_s: dict[int, float] = {}
        self._held: deque[MovingRequest] = deque()
        self._oversize: deque[MovingRequest] = deque()
        self._evicted: set[int] = set()
        self._stranded: list[MovingRequest] = []
        self.log = FeedingLog()

    # -- hooks -----------------------------------------------------------------------------------

    def open(self, mover: KvMover) -> None:
        """Called once, before the first arrival."""
        self._mover = mover
        if mover.capacity_bytes(_POOL) < 1:
            raise ConfigError("cluster.host_pool_bytes: batching by length needs a pool; give it")
        decode_ids, prefill_ids = mover.decode_ids, mover.prefill_ids
        has_buffer = mover.capacity_bytes(Stage(PREFILL_BUFFER, prefill_ids[0])) > 0
        if has_buffer and not self._prefetches:
            raise ConfigError(
                "cluster.prefill_buffer_bytes has no effect with cluster.feeder.prefetch=false: "
                "leave it out"
            )
        num_sharing = [0] * len(prefill_ids)
        for k in range(len(decode_ids)):
            num_sharing[k % len(prefill_ids)] += 1
        for k, decode_id in enumerate(decode_ids):
            place = k % len(prefill_ids)
            buffer = Stage(PREFILL_BUFFER, prefill_ids[place])
            part = mover.capacity_bytes(buffer) // num_sharing[place]
            self._lanes.append(self._open_lane(decode_id, buffer, part))
            self._lane_of_decode = {lane.gpu.owner: lane for lane in self._lanes}

    def _open_lane(self, decode_id: int, buffer: Stage, buffer_bytes: int) -> Lane:
        gpu = Stage(DECODE_GPU, decode_id)
        usable = self._mover.decode_view(decode_id).num_usable_blocks
        self._block_bytes = self._mover.capacity_bytes(gpu) // usable
        max_blocks = max(1, int(self._batch_ratio * usable))
        if not self._prefetches:
            return Lane(gpu, buffer, max_blocks, max_blocks, 0)
        buffer_blocks = buffer_bytes // self._block_bytes
        spare_blocks = int(self._spare_ratio * buffer_blocks)
        batch_blocks = min(max_blocks, buffer_blocks - spare_blocks)
        if batch_blocks < 1:
            raise ConfigError(
                "cluster.prefill_buffer_bytes: too small for a KV block per decode instance; "
                "raise it or turn prefetch off"
            )
        return Lane(gpu, buffer, max_blocks, batch_blocks, spare_blocks)

    def wanted_buffer_bytes(self, decode_bytes: int) -> int:
        """Room in a buffer for the next batch and what tops up the running one.

        Args:
            decode_bytes: KV that the decode instance holds.
        """
        if not self._prefetches:
            return 0
        return int(self._batch_ratio * decode_bytes / (1 - self._spare_ratio))

    def on_prefilled(self, moving: MovingRequest, now_s: float) -> None:
        """The first token of a request is out: its KV goes to the pool when there is room."""
        row = moving.request.request_id
        self._since_s[row] = now_s
        if moving.num_bytes > self._mover.capacity_bytes(_POOL):
            self._oversize.append(moving)
        else:
            self._held.append(moving)
        self._go_on(now_s)

    def on_kv_arrived(self, moving: MovingRequest, stage: Stage, now_s: float) -> None:
        """KV is in the pool, in a buffer or on a decode GPU."""
        row = moving.request.request_id
        if stage.kind == HOST_POOL and row in self._evicted:
            self._lane_of[row].away[row] = moving
        elif stage.kind == HOST_POOL:
            self._moving[row] = moving
            self._tree.insert(
                row, moving.request.computed_tokens, self._blocks(moving), self._since_s[row]
            )
        elif stage.kind == PREFILL_BUFFER:
            self._arrive_in_buffer(self._lane_of[row], moving, now_s)
        else:
            self._arrive_on_gpu(self._lane_of.pop(row), moving, now_s)
        self._go_on(now_s)

    def on_decode_change(self, instance_id: int, now_s: float) -> None:
        """Requests of a batch finished, or it lacked blocks."""
        self._go_on(now_s)

    def on_preempted(self, moving: MovingRequest, now_s: float) -> None:
        """A decode instance gave up a request: its KV goes to the buffer, else to the pool.

        Raises:
            ConfigError: it is too large for the pool.
        """
        capacity_bytes = self._mover.capacity_bytes(_POOL)
        if moving.num_bytes > capacity_bytes:
            raise ConfigError(
                f"cluster.host_pool_bytes={capacity_bytes}: too small for the KV of an evicted "
                f"request, {moving.num_bytes} bytes"
            )
        self.log.num_evicted += 1
        self._stranded.append(moving)
        self._go_on(now_s)

    # -- arrivals --------------------------------------------------------------------------------

    def _arrive_in_buffer(self, lane: Lane, moving: MovingRequest, now_s: float) -> None:
        row = moving.request.request_id
        if row in lane.batch_coming:
            lane.batch_coming.remove(row)
            return
        del lane.spare_coming[row]
        if row in self._evicted:
            lane.spare = {row: moving, **lane.spare}
            return
        lane.spare[row] = moving
        self._send_back(lane, now_s)

    def _arrive_on_gpu(self, lane: Lane, moving: MovingRequest, now_s: float) -> None:
        row = moving.request.request_id
        if row not in lane.switching:
            lane.num_inbound -= 1
            self._mover.admit([moving], now_s)
            return
        lane.switched.add(row)
        if len(lane.switched) == len(lane.switching):
            batch = list(lane.switching.values())
            lane.switching, lane.switched = {}, set()
            lane.num_inbound -= len(batch)
            self._mover.admit(batch, now_s)

    # -- decisions -------------------------------------------------------------------------------

    def _go_on(self, now_s: float) -> None:
        """Do all that can be done now."""
        self._store(now_s)
        # The emptiest first: one pool serves them all.
        for lane in sorted(self._lanes, key=lambda lane: (self._num_on_gpu(lane), lane.gpu.owner)):
            self._top_up(lane, now_s)
            if self._switch(lane, now_s):
                self._top_up(lane, now_s)
            self._fetch_spare(lane, now_s)
            self._form(lane, now_s)
        pool_bytes = self._mover.capacity_bytes(_POOL) - self._mover.free_bytes(_POOL)
        self.log.note_pool(pool_bytes, now_s)

    def _store(self, now_s: float) -> None:
        """Move out what lies on GPUs and should not: evicted requests, then prefilled ones."""
        stranded, self._stranded = self._stranded, []
        for moving in stranded:
            lane = self._lane_of_decode[moving.stage.owner]
            row = moving.request.request_id
            if self._prefetches and self._mover.start_transfer(moving, lane.buffer, now_s):
                self._evicted.add(row)
                self._lane_of[row] = lane
                lane.spare_coming[row] = moving
            elif self._mover.start_transfer(moving, _POOL, now_s):
                self._evicted.add(row)
                self._lane_of[row] = lane
            else:
                self._stranded.append(moving)
        held = self._held
        while held and self._mover.start_transfer(held[0], _POOL, now_s):
            held.popleft()

    def _top_up(self, lane: Lane, now_s: float) -> None:
        """Send requests that may join the running batch, while its KV stays within the limit."""
        if lane.node is None:
            return
        while True:
            moving = next(iter((lane.away or lane.spare).values()), None)
            if moving is None and not self._prefetches:
                moving = self._next_of_pool(lane, lane.node, now_s)
            if moving is None or not self._may_join(lane, moving):
                return
            if not self._mover.start_transfer(moving, lane.gpu, now_s):
                return
            row = moving.request.request_id
            if row in self._tree:
                self._tree.remove(row)
            lane.away.pop(row, None)
            lane.spare.pop(row, None)
            self._evicted.discard(row)
            self._lane_of[row] = lane
            lane.num_inbound += 1
            self.log.num_topped_up += 1
            self.log.note_join(row, lane.number, now_s)

    def _may_join(self, lane: Lane, moving: MovingRequest) -> bool:
        view = self._mover.decode_view(lane.gpu.owner)
        used = view.num_usable_blocks - view.num_free_blocks
        return used + self._blocks(moving) <= lane.max_blocks or self._num_on_gpu(lane) == 0

    def _switch(self, lane: Lane, now_s: float) -> bool:
        """Send the next batch, if it is time; what runs goes on with it."""
        if not lane.is_batch_ready or lane.switching:
            return False
        if self._num_on_gpu(lane) >= self._switch_below:
            return False
        # A request needs a block for its first step that its KV may not have.
        needed = sum(self._blocks(moving) + 1 for moving in lane.batch)
        view = self._mover.decode_view(lane.gpu.owner)
        if needed > view.num_free_blocks and self._num_on_gpu(lane):
            return False
        number = self.log.num_batches
        while lane.batch and self._mover.start_transfer(lane.batch[0], lane.gpu, now_s):
            moving = lane.batch.pop(0)
            row = moving.request.request_id
            self._lane_of[row] = lane
            lane.switching[row] = moving
            self.log.note_join(row, number, now_s)
        if not lane.switching:
            return False
        lane.number, lane.node, lane.is_aligned = number, lane.batch_node, lane.batch_is_aligned
        lane.num_inbound += len(lane.switching)
        self.log.num_batches += 1
        self.log.num_aligned += lane.is_aligned
        self.log.num_batch_requests += len(lane.switching)
        self._send_back(lane, now_s)
        return True

    def _send_back(self, lane: Lane, now_s: float) -> None:
        """Return to the pool what was to top up a batch that has ended."""
        node = lane.node
        assert node is not None
        for row, moving in list(lane.spare.items()):
            if row in self._evicted or self._tree.covers(node, moving.request.computed_tokens):
                continue
            if self._mover.start_transfer(moving, _POOL, now_s):
                del lane.spare[row], self._lane_of[row]
                self.log.num_sent_back += 1

    def _fetch_spare(self, lane: Lane, now_s: float) -> None:
        """Prefetch requests that may top up the running batch."""
        if not self._prefetches or lane.node is None:
            return
        left = lane.spare_blocks * self._block_bytes - lane.spare_bytes
        while True:
            moving = self._next_of_pool(lane, lane.node, now_s)
            if moving is None or moving.num_bytes > left:
                return
            if not self._mover.start_transfer(moving, lane.buffer, now_s):
                return
            row = moving.request.request_id
            self._tree.remove(row)
            self._lane_of[row] = lane
            lane.spare_coming[row] = moving
            left -= moving.num_bytes

    def _next_of_pool(self, lane: Lane, node: Node, now_s: float) -> MovingRequest | None:
        """The request of the pool that is the next to top up a batch, if one may."""
        if self._forming.has_overdue(now_s):
            return None
        if self._length_aware and not lane.is_aligned and self._forming.is_ready():
            return None  # a batch by age ends as soon as one by length can follow
        row = self._forming.next_top_up(node)
        return None if row is None else self._moving[row]

    def _form(self, lane: Lane, now_s: float) -> None:
        """Form the next batch and prefetch it; a batch that need not travel may run at once."""
        if lane.batch:
            return
        if self._oversize:
            lane.batch = [self._oversize.popleft()]
            lane.batch_node, lane.batch_is_aligned = ROOT, False
        elif self._is_time_to_form(lane, now_s):
            chosen = self._forming.form(lane.batch_blocks, now_s)
            lane.batch_node, lane.batch_is_aligned = chosen.node, chosen.is_aligned
            for row in chosen.rows:
                self._tree.remove(row)
                moving = self._moving[row]
                lane.batch.append(moving)
                if self._prefetches and self._mover.start_transfer(moving, lane.buffer, now_s):
                    self._lane_of[row] = lane
                    lane.batch_coming.add(row)
        self._switch(lane, now_s)

    def _is_time_to_form(self, lane: Lane, now_s: float) -> bool:
        if not len(self._tree):
            return False
        if self._forms_at_once or self._forming.is_ready() or self._forming.has_overdue(now_s):
            return True
        return self._num_on_gpu(lane) < self._switch_below

    # -- parts -----------------------------------------------------------------------------------

    def _blocks(self, moving: MovingRequest) -> int:
        return moving.num_bytes // self._block_bytes

    def _num_on_gpu(self, lane: Lane) -> int:
        """Requests that run on a decode instance, or are about to."""
        view = self._mover.decode_view(lane.gpu.owner)
        return len(view.running) + len(view.waiting) + lane.num_inbound


def _refuse_given(switch: str, values: Mapping[str, object]) -> None:
    for name, value in values.items():
        if value is not None:
            raise ConfigError(
                f"cluster.feeder.{name}={value} has no effect with cluster.feeder.{switch}=false: "
                "set it to null"
            )


def _check(is_good: bool, name: str, value: object, allowed: str) -> None:
    if not is_good:
        raise ConfigError(f"cluster.feeder.{name}={value}: must be {allowed}")
