"""A feeder for tests: every request goes through the host pool, first come first served."""

from sim.disaggregation.interfaces import DecodeFeeder, KvMover
from sim.disaggregation.moving import DECODE_GPU, HOST_POOL, MovingRequest, Stage

HOST = Stage(HOST_POOL, 0)


class ThroughHost(DecodeFeeder):
    """Prefill GPU, host pool, decode GPU; what does not fit the host goes straight."""

    def open(self, mover: KvMover) -> None:
        self._mover = mover
        self._waiting: list[MovingRequest] = []

    def on_prefilled(self, moving: MovingRequest, now_s: float) -> None:
        if not self._mover.start_transfer(moving, HOST, now_s):
            self._waiting.append(moving)
            self._feed(now_s)

    def on_kv_arrived(self, moving: MovingRequest, stage: Stage, now_s: float) -> None:
        if stage == HOST:
            self._waiting.append(moving)
        else:
            self._mover.admit([moving], now_s)
        self._feed(now_s)

    def on_decode_change(self, instance_id: int, now_s: float) -> None:
        self._feed(now_s)

    def _feed(self, now_s: float) -> None:
        while self._waiting:
            to = Stage(DECODE_GPU, self._mover.decode_ids[0])
            if not self._mover.start_transfer(self._waiting[0], to, now_s):
                return
            self._waiting.pop(0)
