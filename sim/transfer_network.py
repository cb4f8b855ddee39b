"""Transfers of KV over ports that several of them share, at exact times.

A port is one direction of one link of one instance (what its GPUs send to others, say). A transfer
holds the ports on its way; each port gives its transfers equal parts of its rate, and a transfer
runs at the smallest of its parts. What it cannot use of a part nobody else gets: rates follow from
the numbers of transfers alone, and a change touches only those that share a port with it.

Not modelled: max-min sharing, messages split over several links, switches as a bottleneck.
"""

from collections.abc import Callable, Sequence
from math import inf, nextafter

from sim.step_clock import TRANSFER, StepClock

OnDone = Callable[[float], None]
"""Called with the time at which the last byte arrived, seconds."""


class Port:
    """One direction of a link.

    Attributes:
        bytes_per_s: its rate.
        transfers: those that hold it, in order of their start.
        busy_s: time during which at least one did, up to `busy_from_s` if one does now, seconds.
        busy_from_s: since when one does, seconds.
        num_expected: transfers that will hold it after their latency.
        carried_bytes: what went through, by rate and time.
        num_bytes: what was to go through, of transfers that are complete.
        num_parts: times at constant rate of which `carried_bytes` is the sum.
    """

    __slots__ = (
        "busy_from_s",
        "busy_s",
        "bytes_per_s",
        "carried_bytes",
        "num_bytes",
        "num_expected",
        "num_parts",
        "transfers",
    )

    def __init__(self, bytes_per_s: float) -> None:
        self.bytes_per_s = bytes_per_s
        self.transfers: dict[Transfer, None] = {}
        self.busy_s = 0.0
        self.busy_from_s = 0.0
        self.carried_bytes = 0.0
        self.num_bytes = 0
        self.num_parts = 0
        self.num_expected = 0

    def busy_until(self, time_s: float) -> float:
        """Time up to `time_s` during which at least one transfer held the port, seconds."""
        return self.busy_s + (max(time_s - self.busy_from_s, 0.0) if self.transfers else 0.0)


class Transfer:
    """Bytes on their way over some ports."""

    __slots__ = (
        "_clock",
        "_key",
        "_left_bytes",
        "_on_done",
        "_ports",
        "_rate",
        "_since_s",
        "end_s",
        "num_bytes",
    )

    def __init__(
        self, clock: StepClock, ports: Sequence[Port], num_bytes: int, on_done: OnDone
    ) -> None:
        self._clock = clock
        self._ports = ports
        self.num_bytes = num_bytes
        self._left_bytes = float(num_bytes)
        self._rate = 0.0
        self._since_s = 0.0
        self._on_done = on_done
        self._key = -1
        self.end_s = inf

    def begin(self, now_s: float) -> None:
        """Take the ports; whoever holds one of them already gets a smaller part."""
        self._since_s = now_s
        for port in self._ports:
            if not port.transfers:
                port.busy_from_s = now_s
            port.transfers[self] = None
        self._share(now_s)
        if not self.end_s > now_s:
            # A transfer takes some time, so that it ends in an instant after that of its start.
            self._expect_end(nextafter(now_s, inf))

    def begin_later(self, time_s: float) -> None:
        """Begin at `time_s`, after the latency."""
        self.end_s = time_s
        for port in self._ports:
            port.num_expected += 1
        self._clock.call_at(time_s, TRANSFER, self._on_begin)

    def _on_begin(self, _key: int) -> None:
        for port in self._ports:
            port.num_expected -= 1
        self.begin(self.end_s)

    def _share(self, now_s: float) -> None:
        """Bring the rates of all that share a port with this transfer to the present numbers."""
        for port in self._ports:
            for other in port.transfers:
                other.settle(now_s)

    def settle(self, now_s: float) -> None:
        """Count what has moved, and expect the end at the rate from now on."""
        rate = inf
        for port in self._ports:
            part = port.bytes_per_s / len(port.transfers)
            if part < rate:
                rate = part
        if rate == self._rate:
            return
        self._count(now_s)
        self._rate = rate
        self._expect_end(now_s + max(self._left_bytes, 0.0) / rate)

    def _expect_end(self, time_s: float) -> None:
        self.end_s = time_s
        self._key = self._clock.call_at(time_s, TRANSFER, self._on_end)

    def _count(self, now_s: float) -> None:
        moved = self._rate * (now_s - self._since_s)
        self._left_bytes -= moved
        self._since_s = now_s
        for port in self._ports:
            port.carried_bytes += moved
            port.num_parts += 1

    def _on_end(self, key: int) -> None:
        if key != self._key:
            return
        now_s = self.end_s
        self._count(now_s)
        for port in self._ports:
            del port.transfers[self]
            port.num_bytes += self.num_bytes
            if not port.transfers:
                port.busy_s += now_s - port.busy_from_s
        self._share(now_s)
        self._on_done(now_s)


def start_transfer(
    clock: StepClock,
    ports: Sequence[Port],
    latency_s: float,
    num_bytes: int,
    now_s: float,
    on_done: OnDone,
    keeps_order: bool = False,
) -> Transfer:
    """Send `num_bytes` at `now_s`; the latency passes before the ports are taken.

    Args:
        clock: simulated time.
        ports: on the way, at least one.
        latency_s: before the first byte arrives, seconds.
        num_bytes: how much.
        now_s: when, seconds.
        on_done: called when the last byte has arrived.
        keeps_order: whether all transfers over these ports take them in the order in which they are
            started. One that has them for itself then needs no event to begin.
    """
    transfer = Transfer(clock, ports, num_bytes, on_done)
    begin_s = now_s + latency_s
    if begin_s > now_s:
        if keeps_order and _are_free(ports):
            transfer.begin(begin_s)
        else:
            transfer.begin_later(begin_s)
    else:
        transfer.begin(now_s)
    return transfer


def _are_free(ports: Sequence[Port]) -> bool:
    return all(not (port.transfers or port.num_expected) for port in ports)
