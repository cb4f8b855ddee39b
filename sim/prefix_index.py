"""Which instances hold how much of each prefix-tree node, so that a router can match at once.

Kept up to date by `sim.prefix_index_cache` (what a cache hashes and loses) and, inside a run of
steps, by `sim.prefix_index_feed`. Here is only the bookkeeping.
"""

from sim.prefix_tree import BlockGeometry

_NOBODY: frozenset[int] = frozenset()


class PrefixIndex:
    """Leading cached blocks per node and instance.

    A match walks a path once, with the set of instances that hold all of it so far: it costs the
    nodes of the path plus the instances that hold them, not the product of nodes and instances.

    Args:
        num_instances: instances of the cluster.
        geometry: the prefix tree in blocks.

    Attributes:
        leading: per instance, the leading cached blocks of each node that has any. Whoever changes
            them calls `note`, at least where a node gets its first or its last block, or loses one
            of those.
    """

    def __init__(self, num_instances: int, geometry: BlockGeometry) -> None:
        self.num_instances = num_instances
        self.block_tokens = geometry.block_tokens
        self._first_block = geometry.first_block
        self._num_blocks = geometry.num_blocks
        self._whole: dict[int, set[int]] = {}
        self._part: dict[int, set[int]] = {}
        self.leading: list[dict[int, int]] = [{} for _ in range(num_instances)]
        self._everyone = frozenset(range(num_instances))

    def note(self, node: int, instance_id: int, num_leading: int) -> None:
        """An instance holds the first `num_leading` blocks of a node from now on, and not the next.

        Args:
            node: prefix-tree node.
            instance_id: the instance.
            num_leading: blocks, 0 to the blocks of the node.
        """
        if num_leading == self._num_blocks[node]:
            holders = self._whole.get(node)
            if holders is None:
                self._whole[node] = {instance_id}
            else:
                holders.add(instance_id)
            self._drop_part(node, instance_id)
            return
        holders = self._whole.get(node)
        if holders is not None:
            holders.discard(instance_id)
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
        size, everyone = self.block_tokens, self._everyone
        matched = [0] * self.num_instances
        alive: frozenset[int] | set[int] = everyone
        for node in path:
            num_blocks = self._num_blocks[node]
            if not num_blocks:
                continue
            first = self._first_block[node]
            wanted = min(max_blocks - first, num_blocks)
            if wanted <= 0:
                break
            end = (first + wanted) * size
            part = self._part.get(node)
            if part is not None:
                for i in part & alive:
                    matched[i] = (first + min(self.leading[i][node], wanted)) * size
            whole = self._whole.get(node, _NOBODY)
            if len(whole) == self.num_instances and alive is everyone:
                matched = [end] * self.num_instances
                continue
            alive = whole if alive is everyone else alive & whole
            if not alive:
                break
            for i in alive:
                matched[i] = end
        return matched
