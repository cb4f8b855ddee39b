"""Carries KV from prefill to decode: reservations, transfers, and what is told to whom when.

A feeder decides (`sim.disaggregation.interfaces`); this keeps every stage within its capacity. What
instances report at a step end is passed on after all step ends of that instant, in a fixed order.
"""

from collections.abc import Sequence

from sim.disaggregation.decode_instance import DecodeInstance
from sim.disaggregation.interfaces import DecodeFeeder, KvMover
from sim.disaggregation.moving import DECODE_GPU, PREFILL_GPU, MovingRequest, Stage
from sim.disaggregation.prefill_instance import PrefillInstance
from sim.disaggregation.records import HandoverLog
from sim.disaggregation.routes import Routes
from sim.disaggregation.spec import Disaggregation
from sim.disaggregation.stores import Stores
from sim.errors import InvalidDecisionError
from sim.instance import Instance
from sim.interfaces import ClusterView, InstanceView
from sim.loads import Loads
from sim.request import Request
from sim.step_clock import HANDOVER, StepClock
from sim.transfer_network import Port, start_transfer


class Handover(KvMover):
    """The mechanism between the pools of a cluster.

    Args:
        spec: links and capacities.
        clock: simulated time.
        loads: counters of all instances.
        decode_view: what the decode router sees; its instance 0 is the first decode instance.
        instances: of the cluster, by id.
        log: columns over requests.

    Attributes:
        feeder: decides.
        routes: the links.
        stores: host pool and prefill buffers.
        prefill_ids: instances that prefill only.
        decode_ids: instances that take KV from others.
        moving: requests that have left their prefill batch (or are in its last step) and have not
            been handed to a decode instance's batch policy.
        wants_last_step: whether the feeder wants to know of last prefill steps.
        keeps_preempted: whether the feeder takes preempted requests.
        began: requests whose last prefill step has begun, until the feeder is told.
        ended: likewise, whose prefill has ended.
        counts: whether `request_seconds` is kept.
        request_seconds: integral over time of the prefilled requests in `moving`.
    """

    def __init__(
        self,
        spec: Disaggregation,
        clock: StepClock,
        loads: Loads,
        decode_view: ClusterView,
        instances: Sequence[Instance],
        log: HandoverLog,
    ) -> None:
        self._spec = spec
        self._clock = clock
        self._loads = loads
        self._view = decode_view
        self._log = log
        self._prefill = {i.instance_id: i for i in instances if isinstance(i, PrefillInstance)}
        self._decode = {i.instance_id: i for i in instances if isinstance(i, DecodeInstance)}
        for prefill in self._prefill.values():
            prefill.join(self)
        for decode in self._decode.values():
            decode.join(self)
        self._block_tokens = instances[0].kv.block_tokens
        self._block_bytes = self._block_tokens * spec.kv_bytes_per_token
        self.prefill_ids = tuple(self._prefill)
        self.decode_ids = tuple(self._decode)
        self.routes = Routes(spec, self.prefill_ids, self.decode_ids)
        self.stores = Stores(spec, self._prefill)
        self.moving: dict[int, MovingRequest] = {}
        self._tails: dict[int, _Tail] = {}
        self.began: list[MovingRequest] = []
        self.ended: list[MovingRequest] = []
        self._taken_back: list[MovingRequest] = []
        self._changed: set[int] = set()
        self._due_s = -1.0
        self.counts = True
        self.request_seconds = 0.0
        self._num_waiting = 0
        self._counted_s = 0.0
        self.feeder: DecodeFeeder = spec.feeder()
        self.wants_last_step = self.feeder.wants_last_step
        self.keeps_preempted = self.feeder.keeps_preempted
        self._wants_change = self.feeder.wants_change
        self.feeder.open(self)

    # -- what instances report -------------------------------------------------------------------

    def begin_last_step(
        self, instance: PrefillInstance, completing: Sequence[Request], now_s: float, end_s: float
    ) -> None:
        """The step that completes some prefills has begun and will end at `end_s`."""
        for request in completing:
            if request.output_tokens > request.generated_tokens + 1:
                moving = self._open(instance, request, now_s, end_s)
                self.began.append(moving)

    def end_prefill(self, instance: PrefillInstance, request: Request, now_s: float) -> None:
        """The first token of a request is out, and it goes on elsewhere."""
        row = request.request_id
        moving = self.moving.get(row)
        if moving is None:
            moving = self._open(instance, request, now_s, now_s)
        moving.is_prefilled = True
        self._log.prefill_instance[row] = instance.instance_id
        self._log.prefill_step[row] = request.finish_step
        self._count(1, now_s)
        self.ended.append(moving)

    def note_decode_start(self, request: Request, now_s: float) -> None:
        """A request joined a decode batch for the first time."""
        self._log.decode_start_s[request.request_id] = now_s

    def note_change(self, instance: DecodeInstance, now_s: float) -> None:
        """Requests of a decode instance finished, were preempted or run again."""
        if self._wants_change(instance.instance_id):
            self._changed.add(instance.instance_id)
            self._expect(now_s)

    def take_back(self, instance: DecodeInstance, request: Request, now_s: float) -> None:
        """A decode instance gave up a request, whose KV goes elsewhere."""
        stage = Stage(DECODE_GPU, instance.instance_id)
        num_bytes = -(-request.computed_tokens // self._block_tokens) * self._block_bytes
        moving = MovingRequest(request, self._log.prefill_instance[request.request_id], num_bytes)
        moving.request, moving.stage, moving.is_prefilled = request, stage, True
        self.moving[request.request_id] = moving
        self._count(1, now_s)
        self._taken_back.append(moving)
        self._expect(now_s)

    def _open(
        self, instance: PrefillInstance, request: Request, start_s: float, end_s: float
    ) -> MovingRequest:
        num_bytes = -(-request.prompt_tokens // self._block_tokens) * self._block_bytes
        moving = MovingRequest(request, instance.instance_id, num_bytes)
        moving.step_start_s, moving.step_end_s = start_s, end_s
        self.moving[request.request_id] = moving
        return moving

    # -- what the feeder is told -----------------------------------------------------------------

    def pass_on(self, now_s: float) -> None:
        """A prefill instance has reported all it has to report, and planned its next step.

        Where no step end of this instant is to come, the feeder is told without an event.
        """
        if self._due_s != now_s:
            calls = self._clock.queue
            if calls and calls[0][0] <= now_s and calls[0][1] < HANDOVER:
                self._expect(now_s)
            else:
                self._on_due(0)

    def _expect(self, now_s: float) -> None:
        """Pass on what was reported, after the step ends of this instant."""
        if self._due_s != now_s:
            self._due_s = now_s
            self._clock.call_at(now_s, HANDOVER, self._on_due)

    def _on_due(self, _key: int) -> None:
        self._due_s = -1.0
        clock, now_s, feeder = self._clock, self._clock.now, self.feeder
        clock.is_past_steps = True
        try:
            if self.began:
                for moving in _take_in_order(self.began):
                    feeder.on_last_prefill_step(moving, now_s)
            if self.ended:
                for moving in _take_in_order(self.ended):
                    if self._tails:
                        self._go_on_after_prefill(moving, now_s)
                    feeder.on_prefilled(moving, now_s)
            if self._taken_back:
                for moving in _take_in_order(self._taken_back):
                    feeder.on_preempted(moving, now_s)
            if self._changed:
                changed, self._changed = self._changed, set()
                for instance_id in sorted(changed):
                    feeder.on_decode_change(instance_id, now_s)
        finally:
            clock.is_past_steps = False

    def _on_time(self, _key: int) -> None:
        self._clock.is_past_steps = True
        try:
            self.feeder.on_time(self._clock.now)
        finally:
            self._clock.is_past_steps = False

    # -- for the feeder --------------------------------------------------------------------------

    def decode_view(self, instance_id: int) -> InstanceView:
        """A decode instance."""
        return self._decode[instance_id]

    def free_bytes(self, stage: Stage) -> int:
        """Room that is left at a stage, bytes of KV."""
        if stage.kind == DECODE_GPU:
            return self._decode[stage.owner].num_free_blocks * self._block_bytes
        if stage.kind == PREFILL_GPU:
            return self._prefill[stage.owner].num_free_blocks * self._block_bytes
        return self.stores.free_bytes(stage)

    def capacity_bytes(self, stage: Stage) -> int:
        """Room of a stage when nothing is in it, bytes of KV."""
        if stage.kind == DECODE_GPU:
            return self._decode[stage.owner].num_usable_blocks * self._block_bytes
        if stage.kind == PREFILL_GPU:
            return self._prefill[stage.owner].num_usable_blocks * self._block_bytes
        return self.stores.capacity_bytes(stage)

    def choose_decode(self, moving: MovingRequest, now_s: float) -> int:
        """Id of the decode instance that the decode router picks."""
        self._loads.now_s = now_s
        router, ids = self._spec.decode.router, self.decode_ids
        choice = router.route(moving.request, self._view, now_s)
        if choice not in range(len(ids)):
            raise InvalidDecisionError(
                type(router).__name__,
                f"chose decode instance {choice!r}, allowed are 0 to {len(ids) - 1}",
            )
        return ids[choice]

    def assign(self, moving: MovingRequest, instance_id: int, now_s: float) -> None:
        """Count a request as waiting on a decode instance."""
        if moving.instance_id >= 0 or instance_id not in self._decode:
            raise self._wrong(f"assigned {moving!r} to {instance_id}")
        moving.instance_id = instance_id
        self._decode[instance_id].expect(moving.request, now_s)

    def start_transfer(self, moving: MovingRequest, to: Stage, now_s: float) -> bool:
        """Reserve room at `to` and begin to move a request's KV there; False if there is none."""
        if moving.heading_to is not None:
            raise self._wrong(f"moved {moving!r}, which is under way to {moving.heading_to}")
        found = self.routes.between(moving.stage, to)
        if found is None:
            raise self._wrong(f"moved {moving!r} to {to}: there is no such way")
        if not self._reserve(moving, to, now_s):
            return False
        moving.heading_to = to
        row = moving.request.request_id
        if not self._log.transfer_start_s[row] >= 0:
            self._log.transfer_start_s[row] = now_s
        self._log.transfer_bytes[row] += moving.num_bytes
        ports, latency_s = found
        if moving.is_prefilled:
            start_transfer(
                self._clock,
                ports,
                latency_s,
                moving.num_bytes,
                now_s,
                lambda end_s: self._arrive(moving, end_s),
                keeps_order=not self.wants_last_step,
            )
        else:
            self._push(_Tail(moving, self._spec.num_layers, ports, latency_s), now_s)
        return True

    def admit(self, moving: Sequence[MovingRequest], now_s: float) -> None:
        """Hand requests whose KV is on their decode GPU to the batch policy there."""
        for one in moving:
            if one.stage.kind != DECODE_GPU or one.heading_to is not None:
                raise self._wrong(f"admitted {one!r}, whose KV is not on a decode GPU")
            instance = self._decode[one.stage.owner]
            if one.request.request_id not in instance.reserved:
                raise self._wrong(f"admitted {one!r}, which gave up its blocks")
            del self.moving[one.request.request_id]
            self._count(-1, now_s)
            instance.arrive(one.request, now_s)

    def call_at(self, time_s: float) -> None:
        """Call the feeder's `on_time` at `time_s`."""
        self._clock.call_at(max(time_s, self._clock.now), HANDOVER, self._on_time)

    def refuse_abandoned(self) -> None:
        """Nothing may be left to move when nothing happens any more.

        Raises:
            InvalidDecisionError: the feeder left requests where they are.
        """
        if self.moving:
            first = next(iter(self.moving.values()))
            raise self._wrong(f"left {len(self.moving)} requests behind, the first is {first!r}")

    def _reserve(self, moving: MovingRequest, to: Stage, now_s: float) -> bool:
        if to.kind != DECODE_GPU:
            return self.stores.reserve(to, moving.num_bytes)
        if moving.instance_id >= 0 and moving.instance_id != to.owner:
            raise self._wrong(f"moved {moving!r} to {to}: it is assigned to {moving.instance_id}")
        if not self._decode[to.owner].reserve(moving.request, now_s):
            return False
        if moving.instance_id < 0:
            self.assign(moving, to.owner, now_s)
        return True

    # -- on the way ------------------------------------------------------------------------------

    def _push(self, tail: "_Tail", now_s: float) -> None:
        """Send all layers but the last while the prefill step computes the next ones."""
        moving = tail.moving
        self._tails[moving.request.request_id] = tail
        if tail.bulk_bytes:
            begin_s = max(now_s, tail.first_layer_s)
            start_transfer(
                self._clock,
                tail.ports,
                begin_s - now_s + tail.latency_s,
                tail.bulk_bytes,
                now_s,
                lambda end_s: self._end_bulk(tail, end_s),
            )
        else:
            tail.is_bulk_gone = True

    def _end_bulk(self, tail: "_Tail", now_s: float) -> None:
        """All layers but the last have arrived."""
        tail.is_bulk_gone = True
        if tail.moving.is_prefilled:
            self._send_last_layer(tail, 0.0, now_s)

    def _go_on_after_prefill(self, moving: MovingRequest, now_s: float) -> None:
        tail = self._tails.get(moving.request.request_id)
        if tail is not None and tail.is_bulk_gone:
            self._send_last_layer(tail, tail.latency_s, now_s)

    def _send_last_layer(self, tail: "_Tail", latency_s: float, now_s: float) -> None:
        moving = tail.moving
        del self._tails[moving.request.request_id]
        num_bytes = moving.num_bytes - tail.bulk_bytes
        start_transfer(
            self._clock,
            tail.ports,
            latency_s,
            num_bytes,
            now_s,
            lambda end_s: self._arrive(moving, end_s),
        )

    def _arrive(self, moving: MovingRequest, now_s: float) -> None:
        """The KV is complete where it was sent; the room where it was is free."""
        came_from, to = moving.stage, moving.heading_to
        assert to is not None
        if came_from.kind == PREFILL_GPU:
            self._prefill[came_from.owner].release_held(moving.source, now_s)
        elif came_from.kind != DECODE_GPU:
            self.stores.release(came_from, moving.num_bytes)
        moving.stage, moving.heading_to = to, None
        ends, row = self._log.transfer_end_s, moving.request.request_id
        if to.kind == DECODE_GPU and not ends[row] >= 0:  # an evicted request comes a second time
            ends[row] = now_s
        self.feeder.on_kv_arrived(moving, to, now_s)

    def _count(self, change: int, now_s: float) -> None:
        if not self.counts:
            return
        self.request_seconds += self._num_waiting * (now_s - self._counted_s)
        self._counted_s = now_s
        self._num_waiting += change

    def _wrong(self, what: str) -> InvalidDecisionError:
        return InvalidDecisionError(type(self.feeder).__name__, what)


class _Tail:
    """A transfer that began before its prefill was over.

    Layers are computed one after another in equal parts of the step. All but the last one are sent
    as one transfer from the time at which the first one is done; the last one after the step.
    """

    __slots__ = ("bulk_bytes", "first_layer_s", "is_bulk_gone", "latency_s", "moving", "ports")

    def __init__(
        self, moving: MovingRequest, num_layers: int, ports: Sequence[Port], latency_s: float
    ) -> None:
        self.moving = moving
        self.ports = ports
        self.latency_s = latency_s
        self.bulk_bytes = moving.num_bytes * (num_layers - 1) // num_layers
        step_s = moving.step_end_s - moving.step_start_s
        self.first_layer_s = moving.step_start_s + step_s / num_layers
        self.is_bulk_gone = False


def _take_in_order(reported: list[MovingRequest]) -> list[MovingRequest]:
    """What was reported, by arrival; the list is empty then."""
    taken = sorted(reported, key=_arrival_order) if len(reported) > 1 else reported.copy()
    reported.clear()
    return taken


def _arrival_order(moving: MovingRequest) -> tuple[float, int]:
    return moving.request.arrival_s, moving.request.request_id
