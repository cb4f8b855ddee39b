"""The block pager: which physical blocks the logical history of every request lies in.

Requests are followed by block tables. Three edits change them: *reserve* takes free blocks, *alias*
lets one more table or cached content refer to blocks, *trim* gives references up; a block nobody
refers to is free again. Edits go to a shadow descriptor, which a *frame commit* puts in the place
of the committed one, once per step. Not modelled: contents of blocks, bytes of the descriptor.

Source: mechanism of KV-RM (arXiv 2605.09735, withdrawn by its authors), POLICIES 3.
"""

from array import array
from collections.abc import Iterable, Sequence
from itertools import chain, pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sim.block_allocator import all_taken, free_blocks
from sim.errors import InvariantError

IntArray = npt.NDArray[np.int64]


class FrameEdits(NamedTuple):
    """Edits of one frame, in blocks.

    Attributes:
        reserved: taken from the free ones.
        aliased: referred to once more.
        trimmed: referred to once less.
    """

    reserved: int
    aliased: int
    trimmed: int


class MergedBlocks(NamedTuple):
    """Blocks to move, as runs of consecutive numbers.

    Attributes:
        num_groups: runs, each one transfer.
        num_blocks: blocks moved, those read in vain between two wanted ones included.
    """

    num_groups: int
    num_blocks: int


class BlockPager:
    """Physical blocks of one instance, their references and the tables of its requests.

    Args:
        num_blocks: blocks of the pool, numbered from 0.
        allocator: which free block comes next, a name of `sim.block_allocator.ALLOCATORS`.

    Raises:
        ConfigError: there is no such allocator.

    Attributes:
        num_blocks: blocks of the pool.
        tables: blocks of each request in order of position: the shadow descriptor.
    """

    def __init__(self, num_blocks: int, allocator: str = "lowest_first") -> None:
        self.num_blocks = num_blocks
        self.tables: dict[int, list[int]] = {}
        self._free = free_blocks(allocator, num_blocks)
        self._references = array("i", bytes(4 * num_blocks))
        self._committed: dict[int, int] = {}
        self._edited: set[int] = set()
        self._edits = [0, 0, 0]
        self._num_pairs = self._num_breaks = 0

    @property
    def num_free(self) -> int:
        """Blocks that nothing refers to."""
        return len(self._free)

    @property
    def fragmentation_ratio(self) -> float:
        """Share of neighbours within tables that do not follow one another, 0 to 1.

        0 where every request lies in one run of blocks.
        """
        return self._num_breaks / self._num_pairs if self._num_pairs else 0.0

    def references(self, block: int) -> int:
        """How many tables and cached contents refer to a block."""
        return self._references[block]

    # -- edits -----------------------------------------------------------------------------------

    def reserve(self, count: int) -> list[int]:
        """Take free blocks; each has one reference, which the caller passes on.

        Raises:
            InvariantError: there are not so many.
        """
        if count > len(self._free):
            raise InvariantError(f"2: reserved {count} blocks of {len(self._free)} free ones")
        blocks = all_taken(self._free, count)
        references = self._references
        for block in blocks:
            references[block] = 1
        self._edits[0] += count
        return blocks

    def alias(self, blocks: Sequence[int]) -> None:
        """Refer to blocks once more; none of them is free."""
        references = self._references
        for block in blocks:
            if not references[block]:
                raise InvariantError(f"2: alias of the free block {block}")
            references[block] += 1
        self._edits[1] += len(blocks)

    def trim(self, blocks: Iterable[int]) -> None:
        """Refer to blocks once less; those that nothing refers to are free, in that order."""
        references, free, count = self._references, self._free, 0
        for block in blocks:
            left = references[block] - 1
            if left < 0:
                raise InvariantError(f"2: trim of the free block {block}")
            references[block] = left
            count += 1
            if not left:
                free.give(block)
        self._edits[2] += count

    def extend(self, request_id: int, blocks: Sequence[int]) -> None:
        """Put blocks at the end of a table, which takes over one reference of each."""
        if not blocks:
            return
        table = self.tables.setdefault(request_id, [])
        previous = table[-1] if table else None
        table += blocks
        for block in blocks:
            if previous is not None:
                self._num_pairs += 1
                self._num_breaks += block != previous + 1
            previous = block
        self._edited.add(request_id)

    def close(self, request_id: int) -> None:
        """Drop the table of a request, last block first."""
        table = self.tables.pop(request_id, None)
        if table is None:
            return
        self._num_pairs -= len(table) - 1
        self._num_breaks -= _num_breaks(table)
        self._edited.add(request_id)
        self.trim(reversed(table))

    # -- frames ----------------------------------------------------------------------------------

    def commit(self) -> FrameEdits:
        """Put the shadow descriptor in the place of the committed one; returns its edits."""
        tables, committed = self.tables, self._committed
        for request_id in self._edited:
            if request_id in tables:
                committed[request_id] = len(tables[request_id])
            else:
                committed.pop(request_id, None)
        self._edited.clear()
        edits = FrameEdits(*self._edits)
        self._edits = [0, 0, 0]
        return edits

    def committed(self, request_id: int) -> list[int]:
        """Blocks of a request in the committed descriptor; empty if it has none."""
        return self.tables.get(request_id, [])[: self._committed.get(request_id, 0)]

    # -- integrity -------------------------------------------------------------------------------

    def check_integrity(self, contents: Iterable[Sequence[int]], pending: Sequence[int]) -> None:
        """Check references against what refers, and the free blocks against the rest.

        Args:
            contents: blocks of each cached content.
            pending: reserved blocks that no table has taken over.

        Raises:
            InvariantError: names the broken rule.
        """
        every = chain.from_iterable((*self.tables.values(), *contents, pending))
        counted = np.bincount(np.fromiter(every, dtype=np.int64), minlength=self.num_blocks)
        noted = np.frombuffer(self._references, dtype=np.int32)
        wrong = np.flatnonzero(counted != noted)
        if len(wrong):
            block = int(wrong[0])
            raise InvariantError(
                f"2: block {block} has {noted[block]} references, counted {counted[block]}"
            )
        unused = int(np.count_nonzero(counted == 0))
        if unused != self.num_free:
            raise InvariantError(f"2: {unused} blocks are unused, {self.num_free} are free")


def _num_breaks(table: Sequence[int]) -> int:
    return sum([after != before + 1 for before, after in pairwise(table)])


def merged(blocks: Sequence[int] | IntArray, merge_max_gap_blocks: int = 0) -> MergedBlocks:
    """Runs that hold all of `blocks`; a gap of at most so many blocks is read along.

    A block that is wanted several times is read once and moved as often as it is wanted.
    """
    wanted = np.sort(np.asarray(blocks, dtype=np.int64))
    if not len(wanted):
        return MergedBlocks(0, 0)
    gaps = np.diff(wanted) - 1  # -1 where a block is wanted once more
    is_bridged = gaps <= merge_max_gap_blocks
    bridged = int(gaps[is_bridged & (gaps > 0)].sum())
    return MergedBlocks(1 + int(np.count_nonzero(~is_bridged)), len(wanted) + bridged)
