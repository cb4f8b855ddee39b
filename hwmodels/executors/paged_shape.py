"""Steps of fixed shape over paged memory: blocks are gathered into a staging buffer first.

In every step the block pager commits a frame, and the blocks that the buffer lacks are moved to it
in groups, one per run of consecutive physical blocks. What must be moved follows from the block
tables, so every step is planned on its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hwmodels.executors.fixed_graphs import FixedGraphs
from hwmodels.executors.fixed_shape import FixedShapeCost
from sim.block_pager import BlockPager, merged
from sim.executed_cost import ExecutorRecords
from sim.interfaces import DecodeBatchView, FloatArray, PrefillChunk, RunTable
from sim.paged_kv_cache import PagedIndexedKvCache, PagedKvCache
from sim.request import DECODING, Request

if TYPE_CHECKING:
    from sim.instance import Instance


@dataclass(frozen=True, slots=True, kw_only=True)
class Transport:
    """How blocks get to the staging buffer.

    Attributes:
        near_window_tokens: latest tokens of a context that a step reads.
        far_view_tokens: tokens of summaries of what lies before; 0 for none.
        is_delta: whether only what changed is moved, and not all windows.
        is_hidden: whether a step's transfers run beside its kernels.
        merge_max_gap_blocks: blocks between two wanted ones that are read along.
        commit_s: time of a frame commit, seconds.
        group_s: fixed time of a transfer group, seconds.
        bytes_per_s: rate of a transfer.
        block_bytes: KV bytes of a block on one GPU.
        block_tokens: tokens of a block.
        allocator: which free block comes next.
    """

    near_window_tokens: int
    far_view_tokens: int
    is_delta: bool
    is_hidden: bool
    merge_max_gap_blocks: int
    commit_s: float
    group_s: float
    bytes_per_s: float
    block_bytes: int
    block_tokens: int
    allocator: str


class PagedShapeCost(FixedShapeCost):
    """Cost model of steps of fixed shape whose windows are gathered from blocks.

    Args:
        graphs: what graphs take on the GPU.
        transport: how blocks get to the staging buffer.
        submit_s: host time to submit a graph, seconds.
    """

    plans_every_step = True
    moves_blocks = True
    columns = (
        *FixedShapeCost.columns,
        *("commit_s", "transfer_s", "groups", "moved_bytes", "fragmentation"),
    )

    def __init__(self, graphs: FixedGraphs, transport: Transport, submit_s: float) -> None:
        window = transport.near_window_tokens + transport.far_view_tokens
        super().__init__(graphs, (window,), submit_s)
        self._transport = transport
        self._instance: Instance | None = None

    def for_instance(self) -> "PagedShapeCost":
        """The same prices, for an empty staging buffer."""
        return PagedShapeCost(self.graphs, self._transport, self._submit_s)

    def open_pager(self, num_blocks: int) -> BlockPager:
        """Physical blocks of the KV cache of the instance."""
        return BlockPager(num_blocks, self._transport.allocator)

    def watch(self, instance: "Instance") -> None:
        """Take the instance whose steps are priced; before the first one."""
        super().watch(instance)
        self._instance = instance

    def decode_run_s(self, batch: DecodeBatchView, num_steps: int) -> FloatArray:
        """Durations of the next steps where nothing has to be moved, or of the next one alone."""
        assert self._instance is None or num_steps == 1, "every step is planned on its own"
        return np.array([self._step_s(batch, ()) for _ in range(num_steps)])

    def _step_s(self, batch: DecodeBatchView, chunks: Sequence[PrefillChunk]) -> float:
        self._loaded()
        transport = self._transport
        gpu_s = float(self._decode_s[0]) if batch.num_requests else 0.0
        gpu_s += self._prefill_s(chunks)
        launch_s = self._launch_s(batch.num_requests, len(chunks)) + transport.commit_s
        if self._instance is None or self._notes is None:
            return gpu_s + launch_s
        num_groups, moved_bytes, fragmentation = self._gather(self._instance)
        move_s = num_groups * transport.group_s + moved_bytes / transport.bytes_per_s
        wait_s = max(0.0, move_s - gpu_s) if transport.is_hidden else move_s
        self._notes.add(
            window=0,
            launch_s=launch_s,
            switches=0,
            commit_s=transport.commit_s,
            transfer_s=wait_s,
            groups=num_groups,
            moved_bytes=moved_bytes,
            fragmentation=fragmentation,
        )
        return gpu_s + wait_s + launch_s

    def _gather(self, instance: "Instance") -> tuple[int, int, float]:
        """Commit the frame; groups to move, their bytes, fragmentation of the tables."""
        kv, transport, step = instance.kv, self._transport, instance.batch.step
        assert isinstance(kv, PagedKvCache | PagedIndexedKvCache)
        kv.commit_frame(instance.running.values(), step)
        wanted: list[int] = []
        num_far = 0
        for request in instance.running.values():
            if request.phase == DECODING:
                context = _context_of(request, step)
                wanted += self._wanted(kv.pager.committed(request.request_id), request, context)
                num_far += context > transport.near_window_tokens
        groups = merged(wanted, transport.merge_max_gap_blocks)
        num_groups, num_bytes = groups.num_groups, groups.num_blocks * transport.block_bytes
        if transport.far_view_tokens and num_far:
            tokens = transport.block_tokens if transport.is_delta else transport.far_view_tokens
            num_groups += 1
            num_bytes += num_far * tokens * transport.block_bytes // transport.block_tokens
        return num_groups, num_bytes, kv.pager.fragmentation_ratio

    def _wanted(self, table: Sequence[int], request: Request, context: int) -> Sequence[int]:
        """Blocks of a request that the staging buffer lacks in the next step."""
        assert self._instance is not None
        transport = self._transport
        is_new = request.decode_start_step == self._instance.batch.step
        if transport.is_delta and not is_new:
            return table[-1:]
        before = max(0, context - transport.near_window_tokens)
        return table[before // transport.block_tokens :]

    def records(self, runs: RunTable) -> ExecutorRecords:
        """Commits, transfers and fragmentation; a run is a step."""
        notes = self._notes
        assert notes is not None
        return ExecutorRecords(
            commit_s=notes.of_runs("commit_s", runs),
            transfer_s=notes.of_runs("transfer_s", runs),
            transfer_groups=notes.of_runs("groups", runs),
            transfer_bytes=notes.of_runs("moved_bytes", runs),
            fragmentation_ratio=notes.of_runs("fragmentation", runs) / runs["num_steps"],
        )

    def added_terms(self, runs: RunTable) -> dict[str, FloatArray]:
        """Cost terms of each of `runs` beside those of its graphs. Shape (runs,) each.

        A block that is moved is read and written.
        """
        assert self._notes is not None
        return {
            **super().added_terms(runs),
            "transfer_s": self._notes.of_runs("transfer_s", runs),
            "hbm_bytes": 2 * self._notes.of_runs("moved_bytes", runs),
        }


def _context_of(request: Request, step: int) -> int:
    """Tokens that a decoding request reads in the planned step."""
    return request.computed_tokens + step - request.decode_start_step + 1
