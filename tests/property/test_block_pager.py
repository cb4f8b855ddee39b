"""The block pager against a naive model: references counted by hand, nothing lost or invented."""

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.block_allocator import ALLOCATORS
from sim.block_pager import BlockPager, FrameEdits, merged
from sim.errors import ConfigError, InvariantError


class NaivePager:
    """Lists of blocks per holder; everything else is counted when asked."""

    def __init__(self, num_blocks: int) -> None:
        self.num_blocks = num_blocks
        self.tables: dict[int, list[int]] = {}
        self.contents: list[list[int]] = []

    @property
    def references(self) -> Counter[int]:
        return Counter(b for blocks in (*self.tables.values(), *self.contents) for b in blocks)

    @property
    def free(self) -> set[int]:
        return set(range(self.num_blocks)) - set(self.references)


actions = st.lists(
    st.tuples(
        st.sampled_from(["grow", "share", "keep", "close", "evict", "commit"]),
        st.integers(0, 5),
        st.integers(0, 5),
    ),
    max_size=60,
)


@settings(max_examples=200, deadline=None)
@given(num_blocks=st.integers(1, 30), allocator=st.sampled_from(sorted(ALLOCATORS)), steps=actions)
def test_references_and_free_blocks_are_those_of_the_naive_model(
    num_blocks: int, allocator: str, steps: list[tuple[str, int, int]]
) -> None:
    pager, naive = BlockPager(num_blocks, allocator), NaivePager(num_blocks)
    before: dict[int, list[int]] = {}
    for action, one, other in steps:
        table = naive.tables.get(one, [])
        if action == "grow":
            count = min(other, pager.num_free)
            blocks = pager.reserve(count)
            assert set(blocks) <= naive.free
            if allocator == "lowest_first":
                assert blocks == sorted(naive.free)[:count]
            pager.extend(one, blocks)
            if blocks:
                naive.tables.setdefault(one, []).extend(blocks)
        elif action == "share" and one != other and table and other not in naive.tables:
            pager.alias(table)
            pager.extend(other, table)
            naive.tables[other] = list(table)
        elif action == "keep" and table:
            pager.alias(table[:other])
            naive.contents.append(table[:other])
        elif action == "close":
            pager.close(one)
            naive.tables.pop(one, None)
        elif action == "evict" and naive.contents:
            pager.trim(naive.contents.pop(one % len(naive.contents)))
        elif action == "commit":
            pager.commit()
            before = {key: list(value) for key, value in naive.tables.items()}
        for request_id, blocks in naive.tables.items():
            assert pager.tables[request_id] == blocks
            known = before.get(request_id, [])
            if blocks[: len(known)] == known:  # not closed and opened again since
                assert pager.committed(request_id) == known
        counted = naive.references
        assert [pager.references(b) for b in range(num_blocks)] == [
            counted[b] for b in range(num_blocks)
        ]
        assert pager.num_free == len(naive.free)
        pager.check_integrity(naive.contents, [])
        pairs = [
            after - first for blocks in naive.tables.values() for first, after in pairwise(blocks)
        ]
        broken = sum(step != 1 for step in pairs)
        assert pager.fragmentation_ratio == (broken / len(pairs) if pairs else 0.0)


@settings(max_examples=200, deadline=None)
@given(blocks=st.lists(st.integers(0, 40), max_size=30), gap=st.integers(0, 4))
def test_groups_hold_all_blocks_and_no_gap_above_the_limit(blocks: list[int], gap: int) -> None:
    found = merged(blocks, gap)
    groups: list[list[int]] = []
    for block in sorted(set(blocks)):
        if groups and block - groups[-1][-1] - 1 <= gap:
            groups[-1].append(block)
        else:
            groups.append([block])
    repeated = len(blocks) - len(set(blocks))
    assert found.num_groups == len(groups)
    assert found.num_blocks == sum(g[-1] - g[0] + 1 for g in groups) + repeated
    if gap == 0:
        assert found.num_blocks == len(blocks)


def test_a_frame_counts_its_edits_and_swaps_the_descriptor() -> None:
    pager = BlockPager(8)
    pager.extend(1, pager.reserve(3))
    assert pager.committed(1) == []
    assert pager.commit() == FrameEdits(reserved=3, aliased=0, trimmed=0)
    assert pager.committed(1) == [0, 1, 2]
    pager.alias([0, 1])
    pager.extend(2, [0, 1])
    pager.close(1)
    assert (pager.committed(1), pager.committed(2)) == ([], [])
    assert pager.commit() == FrameEdits(reserved=0, aliased=2, trimmed=3)
    assert pager.committed(2) == [0, 1]
    assert pager.num_free == 6


def test_orders_of_allocation() -> None:
    taken = {}
    for allocator in ALLOCATORS:
        pager = BlockPager(5, allocator)
        pager.extend(1, pager.reserve(4))
        pager.trim([3, 1])
        taken[allocator] = pager.reserve(3)
    assert taken == {
        "lowest_first": [1, 3, 4],
        "newest_first": [1, 3, 4],
        "oldest_first": [4, 3, 1],
    }
    assert BlockPager(3, "newest_first").reserve(3) == [0, 1, 2]


def test_mistakes_are_found() -> None:
    with pytest.raises(ConfigError, match=r"executor\.allocator=best: must be one of lowest_first"):
        BlockPager(3, "best")
    pager = BlockPager(3)
    with pytest.raises(InvariantError, match="reserved 4 blocks of 3"):
        pager.reserve(4)
    with pytest.raises(InvariantError, match="alias of the free block 0"):
        pager.alias([0])
    with pytest.raises(InvariantError, match="trim of the free block 2"):
        pager.trim([2])
    pager.extend(1, pager.reserve(2))
    with pytest.raises(InvariantError, match="block 0 has 1 references, counted 2"):
        pager.check_integrity([[0]], [])
