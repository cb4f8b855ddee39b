"""First come, first served."""

from collections.abc import Iterable
from typing import ClassVar

from sim.interfaces import BatchPolicy, InstanceView
from sim.request import Request


class FCFS(BatchPolicy):
    """Order (preempted first, arrival_s, request_id): the waiting queue from its head.

    The batch closes at the first request that does not fit; nobody overtakes it.

    Source: vLLM v1 scheduler, policy `fcfs` (its default).
    """

    admits_in_arrival_order: ClassVar[bool] = True

    def candidates(self, instance: InstanceView, now_s: float) -> Iterable[Request]:
        """The queue as it stands."""
        return instance.waiting.values()
