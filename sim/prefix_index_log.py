"""What a router whose view is old knows of the prefix caches: events that reach it late.

Every change of what can be hit is an event with its exact time, also inside runs of steps, so that
macro-stepping does not show. What a running request decodes is reported when it has finished or was
preempted; engines report its blocks as they fill up.
"""

from collections import deque
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from mypy_extensions import mypyc_attr

from sim.decode_batch import DecodeBatch
from sim.extents import FreeQueue
from sim.prefix_index import PrefixIndex
from sim.prefix_index_feed import PrefixFeed
from sim.request import Request
from sim.step_clock import StepClock

if TYPE_CHECKING:
    from sim.instance import Instance


def blocks_before_first_loss(queue: FreeQueue) -> int:
    """Blocks that can be taken before the first one that can be hit."""
    num_blocks = 0
    for extent in queue:
        num_blocks += extent.end - extent.first - extent.num_hashed
        if extent.num_hashed:
            break
    return num_blocks


@mypyc_attr(allow_interpreted_subclasses=True)
class ReportedFeed(PrefixFeed):
    """Matches against the caches as they were some time ago.

    Args:
        index: what the router knows.
        clock: simulated time.
    """

    wants_every_change = True

    def __init__(self, index: PrefixIndex, clock: StepClock) -> None:
        super().__init__(index)
        self._clock = clock
        self._events: deque[tuple[float, int, int, int]] = deque()
        self._losses: list[tuple[float, int, int, int]] = []
        self._stamp_s: float | None = None
        self._open: dict[tuple[int, int], int | None] = {}

    def note(self, node: int, instance_id: int, num_leading: int) -> None:
        """Send an event, or keep it back while the node is an output that is being written."""
        if (node, instance_id) in self._open:
            self._open[node, instance_id] = num_leading
            return
        time_s = self._clock.now if self._stamp_s is None else self._stamp_s
        self._events.append((time_s, node, instance_id, num_leading))

    def leading_of(self, instance_id: int) -> dict[int, int]:
        """Where the cache of an instance keeps its leading blocks, which the router hears later."""
        return {}

    def matched_tokens(self, request: Request) -> list[int]:
        """Leading tokens of a request that each instance held when the view was last refreshed."""
        max_blocks = (request.prompt_tokens - 1) // self._index.block_tokens
        return self._index.matched_tokens(request.kv_path, max_blocks)

    def open_output(self, node: int, instance: "Instance") -> None:
        """A request of an instance begins to write a node."""
        self._open[node, instance.instance_id] = None

    def close_output(self, node: int, instance: "Instance") -> None:
        """It has finished or was preempted: what was kept back is sent."""
        num_leading = self._open.pop((node, instance.instance_id))
        if num_leading is not None:
            self.note(node, instance.instance_id, num_leading)

    def note_run(self, instance: "Instance", batch: DecodeBatch, num_steps: int) -> None:
        """Note when the run will evict a block that can be hit."""
        spare = blocks_before_first_loss(instance.kv.queue) + instance.plan.decode_blocks
        if spare < batch.blocks_for_steps(num_steps):
            step = batch.steps_within_blocks(spare) + 1
            planned_s = instance.step_ends.view[batch.step + step - 2 - instance.lag]
            heappush(self._losses, (planned_s, instance.instance_id, batch.step, step))

    def advance(self, now_s: float) -> None:
        """Send the events of the steps that were planned before `now_s`."""
        losses = self._losses
        while losses and losses[0][0] < now_s:
            planned_s, instance_id, first_step, step = heappop(losses)
            instance = self._instances[instance_id]
            num_steps = instance._run_steps
            if instance.batch.step != first_step or num_steps < step:
                continue  # the run is over, or was cut before that step
            self._stamp_s = planned_s
            instance._take_run_blocks(step)
            self._stamp_s = None
            self.note_run(instance, instance.batch, num_steps)

    def apply_before(self, limit_s: float) -> None:
        """Let the router know the events before `limit_s`."""
        events = self._events
        while events and events[0][0] < limit_s:
            self._apply(events.popleft())

    def apply_until(self, limit_s: float) -> None:
        """Let the router know the events up to and at `limit_s`."""
        events = self._events
        while events and events[0][0] <= limit_s:
            self._apply(events.popleft())

    def _apply(self, event: tuple[float, int, int, int]) -> None:
        _, node, instance_id, num_leading = event
        leading = self._index.leading[instance_id]
        if num_leading:
            leading[node] = num_leading
        else:
            leading.pop(node, None)
        self._index.note(node, instance_id, num_leading)
