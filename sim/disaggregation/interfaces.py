"""The seam between prefill and decode: who decides which KV moves where, and when.

A `DecodeFeeder` decides; a `KvMover` (the mechanism, `sim.disaggregation.handover`) carries it out,
keeps every stage within its capacity and records what happened. The plain hand-over
(`sim.disaggregation.direct`) and batch-level schedulers with a host pool are feeders.

When hooks are called: `on_kv_arrived` in the instant of the arrival, before step ends of the same
instant; all others after every step end of their instant. The order is fixed within an instant (by
arrival time and row, or by instance id), so that nothing depends on how steps are grouped in runs.
"""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Protocol

from sim.disaggregation.moving import MovingRequest, Stage
from sim.interfaces import InstanceView


class KvMover(Protocol):
    """What a feeder may read and do.

    Attributes:
        prefill_ids: instances that prefill only.
        decode_ids: instances that take KV from others.
    """

    prefill_ids: tuple[int, ...]
    decode_ids: tuple[int, ...]

    @abstractmethod
    def decode_view(self, instance_id: int) -> InstanceView:
        """A decode instance: running and waiting requests, free and usable blocks."""

    @abstractmethod
    def free_bytes(self, stage: Stage) -> int:
        """Room that is left at a stage, bytes of KV, now; reserved room does not count."""

    @abstractmethod
    def capacity_bytes(self, stage: Stage) -> int:
        """Room of a stage when nothing is in it, bytes of KV."""

    @abstractmethod
    def choose_decode(self, moving: MovingRequest, now_s: float) -> int:
        """Id of the decode instance that the decode router picks for a request."""

    @abstractmethod
    def assign(self, moving: MovingRequest, instance_id: int, now_s: float) -> None:
        """Count a request as waiting on a decode instance, as its router sees it.

        At most once per request, before its transfer to a decode GPU; that transfer assigns by
        itself what was not assigned.
        """

    @abstractmethod
    def start_transfer(self, moving: MovingRequest, to: Stage, now_s: float) -> bool:
        """Reserve room at `to` and begin to move a request's KV there.

        The room where it was is free when the transfer is complete. False, and nothing happens, if
        `to` has no room now. A decode GPU with preempted requests waiting has none. May be called
        before the prefill is over (`on_last_prefill_step`): then layers leave as they are computed.

        Raises:
            InvalidDecisionError: the request is under way already, or there is no such way.
        """

    @abstractmethod
    def admit(self, moving: Sequence[MovingRequest], now_s: float) -> None:
        """Hand requests whose KV is on their decode GPU to the batch policy there, in this order.

        They run as soon as a step is planned and seats are free; their blocks are theirs already.

        Raises:
            InvalidDecisionError: the KV of one of them is not there.
        """

    @abstractmethod
    def call_at(self, time_s: float) -> None:
        """Call the feeder's `on_time` at `time_s` >= now."""


class DecodeFeeder(Protocol):
    """Decides which prefilled requests move where, and when. One per cluster."""

    wants_last_step: bool = False
    """True to be told at the start of the step that completes a prefill (layer by layer)."""

    keeps_preempted: bool = False
    """True if it takes the KV of requests that a decode instance preempts (`on_preempted`), instead
    of that instance computing it again."""

    uses_stores: bool = True
    """Whether it moves KV to the host pool or to prefill buffers; if not, their sizes mean
    nothing."""

    @abstractmethod
    def open(self, mover: KvMover) -> None:
        """Called once, before the first arrival."""

    def on_last_prefill_step(self, moving: MovingRequest, now_s: float) -> None:
        """The step that completes a prefill has begun; only with `wants_last_step`."""
        return

    @abstractmethod
    def on_prefilled(self, moving: MovingRequest, now_s: float) -> None:
        """The first token of a request is out; its KV is at `moving.stage`, or on its way."""

    @abstractmethod
    def on_kv_arrived(self, moving: MovingRequest, stage: Stage, now_s: float) -> None:
        """The KV of a request is complete at `stage`, and the room where it was is free."""

    def on_decode_change(self, instance_id: int, now_s: float) -> None:
        """Requests of a decode instance finished or were preempted, and it has planned anew.

        Blocks may have become free; `decode_view(instance_id).running` is empty if the batch has
        drained.
        """
        return

    def wants_change(self, instance_id: int) -> bool:
        """Whether `on_decode_change` need be called for an instance now."""
        return True

    def on_preempted(self, moving: MovingRequest, now_s: float) -> None:
        """A decode instance was out of blocks and gave up a request; only with `keeps_preempted`.

        Its blocks are free at once, so the copy out is taken to be ahead of whatever overwrites
        them. `moving.stage` is that decode GPU; the next transfer carries the KV from there.
        """
        return

    def on_time(self, now_s: float) -> None:
        """A time asked for with `KvMover.call_at` has come."""
        return
