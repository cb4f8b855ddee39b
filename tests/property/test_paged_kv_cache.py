"""Caches with physical blocks: the decisions of those without, and every block accounted for."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from policies.routing.most_hit import MostHit
from sim.block_pager import BlockPager
from sim.executed_cost import ExecutedCost, ExecutorRecords
from sim.interfaces import DecodeBatchView, EvictionPolicy, RunTable
from sim.paged_kv_cache import PagedIndexedKvCache, PagedKvCache
from tests.engine_runs import LinearCost, run_engine
from tests.property.test_macro_stepping import columns
from tests.twin.workloads import random_workload


class PagedCost(LinearCost, ExecutedCost):
    """Prices as `LinearCost`; commits a frame per step and checks all references."""

    plans_every_step = True

    def __init__(self, allocator: str) -> None:
        super().__init__()
        self.allocator = allocator
        self.num_frames = 0
        self.most_aliased = 0

    def for_instance(self) -> "PagedCost":
        made = PagedCost(self.allocator)
        ALL.append(made)
        return made

    def open_pager(self, num_blocks: int) -> BlockPager:
        return BlockPager(num_blocks, self.allocator)

    def watch(self, instance: Any) -> None:
        self.instance = instance

    def decode_step_s(self, batch: DecodeBatchView) -> float:
        kv, step = self.instance.kv, self.instance.batch.step
        assert isinstance(kv, PagedKvCache | PagedIndexedKvCache)
        if step != getattr(self, "_step", None):  # mixed steps ask twice
            edits = kv.commit_frame(self.instance.running.values(), step)
            self.most_aliased = max(self.most_aliased, edits.aliased)
            self.num_frames += 1
            self._step = step
        kv._num_checks = 0  # whole check
        return super().decode_step_s(batch)

    def records(self, runs: RunTable) -> ExecutorRecords:
        return ExecutorRecords()


ALL: list[PagedCost] = []


class LastBlocksFirst(EvictionPolicy):
    """Long runs of blocks are evicted first."""

    def key(self, owner: int, first_block: int, num_blocks: int, release_index: int) -> float:
        return -num_blocks


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    structured=st.booleans(),
    allocator=st.sampled_from(["lowest_first", "newest_first", "oldest_first"]),
    is_async=st.booleans(),
    caching=st.booleans(),
    has_index=st.booleans(),
    has_eviction=st.booleans(),
    block_tokens=st.sampled_from([16, 16, 1, 5]),
)
def test_a_pager_changes_no_decision_and_accounts_for_every_block(
    seed: int,
    structured: bool,
    allocator: str,
    is_async: bool,
    caching: bool,
    has_index: bool,
    has_eviction: bool,
    block_tokens: int,
) -> None:
    ALL.clear()
    workload, limits = random_workload(seed, structured=structured, step_s=0.01)
    options: dict[str, Any] = {
        "usable_blocks": (limits["num_gpu_blocks"] - 1)
        * (16 // block_tokens + (block_tokens < 16)),
        "seats": limits["max_num_seqs"],
        "budget": limits["max_num_batched_tokens"],
        "block_tokens": block_tokens,
        "is_async": is_async,
        "prefix_caching": caching,
        "macro_steps": False,
        "num_instances": 2,
    }
    if has_eviction:
        options["eviction"] = LastBlocksFirst
    runs = []
    for cost in (LinearCost(), PagedCost(allocator)):
        if has_index:
            options["router"] = MostHit()
        runs.append(run_engine(workload, cost=cost, **options))
    plain, paged = runs
    assert columns(paged) == columns(plain)
    steps = sum(len(i.step_end_s) for i in paged.instances)
    assert sum(one.num_frames for one in ALL) == steps
    for one in ALL:  # all requests are gone: only what is cached holds blocks
        kv = one.instance.kv
        assert not kv.pager.tables
        held = {block for frame in kv._frames.values() for block in frame}
        assert kv.pager.num_free == kv.pager.num_blocks - len(held)
        kv._num_checks = 0
        kv.check_integrity(0, [])
