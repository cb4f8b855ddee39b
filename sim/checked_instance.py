"""An instance that verifies invariants 2, 5 and 8 after every plan, and counts for 10."""

from collections.abc import Iterable
from typing import Any

from sim.errors import InvariantError
from sim.extents import Extent
from sim.instance import Instance
from sim.request import DECODING, Request


class CheckedInstance(Instance):
    """Drop-in for `Instance` under `check=true`; several times slower.

    Attributes:
        request_seconds: integral over time of the requests on the instance.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.request_seconds = 0.0
        self._last_change_s = 0.0
        self._num_inside = 0

    def submit(self, request: Request, now_s: float) -> None:
        """Take an arriving request into the waiting queue."""
        super().submit(request, now_s)
        self._count(now_s)

    def _on_wake(self, key: int) -> None:
        if key != self._wake_key:
            return
        now_s = self._wake_s
        super()._on_wake(key)
        self._count(now_s)
        self._check_blocks()
        if self.is_idle and (self.waiting or self.running) and not self._may_idle():
            raise InvariantError(f"5: instance {self.instance_id} idles with requests on it")
        if len(self.running) > self.rules.max_num_seqs:
            raise InvariantError(f"8: instance {self.instance_id} runs {len(self.running)}")

    def _count(self, now_s: float) -> None:
        self.request_seconds += self._num_inside * (now_s - self._last_change_s)
        self._last_change_s = now_s
        preempted_at_end = sum(r.request_id not in self.running for r in self.zombies)
        self._num_inside = len(self.waiting) + len(self.running) + preempted_at_end

    def _check_blocks(self) -> None:
        named: dict[int, Extent] = {}
        private = self.plan.decode_blocks if self._run_steps else 0
        for request in self._block_holders():
            covered = 0
            for extent in request.extents:
                named[id(extent)] = extent
                covered += extent.num_blocks
            private += self._held_blocks(request) - covered
        held = list(named.values())
        num_held = private + sum(extent.num_blocks for extent in held)
        self.kv.check_integrity(num_held, held)

    def _block_holders(self) -> Iterable[Request]:
        """Requests that hold KV blocks."""
        return self.running.values()

    def _may_idle(self) -> bool:
        """Whether something beside its requests can keep it from working."""
        return False

    def _held_blocks(self, request: Request) -> int:
        """Blocks a request holds, those of the planned steps aside."""
        if request.phase != DECODING:
            return request.num_blocks
        held_tokens = request.computed_tokens + self.batch.step - request.decode_start_step
        return -(-held_tokens // self.kv.block_tokens)
