"""The seam of the hand-over: feeders with other ways, and feeders that are wrong."""

from collections.abc import Callable
from typing import Any

import pytest

from sim.disaggregation.direct import DirectFeeder
from sim.disaggregation.interfaces import DecodeFeeder, KvMover
from sim.disaggregation.moving import (
    DECODE_GPU,
    HOST_POOL,
    PREFILL_BUFFER,
    MovingRequest,
    Stage,
)
from sim.disaggregation.spec import LinkSpec
from sim.errors import InvalidDecisionError
from sim.metrics import tokens_generated
from sim.records import SimulationResult
from tests.disaggregated_runs import run_disaggregated
from tests.twin.stories import Ask, workload_of

HOST = Stage(HOST_POOL, 0)
DECODE = Stage(DECODE_GPU, 1)
BUFFER = Stage(PREFILL_BUFFER, 0)


class Plain(DecodeFeeder):
    """Does nothing but note what it is told."""

    def open(self, mover: KvMover) -> None:
        self.mover = mover
        self.told: list[tuple[Any, ...]] = []

    def on_prefilled(self, moving: MovingRequest, now_s: float) -> None:
        self.told.append(("prefilled", moving.request.request_id, now_s))

    def on_kv_arrived(self, moving: MovingRequest, stage: Stage, now_s: float) -> None:
        self.told.append((str(stage), moving.request.request_id, now_s))


class ThroughHost(Plain):
    """Prefill GPU, host pool, prefill buffer, decode GPU; first come first served."""

    ways = (HOST, BUFFER, DECODE)

    def open(self, mover: KvMover) -> None:
        super().open(mover)
        self.waiting: list[tuple[MovingRequest, Stage]] = []

    def on_prefilled(self, moving: MovingRequest, now_s: float) -> None:
        super().on_prefilled(moving, now_s)
        self.send(moving, self.ways[0], now_s)

    def on_kv_arrived(self, moving: MovingRequest, stage: Stage, now_s: float) -> None:
        super().on_kv_arrived(moving, stage, now_s)
        if stage == DECODE:
            self.mover.admit([moving], now_s)
        else:
            self.send(moving, self.ways[self.ways.index(stage) + 1], now_s)
        waiting, self.waiting = self.waiting, []
        for one, to in waiting:
            self.send(one, to, now_s)

    def send(self, moving: MovingRequest, to: Stage, now_s: float) -> None:
        if not self.mover.start_transfer(moving, to, now_s):
            self.waiting.append((moving, to))


def play(feeder: DecodeFeeder, *asks: Ask, **options: Any) -> SimulationResult:
    parts = {
        "host_link": LinkSpec(latency_s=0.0, bytes_per_s=4.0),
        "host_pool_bytes": 100,
        "prefill_buffer_bytes": 100,
        **options.pop("parts", {}),
    }
    options.setdefault("bytes_per_s", 8.0)
    return run_disaggregated(workload_of(asks), feeder=lambda: feeder, parts=parts, **options)


def test_kv_can_go_through_the_host_and_a_buffer_beside_the_prefill_cache() -> None:
    feeder = ThroughHost()
    result = play(feeder, Ask(0.0, 8, 3))
    # 8 bytes: to the host 1 to 3, back 3 to 5, to the decode GPU 5 to 6.
    assert feeder.told == [
        ("prefilled", 0, 1.0),
        ("host pool 0", 0, 3.0),
        ("prefill buffer 0", 0, 5.0),
        ("decode GPU 1", 0, 6.0),
    ]
    assert result.requests.finish_s.tolist() == [8.0]
    handover = result.handover
    assert handover is not None
    assert (handover.host_bytes, handover.transfer_bytes.tolist()) == (16, [24])
    assert (handover.host_peak_bytes, handover.buffer_peak_bytes) == (8, 8)


def test_the_prefill_cache_is_free_when_the_kv_is_on_the_host() -> None:
    result = play(ThroughHost(), Ask(0.0, 8, 3), Ask(0.0, 8, 3), usable_blocks=2)
    assert result.requests.admitted_s.tolist() == [0.0, 3.0]


def test_a_full_store_refuses() -> None:
    feeder = ThroughHost()
    play(feeder, Ask(0.0, 8, 3), Ask(0.0, 8, 3), parts={"host_pool_bytes": 8})
    arrivals = [entry for entry in feeder.told if entry[0] == "host pool 0"]
    # The second leaves when the first has come back to the buffer, at 5.
    assert arrivals == [("host pool 0", 0, 3.0), ("host pool 0", 1, 7.0)]


def test_room_is_told_in_bytes() -> None:
    class Asking(ThroughHost):
        def on_kv_arrived(self, moving: MovingRequest, stage: Stage, now_s: float) -> None:
            mover = self.mover
            self.room = [
                (mover.free_bytes(at), mover.capacity_bytes(at)) for at in (HOST, BUFFER, DECODE)
            ]
            super().on_kv_arrived(moving, stage, now_s)

    feeder = Asking()
    play(feeder, Ask(0.0, 8, 3), decode_blocks=10)
    # At the arrival on the decode GPU: 3 of its blocks, for 9 tokens, are reserved.
    assert feeder.room == [(100, 100), (100, 100), (28, 40)]


class TakesBack(DirectFeeder):
    """Parks preempted requests on the host until nothing runs."""

    keeps_preempted = True

    def __init__(self) -> None:
        super().__init__()
        self.parked: list[MovingRequest] = []
        self.num_parked = 0

    def on_preempted(self, moving: MovingRequest, now_s: float) -> None:
        assert self._mover.start_transfer(moving, HOST, now_s)
        self.num_parked += 1

    def on_kv_arrived(self, moving: MovingRequest, stage: Stage, now_s: float) -> None:
        if stage == HOST:
            self.parked.append(moving)
            self.bring_back(now_s)
        else:
            super().on_kv_arrived(moving, stage, now_s)

    def on_decode_change(self, instance_id: int, now_s: float) -> None:
        self.bring_back(now_s)
        super().on_decode_change(instance_id, now_s)

    def wants_change(self, instance_id: int) -> bool:
        return True

    def bring_back(self, now_s: float) -> None:
        while self.parked and self._mover.start_transfer(self.parked[0], DECODE, now_s):
            self.parked.pop(0)


def test_a_feeder_may_take_preempted_requests_with_their_kv() -> None:
    feeder = TakesBack()
    result = play(feeder, Ask(0.0, 4, 10), Ask(0.0, 4, 10), decode_blocks=5)
    # At 6 the second has 5 tokens and KV of 8: 8 bytes to the host 6 to 8. It needs 3 blocks; the
    # first has 3 of 5 until 11. Back 11 to 13, and then five more tokens.
    assert feeder.num_parked == 1
    assert result.requests.num_preemptions.tolist() == [0, 1]
    assert result.requests.finish_s.tolist() == [11.0, 18.0]
    assert tokens_generated(result).tolist() == [10, 10]


def test_a_feeder_can_ask_to_be_called_later() -> None:
    class Late(Plain):
        def on_prefilled(self, moving: MovingRequest, now_s: float) -> None:
            self.moving = moving
            self.mover.call_at(now_s + 2.0)

        def on_time(self, now_s: float) -> None:
            self.mover.start_transfer(self.moving, DECODE, now_s)

        def on_kv_arrived(self, moving: MovingRequest, stage: Stage, now_s: float) -> None:
            self.mover.admit([moving], now_s)

    assert play(Late(), Ask(0.0, 8, 3)).requests.finish_s.tolist() == [6.0]


class Wrong(Plain):
    """Does something impossible with the first request."""

    def __init__(self, act: Callable[[KvMover, MovingRequest], Any]) -> None:
        self.act = act

    def on_prefilled(self, moving: MovingRequest, now_s: float) -> None:
        self.act(self.mover, moving)


@pytest.mark.parametrize(
    ("act", "why"),
    [
        (lambda mover, one: None, "left 1 requests behind"),
        (lambda mover, one: mover.admit([one], 1.0), "KV is not on a decode GPU"),
        (lambda mover, one: mover.start_transfer(one, Stage(DECODE_GPU, 0), 1.0), "no such way"),
        (lambda mover, one: mover.start_transfer(one, Stage(DECODE_GPU, 7), 1.0), "no such way"),
        (lambda mover, one: mover.start_transfer(one, Stage(HOST_POOL, 1), 1.0), "no such way"),
        (lambda mover, one: mover.assign(one, 0, 1.0), "assigned .* to 0"),
        (
            lambda mover, one: [mover.start_transfer(one, HOST, 1.0) for _ in range(2)],
            "is under way to host pool 0",
        ),
    ],
)
def test_a_wrong_decision_is_told_with_the_name_of_the_feeder(
    act: Callable[[KvMover, MovingRequest], Any], why: str
) -> None:
    with pytest.raises(InvalidDecisionError, match=f"Wrong.*{why}"):
        play(Wrong(act), Ask(0.0, 8, 3))


def test_without_a_host_link_no_way_leads_to_the_host() -> None:
    with pytest.raises(InvalidDecisionError, match="no such way"):
        play(ThroughHost(), Ask(0.0, 8, 3), parts={"host_link": None})


@pytest.mark.parametrize("choice", [-1, 1, 1.5, None])
def test_a_decode_router_that_chooses_nobody_is_told(choice: Any) -> None:
    class Lost:
        looks_at_cluster = True
        uses_prefix_match = False
        uses_kv_usage = False

        def route(self, request: Any, cluster: Any, now_s: float) -> Any:
            return choice

    with pytest.raises(InvalidDecisionError, match=r"Lost.*decode instance.*0 to 0"):
        play(DirectFeeder(), Ask(0.0, 8, 3), decode_router=Lost())
