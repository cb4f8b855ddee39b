"""Batches of one group at a time, by a scheduler that is told the groups."""

from collections.abc import Iterator
from heapq import heapify, heappop
from typing import ClassVar, Literal

from sim.errors import ConfigError
from sim.interfaces import BatchPolicy, InstanceView
from sim.operations import OperationCounts
from sim.request import WAITING, Request

Group = tuple[int, ...]


class Oracle(BatchPolicy):
    """Seal the batch to the largest waiting group and run it to completion.

    Requests are of one group if their prompts begin with the same `group_nodes` nodes of the prefix
    tree (all nodes, if there are fewer); those that share nothing are one group. When nothing runs
    and no member of the sealed batch waits, the group with the most waiting requests is chosen, of
    equals the one with the earliest arrival; those of it that wait now are the members. They are
    tried in order of arrival; nobody else is tried, not even later arrivals of the group, until
    the last member has finished.

    Args:
        group_nodes: nodes that define a group, >= 1.

    Attributes:
        operations: what the policy did so far.

    Raises:
        ConfigError: `group_nodes` is out of range.

    Source: the baseline "Oracle" of Feather, arXiv 2605.06046v1, which is told the group ids; the
    paper's details are unknown.
    """

    decides: ClassVar[Literal["every_step", "on_change"]] = "on_change"

    operations: OperationCounts

    def __init__(self, group_nodes: int = 1) -> None:
        if group_nodes < 1:
            raise ConfigError(f"batching.group_nodes={group_nodes}: must be at least 1")
        self.operations = OperationCounts()
        self._group_nodes = group_nodes
        self._waiting: dict[Group, dict[int, Request]] = {}
        self._member_ids: frozenset[int] = frozenset()
        self._queue: list[tuple[float, int, Request]] = []  # members; they leave it late

    def on_arrival(self, instance: InstanceView, request: Request, now_s: float) -> None:
        """Into its group; a preempted member stays one."""
        self._waiting.setdefault(self._group_of(request), {})[request.request_id] = request
        self.operations.node_visits += 1
        if request.request_id in self._member_ids:
            self._queue = [item for item in self._queue if item[2] is not request]
            self._queue.append((request.arrival_s, request.request_id, request))
            heapify(self._queue)
            self.operations.heap_operations += 1

    def on_admit(self, instance: InstanceView, request: Request, now_s: float) -> None:
        """Out of those that wait."""
        group = self._group_of(request)
        del self._waiting[group][request.request_id]
        if not self._waiting[group]:
            del self._waiting[group]
        self.operations.node_visits += 1

    def candidates(self, instance: InstanceView, now_s: float) -> Iterator[Request]:
        """Waiting members in order of arrival."""
        member = self._next_member()
        if member is None and not instance.running:
            self._seal()
            member = self._next_member()
        while member is not None:
            yield member
            member = self._next_member()

    def _next_member(self) -> Request | None:
        """The waiting member that came first."""
        queue = self._queue
        while queue and queue[0][2].phase != WAITING:
            heappop(queue)
            self.operations.heap_operations += 1
        self.operations.candidates_scanned += 1
        return queue[0][2] if queue else None

    def _seal(self) -> None:
        """Choose members."""
        self.operations.candidates_scanned += len(self._waiting)
        largest = min(self._waiting.values(), key=_rank, default=None) or {}
        self._member_ids = frozenset(largest)
        self._queue = [(r.arrival_s, r.request_id, r) for r in largest.values()]
        heapify(self._queue)
        self.operations.heap_operations += len(largest)

    def _group_of(self, request: Request) -> Group:
        return request.path[: self._group_nodes]


def _rank(group: dict[int, Request]) -> tuple[int, tuple[float, int]]:
    """Larger groups first, of equals the one with the earliest arrival."""
    return -len(group), min((request.arrival_s, request.request_id) for request in group.values())
