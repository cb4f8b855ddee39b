"""An instance played by hand, for tests of batch policies."""

from collections.abc import Sequence

from sim.interfaces import BatchPolicy, InstanceView
from sim.request import DECODING, PREFILLING, WAITING, Request
from tests.twin.stories import Ask, workload_of


class PlayedInstance(InstanceView):
    """Queues and free blocks as the test sets them; nothing is cached."""

    instance_id = 0
    num_usable_blocks = 1000
    num_free_blocks = 1000

    def __init__(self, policy: BatchPolicy) -> None:
        self.policy = policy
        self._waiting: dict[int, Request] = {}
        self._running: dict[int, Request] = {}

    @property
    def waiting(self) -> dict[int, Request]:
        return self._waiting

    @property
    def running(self) -> dict[int, Request]:
        return self._running

    def cached_tokens(self, request: Request) -> int:
        return 0

    def arrive(self, *requests: Request, now_s: float = 0.0) -> None:
        for request in requests:
            request.phase = WAITING
            self._waiting[request.request_id] = request
            self.policy.on_arrival(self, request, now_s)

    def plan(self, duration_s: float = 1.0, now_s: float = 0.0, seats: int = 1000) -> list[int]:
        """Plan a step of `duration_s`; who is admitted. What ran before has been prefilled."""
        for request in self._running.values():
            request.phase = DECODING
        admitted: list[int] = []
        if self._waiting and len(self._running) < seats:
            for request in self.policy.candidates(self, now_s):
                self._running[request.request_id] = request
                request.phase = PREFILLING
                self.policy.on_admit(self, request, now_s)
                admitted.append(request.request_id)
                if len(self._running) >= seats:
                    break
        for request_id in admitted:
            del self._waiting[request_id]
        self.policy.on_step(self, len(self._running), duration_s)
        return admitted

    def refuse(self, now_s: float = 0.0) -> int | None:
        """Plan a step in which the first candidate does not fit; who that was."""
        first = next(iter(self.policy.candidates(self, now_s)), None)
        return None if first is None else first.request_id

    def finish(self, *request_ids: int, now_s: float = 0.0) -> None:
        for request_id in request_ids:
            request = self._running.pop(request_id)
            self.policy.on_finish(self, request, now_s)

    def preempt(self, request_id: int) -> None:
        """Take a request's KV; it waits at the tail here."""
        request = self._running[request_id]
        self.finish(request_id)
        self.arrive(request)


def grouped_requests(groups: Sequence[int], prefix: int = 40, suffix: int = 10) -> list[Request]:
    """Requests, each its group's prefix and a private suffix, arriving one second apart."""
    nodes = [(-1, prefix)] * (max(groups) + 1)
    asks = [Ask(float(k), prefix + suffix, 5, (group,)) for k, group in enumerate(groups)]
    workload = workload_of(asks, nodes)
    return [
        Request(workload, k, float(k), prefix + suffix, 5, (group,), suffix)
        for k, group in enumerate(groups)
    ]
