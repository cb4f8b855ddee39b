"""What the tiers of some instances hold, as it changes with time.

A block that is lost above (or computed, where it is written through) is noted with the time at
which that happens, and the notes are worked off in order of time when somebody looks. A run of many
steps notes at its end what plain stepping notes step by step, with the same times, so both find the
same blocks. A look sees what arrived by its instant; what is noted at that instant arrives later.

A note names a time, so nothing depends on which of several instances is asked first in an instant:
notes of one instant are taken in order of the instances.

Not modelled: the bandwidth of the host's memory, and writes that slow loads down (links carry both
directions at once).
"""

from collections.abc import Sequence
from heapq import heappop, heappush
from itertools import count
from math import inf, nextafter
from typing import TYPE_CHECKING

from sim.errors import InvariantError
from sim.request import Request
from sim.tiers.caches import KvTier, Run, Tell
from sim.tiers.spec import TierSpec

if TYPE_CHECKING:
    from sim.disaggregation.spec import LinkSpec
    from sim.tiers.instance import TieredInstance

_TO_HOST, _TO_REMOTE, _NOTE, _LOST = range(4)
"""Order at equal time: what arrives in the host and in the store, what instances note, what a host
has lost."""

_WRITE, _REFRESH, _PUT = range(3)
"""What an instance notes: blocks to be written, used, or left in the host by a load."""


_Event = tuple[float, int, int, int, int, Run]
"""(time in seconds, order, source, number, kind, blocks)."""


class WriteLink:
    """One direction of a link that carries writes, one after the other.

    Attributes:
        num_blocks: blocks that were sent.
        num_dropped: blocks that were not, because too much was waiting.
        num_arrived: blocks that have arrived.
    """

    def __init__(self, link: "LinkSpec", block_bytes: int, backlog_bytes: int) -> None:
        self._latency_s = link.latency_s
        self._block_s = block_bytes / link.bytes_per_s
        self._backlog_s = backlog_bytes / link.bytes_per_s
        self._free_s = 0.0
        self.num_blocks = 0
        self.num_dropped = 0
        self.num_arrived = 0

    def send(self, num_blocks: int, now_s: float) -> tuple[int, float]:
        """Send blocks now; returns how many are not dropped, and when they have arrived."""
        start_s = max(now_s, self._free_s)
        room = (self._backlog_s - (start_s - now_s)) / self._block_s
        num_sent = num_blocks if num_blocks <= room else int(max(room, 0.0))
        self.num_dropped += num_blocks - num_sent
        self.num_blocks += num_sent
        self._free_s = free_s = start_s + num_sent * self._block_s
        return num_sent, max(free_s + self._latency_s, nextafter(now_s, inf))


class TierDomain:
    """Hosts, and the store behind them, whose contents depend on each other.

    Args:
        spec: what they are made of.
        hosts: host memory by number.
        host_of: number of the host of each instance of the domain.
        remote: the store, None for none.

    Attributes:
        hosts: host memory by number.
        remote: the store, None for none.
        to_host: by instance, its link to its host.
        to_remote: by host, its link to the store.
    """

    def __init__(
        self,
        spec: TierSpec,
        hosts: dict[int, KvTier],
        host_of: dict[int, int],
        remote: KvTier | None,
    ) -> None:
        self.hosts, self.remote = hosts, remote
        self._host_of = host_of
        self._instances: list[TieredInstance] = []
        self._events: list[_Event] = []
        self._numbers = count()
        backlog, size = spec.write_backlog_bytes, spec.block_bytes
        self.to_host = {i: WriteLink(spec.host_link, size, backlog) for i in host_of}
        self.to_remote: dict[int, WriteLink] = {}
        if remote is not None and spec.remote_link is not None:
            self.to_remote = {h: WriteLink(spec.remote_link, size, backlog) for h in hosts}
            for number, host in hosts.items():
                host.tell_evicted = self._teller(number)

    def _teller(self, number: int) -> Tell:
        def tell(now_s: float, owner: int, first: int, end: int) -> None:
            self._push(now_s, _LOST, number, _WRITE, Run(owner, first, end))

        return tell

    def watch(self, instance: "TieredInstance") -> None:
        """Take an instance of the domain."""
        self._instances.append(instance)

    # -- what instances note ---------------------------------------------------------------------

    def note_write(self, source: int, time_s: float, owner: int, first: int, end: int) -> None:
        """Blocks of an instance are to be written to its host from `time_s` on."""
        self._push(time_s, _NOTE, source, _WRITE, Run(owner, first, end))

    def note_use(self, source: int, time_s: float, runs: Sequence[Run]) -> None:
        """A load of an instance begins to read blocks at `time_s`."""
        for run in reversed(runs):
            self._push(time_s, _NOTE, source, _REFRESH, run)

    def note_passage(self, source: int, time_s: float, runs: Sequence[Run]) -> None:
        """Blocks from the store have come through the host, which keeps them."""
        for run in reversed(runs):
            self._push(time_s, _NOTE, source, _PUT, run)

    def _push(self, time_s: float, order: int, source: int, kind: int, run: Run) -> None:
        heappush(self._events, (time_s, order, source, next(self._numbers), kind, run))

    # -- a look ----------------------------------------------------------------------------------

    def find(
        self, source: int, request: Request, first_block: int, end_block: int, now_s: float
    ) -> tuple[list[Run], list[Run]]:
        """Blocks of a request from `first_block` on that are in its host, and then in the store."""
        self.bring_to(now_s, source)
        at_host = self.hosts[self._host_of[source]].runs_from(request, first_block, end_block)
        if self.remote is None:
            return at_host, []
        position = first_block + sum(run.end - run.first for run in at_host)
        return at_host, self.remote.runs_from(request, position, end_block)

    def bring_to(self, now_s: float, source: int = -1) -> None:
        """Work off what has been noted before `now_s`, and what has arrived by then.

        Args:
            now_s: the present, seconds.
            source: an instance that has noted everything.
        """
        for instance in self._instances:
            if instance.instance_id != source:
                instance.bring_blocks_to_now()
        events = self._events
        while events:
            time_s, order, source, _, kind, run = events[0]
            if time_s > now_s or (time_s == now_s and order >= _NOTE):
                return
            heappop(events)
            if order == _NOTE:
                self._work_off(time_s, source, kind, run)
            elif order == _TO_HOST:
                self.to_host[source].num_arrived += run.end - run.first
                self._put(time_s, self._host_of[source], run)
            elif self.remote is not None:
                if order == _TO_REMOTE:
                    self.to_remote[source].num_arrived += run.end - run.first
                    self.remote.put(*run)
                else:
                    self._send(time_s, _TO_REMOTE, self.remote, self.to_remote[source], source, run)

    def _work_off(self, time_s: float, source: int, kind: int, run: Run) -> None:
        number = self._host_of[source]
        host = self.hosts[number]
        if kind == _WRITE:
            self._send(time_s, _TO_HOST, host, self.to_host[source], source, run)
        elif kind == _PUT:
            self._put(time_s, number, run)
        else:
            host.refresh(*run)
            if self.remote is not None:
                self.remote.refresh(*run)

    def _put(self, time_s: float, number: int, run: Run) -> None:
        host = self.hosts[number]
        host.now_s = time_s
        host.put(*run)

    def _send(
        self, time_s: float, order: int, tier: KvTier, link: WriteLink, source: int, run: Run
    ) -> None:
        """Send what a tier lacks of a run; what it has becomes the most recently used."""
        missing = [run]
        if tier.has_of(run.owner):
            missing = tier.missing_runs(*run)
            tier.refresh(*run)
        for part in missing:
            num_sent, arrival_s = link.send(part.end - part.first, time_s)
            if num_sent:  # the first ones: the others are of no use without them
                sent = Run(part.owner, part.first, part.first + num_sent)
                self._push(arrival_s, order, source, _PUT, sent)

    def check(self) -> None:
        """Check that blocks are conserved in every tier and on every link.

        Raises:
            InvariantError: names what is broken.
        """
        for tier in self.hosts.values():
            tier.check()
        if self.remote is not None:
            self.remote.check()
        for order, links in ((_TO_HOST, self.to_host), (_TO_REMOTE, self.to_remote)):
            sent = sum(link.num_blocks for link in links.values())
            arrived = sum(link.num_arrived for link in links.values())
            under_way = sum(e[5].end - e[5].first for e in self._events if e[1] == order)
            if sent != arrived + under_way:
                raise InvariantError(
                    f"14: {sent} KV blocks sent to a tier, {arrived} arrived and {under_way} "
                    "under way"
                )
