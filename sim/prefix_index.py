"""Which instances hold how much of each prefix-tree node, so that a router can match at once.

Kept up to date by `sim.prefix_index_cache` (what a cache hashes and loses) and, inside a run of
steps, by `sim.prefix_index_feed`. Here is only the bookkeeping.
"""

import numpy as np
import numpy.typing as npt
from mypy_extensions import mypyc_attr

from sim.load_arrays import IntArray, SparseMatch
from sim.prefix_tree import BlockGeometry

MIN_MASKED = 32
"""Instances that hold a node from which on they are kept as an array too."""


@mypyc_attr(allow_interpreted_subclasses=True)
class PrefixIndex:
    """Leading cached blocks per node and instance.

    A match walks a path once, with the set of instances that hold all of it so far: it costs the
    nodes of the path plus the instances that hold them, not the product of nodes and instances.

    Args:
        num_instances: instances of the cluster.
        geometry: the prefix tree in blocks.

    Attributes:
        first_block: position along the path of each node's first block.
        num_blocks: blocks of each node.
        leading: per instance, the leading cached blocks of each node that has any. Whoever changes
            them calls `note`, at least where a node gets its first or its last block, or loses one
            of those.
    """

    def __init__(self, num_instances: int, geometry: BlockGeometry) -> None:
        self.num_instances = num_instances
        self.block_tokens = geometry.block_tokens
        self.first_block = geometry.first_block
        self.num_blocks = geometry.num_blocks
        self._whole: dict[int, set[int]] = {}
        self._part: dict[int, set[int]] = {}
        self._masks: dict[int, npt.NDArray[np.bool_]] = {}
        self.leading: list[dict[int, int]] = [{} for _ in range(num_instances)]

    def note(self, node: int, instance_id: int, num_leading: int) -> None:
        """An instance holds the first `num_leading` blocks of a node from now on, and not the next.

        Args:
            node: prefix-tree node.
            instance_id: the instance.
            num_leading: blocks, 0 to the blocks of the node.
        """
        if num_leading == self.num_blocks[node]:
            holders = self._whole.get(node)
            if holders is None:
                self._whole[node] = {instance_id}
            else:
                holders.add(instance_id)
                if len(holders) >= MIN_MASKED:
                    self._mask(node, holders)[instance_id] = True
            self._drop_part(node, instance_id)
            return
        holders = self._whole.get(node)
        if holders is not None:
            holders.discard(instance_id)
            if node in self._masks:
                self._masks[node][instance_id] = False
            if not holders:
                del self._whole[node]
        if num_leading:
            holders = self._part.get(node)
            if holders is None:
                self._part[node] = {instance_id}
            else:
                holders.add(instance_id)
        else:
            self._drop_part(node, instance_id)

    def _mask(self, node: int, holders: set[int]) -> npt.NDArray[np.bool_]:
        """Which instances hold a node that many hold."""
        mask = self._masks.get(node)
        if mask is None:
            mask = self._masks[node] = np.zeros(self.num_instances, dtype=np.bool_)
            mask[list(holders)] = True
        return mask

    def _drop_part(self, node: int, instance_id: int) -> None:
        holders = self._part.get(node)
        if holders is not None:
            holders.discard(instance_id)
            if not holders:
                del self._part[node]

    def matched_tokens(self, path: tuple[int, ...], max_blocks: int) -> list[int]:
        """Leading tokens of a prompt that each instance holds.

        Args:
            path: nodes of the prompt, root first.
            max_blocks: blocks of the prompt that may be hit.
        """
        return self.told(self.match(path, max_blocks))

    def told(self, match: SparseMatch) -> list[int]:
        """A match instance by instance."""
        base, more = match
        matched = [base] * self.num_instances if isinstance(base, int) else base.tolist()
        for i, tokens in more.items():
            matched[i] = tokens
        return matched

    def match(self, path: tuple[int, ...], max_blocks: int) -> SparseMatch:
        """The same as `matched_tokens`, told in short."""
        size, num_instances = self.block_tokens, self.num_instances
        base: int | IntArray = 0
        more: dict[int, int] = {}
        alive: set[int] | None = None  # all
        for node in path:
            num_blocks = self.num_blocks[node]
            if not num_blocks:
                continue
            first = self.first_block[node]
            wanted = min(max_blocks - first, num_blocks)
            if wanted <= 0:
                break
            end = (first + wanted) * size
            part = self._part.get(node)
            if part is not None:
                for i in part if alive is None else part & alive:
                    more[i] = (first + min(self.leading[i][node], wanted)) * size
            whole = self._whole.get(node)
            if whole is None:
                break
            if alive is None:
                if len(whole) == num_instances:
                    base = end
                    continue
                alive = whole
                mask = self._masks.get(node)
                if mask is not None:
                    base = np.where(mask, end, base)
                    continue
            else:
                alive = alive & whole
                if not alive:
                    break
            for i in alive:
                more[i] = end
        return base, more
