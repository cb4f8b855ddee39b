"""Keeps the prefix index of a cluster true at every instant, also inside runs of steps.

An instance takes the KV blocks of a run of decode steps when the run is over, and names what a
request decodes when somebody asks. A match must see both as of now. So it is noted, when a run is
planned, which nodes the run may evict and which outputs are open; an instance is brought to now
only if the path of the request that is matched meets one of those.
"""

from typing import TYPE_CHECKING

from mypy_extensions import mypyc_attr

from sim.decode_batch import DecodeBatch
from sim.interfaces import DecodeBatchView, PrefillChunk
from sim.load_arrays import SparseMatch
from sim.prefix_index import PrefixIndex
from sim.request import Request
from sim.step_ends import StepEnds

if TYPE_CHECKING:
    from sim.instance import Instance


class OpenOutputs(dict[int, Request]):
    """`Instance.open_outputs` that tells a feed which nodes are being written."""

    def __init__(self, feed: "PrefixFeed", instance: "Instance") -> None:
        super().__init__()
        self._feed = feed
        self._instance = instance

    def setdefault(self, node: int, request: Request) -> Request:
        """A request begins to write a node, unless another one does already."""
        if node not in self:
            self._feed.open_output(node, self._instance)
        return super().setdefault(node, request)

    def __delitem__(self, node: int) -> None:
        super().__delitem__(node)
        self._feed.close_output(node, self._instance)


@mypyc_attr(allow_interpreted_subclasses=True)
class PrefixFeed:
    """Live matches of prompts against all instances.

    Args:
        index: kept up to date.

    Attributes:
        wants_every_change: whether it is also told of changes between two parts of a node.
    """

    wants_every_change = False

    def __init__(self, index: PrefixIndex) -> None:
        self._index = index
        self._writers: dict[int, list[Instance]] = {}
        self._at_risk: dict[int, set[int]] = {}
        self._risks: list[list[int]] = [[] for _ in range(index.num_instances)]
        self._instances: list[Instance] = []

    def note(self, node: int, instance_id: int, num_leading: int) -> None:
        """The cache of an instance holds so many leading blocks of a node."""
        self._index.note(node, instance_id, num_leading)

    def leading_of(self, instance_id: int) -> dict[int, int]:
        """Where the cache of an instance keeps its leading blocks per node."""
        return self._index.leading[instance_id]

    # -- matching --------------------------------------------------------------------------------

    def matched_tokens(self, request: Request) -> list[int]:
        """What `cached_tokens` of each instance would answer for a request that arrives now."""
        return self._index.told(self.match(request))

    def match(self, request: Request) -> SparseMatch:
        """The same, told in short."""
        path = request.kv_path
        if self._at_risk or self._writers:
            for node in path:
                if node in self._at_risk:
                    self._bring_to_now(node)
                if node in self._writers:
                    for instance in tuple(self._writers[node]):
                        instance._sync_blocks()
                        instance.name_open_outputs(request)
        max_blocks = (request.prompt_tokens - 1) // self._index.block_tokens
        return self._index.match(path, max_blocks)

    def _bring_to_now(self, node: int) -> None:
        for i in tuple(self._at_risk[node]):
            self._instances[i]._sync_blocks()

    # -- what instances do -----------------------------------------------------------------------

    def watch(self, instance: "Instance") -> None:
        """Follow an instance, the next one of the cluster."""
        self._instances.append(instance)
        instance.open_outputs = OpenOutputs(self, instance)
        write_run_ends = instance._write_run_ends

        def write_and_note(
            batch: DecodeBatchView, num_steps: int, start_s: float, ends: StepEnds, at: int
        ) -> None:
            write_run_ends(batch, num_steps, start_s, ends, at)
            self.note_run(instance, instance.batch, num_steps)

        write_chunk_ends = instance._write_chunk_ends

        def write_chunks_and_note(
            batch: DecodeBatchView,
            chunk: PrefillChunk,
            num_steps: int,
            start_s: float,
            ends: StepEnds,
            at: int,
        ) -> None:
            write_chunk_ends(batch, chunk, num_steps, start_s, ends, at)
            self.note_run(instance, instance.batch, num_steps)

        instance._write_run_ends = write_and_note
        instance._write_chunk_ends = write_chunks_and_note

    def note_run(self, instance: "Instance", batch: DecodeBatch, num_steps: int) -> None:
        """An instance has planned a run of steps, whose first step holds its blocks."""
        i = instance.instance_id
        if self._risks[i]:
            self._forget_risks(i)
        is_chunks = bool(instance.plan.chunks)
        if is_chunks:
            self._note_named(instance, num_steps)
        queue = instance.kv.queue
        extent = queue.head.next
        spare = extent.end - extent.first - extent.num_hashed
        if (
            not is_chunks
            and batch.num_requests * (num_steps // instance.kv.block_tokens + 1) <= spare
        ):
            return
        needed = instance.missing_blocks(num_steps)
        while needed > 0:
            if extent.owner >= 0 and needed > extent.end - extent.first - extent.num_hashed:
                self._put_at_risk(extent.owner, i)
            needed -= extent.end - extent.first
            extent = extent.next

    def _note_named(self, instance: "Instance", num_steps: int) -> None:
        """Note the nodes that a run of chunks will make hittable in its later steps."""
        request, size = instance.prefilling[0], instance.kv.block_tokens
        first = request.computed_tokens // size
        if first < request.shared_blocks:
            end = instance._chunk_end(num_steps) // size
            for node in request.kv_path:
                at = self._index.first_block[node]
                if at < end and at + self._index.num_blocks[node] > first:
                    self._put_at_risk(node, instance.instance_id)

    def _put_at_risk(self, node: int, instance_id: int) -> None:
        self._risks[instance_id].append(node)
        holders = self._at_risk.get(node)
        if holders is None:
            self._at_risk[node] = {instance_id}
        else:
            holders.add(instance_id)

    def _forget_risks(self, instance_id: int) -> None:
        for node in self._risks[instance_id]:
            holders = self._at_risk.get(node)
            if holders is not None:
                holders.discard(instance_id)
                if not holders:
                    del self._at_risk[node]
        self._risks[instance_id] = []

    def open_output(self, node: int, instance: "Instance") -> None:
        """A request of an instance begins to write a node."""
        self._writers.setdefault(node, []).append(instance)

    def close_output(self, node: int, instance: "Instance") -> None:
        """It has finished or was preempted."""
        writers = self._writers[node]
        writers.remove(instance)
        if not writers:
            del self._writers[node]


@mypyc_attr(allow_interpreted_subclasses=True)
class CacheLookups:
    """Matches prompts by asking every instance, for engines that bring a KV cache of their own."""

    def __init__(self) -> None:
        self._instances: list[Instance] = []

    def watch(self, instance: "Instance") -> None:
        """Ask an instance too, the next one of the cluster."""
        self._instances.append(instance)

    def matched_tokens(self, request: Request) -> list[int]:
        """Leading tokens of a request in the cache of each instance now."""
        if not request.kv_path:
            return [0] * len(self._instances)
        return [instance.cached_tokens(request) for instance in self._instances]
