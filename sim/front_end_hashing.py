"""The input thread of an engine: it hashes the blocks of a prompt before the scheduler sees it.

It works while the GPU does, one prompt after the other. A router counts a request from the moment
it has sent it there: the request waits.

Source: vLLM v1 `EngineCoreProc.preprocess_add_request` (the block hasher runs in the input thread).
"""

from array import array
from collections import deque

from sim.instance import Instance
from sim.loads import Loads, StaleView
from sim.request import Request
from sim.step_clock import ARRIVAL, StepClock


class PromptHasher:
    """Stands before an instance and passes requests on when their prompts are hashed.

    Args:
        instance: where they go.
        clock: simulated time.
        loads: counters of the cluster.
        stale_view: told of counter changes, or None.
        hash_block_s: work per full KV block of the prompt, seconds.
        block_tokens: tokens per KV block.

    Attributes:
        rows: requests that came here, in order.
        hashed_s: when each of them was or will be passed on, seconds.
    """

    def __init__(
        self,
        instance: Instance,
        clock: StepClock,
        loads: Loads,
        stale_view: StaleView | None,
        hash_block_s: float,
        block_tokens: int,
    ) -> None:
        self.rows = array("q")
        self.hashed_s = array("d")
        self._instance = instance
        self._clock = clock
        self._loads = loads
        self._stale_view = stale_view
        self._hash_block_s = hash_block_s
        self._block_tokens = block_tokens
        self._inside: deque[Request] = deque()
        self._free_s = 0.0

    def submit(self, request: Request, now_s: float) -> None:
        """Take a request that the router has sent to the instance."""
        work_s = request.prompt_tokens // self._block_tokens * self._hash_block_s
        self._free_s = hashed_s = max(now_s, self._free_s) + work_s
        self.rows.append(request.request_id)
        self.hashed_s.append(hashed_s)
        request.arrival_s = hashed_s
        if hashed_s <= now_s:
            self._instance.submit(request, now_s)
            return
        self._inside.append(request)
        view, i = self._stale_view, self._instance.instance_id
        if view is not None:
            view.before_change(now_s)
        self._count(request, 1)
        if view is not None:
            view.after_change(i, now_s)
        self._clock.call_at(hashed_s, ARRIVAL, self._on_hashed)

    def _on_hashed(self, _key: int) -> None:
        request = self._inside.popleft()
        now_s = request.arrival_s
        self._loads.now_s = now_s
        if self._stale_view is not None:
            self._stale_view.before_change(now_s)
        self._count(request, -1)  # the instance counts it anew
        self._instance.submit(request, now_s)

    def _count(self, request: Request, change: int) -> None:
        loads, i = self._loads, self._instance.instance_id
        loads.num_waiting[i] += change
        loads.num_requests[i] += change
        loads.queued_prefill_tokens[i] += change * request.prompt_tokens
