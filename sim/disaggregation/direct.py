"""The plain hand-over: straight from the prefill GPU to a decode GPU, first come first served.

The decode router picks an instance when a request is offered. A request waits on its prefill GPU,
holding its blocks there, until the decode instance has blocks for it; behind it wait all others of
that instance. Its KV is then moved at once, and it is admitted when that is complete.

Offered is a request after its prefill (the decode side pulls, as in DistServe), or at the start of
the step that completes it, whose layers then leave one by one (the prefill side pushes, as in
Splitwise).

Source: DistServe (OSDI 2024), decode instances pull; Splitwise (ISCA 2024), transfer per layer.
Ours: one queue per decode instance, the instance chosen when the request is offered (Splitwise
chooses it at the arrival), a reservation that does not wait for the end of a step.
"""

from collections import deque

from sim.disaggregation.interfaces import DecodeFeeder, KvMover
from sim.disaggregation.moving import DECODE_GPU, MovingRequest, Stage


class DirectFeeder(DecodeFeeder):
    """Moves every request to its decode GPU as soon as there is room.

    Args:
        layerwise: whether layers leave while the last prefill step computes the next ones.
    """

    uses_stores = False

    def __init__(self, layerwise: bool = False) -> None:
        self.wants_last_step = layerwise
        self._queues: dict[int, deque[MovingRequest]] = {}

    def open(self, mover: KvMover) -> None:
        """Called once, before the first arrival."""
        self._mover = mover
        self._queues = {instance_id: deque() for instance_id in mover.decode_ids}

    def on_last_prefill_step(self, moving: MovingRequest, now_s: float) -> None:
        """The step that completes a prefill has begun."""
        self._offer(moving, now_s)

    def on_prefilled(self, moving: MovingRequest, now_s: float) -> None:
        """The first token of a request is out."""
        if not self.wants_last_step:
            self._offer(moving, now_s)

    def on_kv_arrived(self, moving: MovingRequest, stage: Stage, now_s: float) -> None:
        """The KV is on the decode GPU."""
        self._mover.admit([moving], now_s)

    def on_decode_change(self, instance_id: int, now_s: float) -> None:
        """Blocks may have become free."""
        self._feed(instance_id, now_s)

    def wants_change(self, instance_id: int) -> bool:
        """Only if somebody waits for blocks."""
        return bool(self._queues[instance_id])

    def _offer(self, moving: MovingRequest, now_s: float) -> None:
        instance_id = self._mover.choose_decode(moving, now_s)
        self._mover.assign(moving, instance_id, now_s)
        self._queues[instance_id].append(moving)
        self._feed(instance_id, now_s)

    def _feed(self, instance_id: int, now_s: float) -> None:
        """Send who fits, in order; nobody overtakes."""
        queue, to = self._queues[instance_id], Stage(DECODE_GPU, instance_id)
        while queue and self._mover.start_transfer(queue[0], to, now_s):
            queue.popleft()
