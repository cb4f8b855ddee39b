"""Random prefix trees whose nodes are runs of cache tiles."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]

LARGEST_BATCH = 96


@dataclass(frozen=True)
class TiledTree:
    """A forest in which each request reads the nodes from a root down to its own private node.

    Attributes:
        parents: parent of each node, -1 for a root; parents come before children.
        num_tiles: tiles of each node.
        leaves: private node of each request, requests of one parent side by side.
    """

    parents: list[int]
    num_tiles: list[int]
    leaves: list[int]

    @property
    def batch_size(self) -> int:
        return len(self.leaves)

    def path(self, node: int) -> list[int]:
        nodes: list[int] = []
        while node >= 0:
            nodes.append(node)
            node = self.parents[node]
        return nodes[::-1]

    def members(self) -> IntArray:
        """Requests that read each node."""
        counts = np.zeros(len(self.parents), dtype=np.int64)
        for leaf in self.leaves:
            counts[self.path(leaf)] += 1
        return counts

    def tiles_of(self, leaf: int) -> IntArray:
        """Numbers of the tiles that a request reads, in the order in which it reads them."""
        starts = np.concatenate([[0], np.cumsum(self.num_tiles)])
        return np.concatenate([np.arange(starts[n], starts[n + 1]) for n in self.path(leaf)])


def random_tree(rng: np.random.Generator) -> TiledTree:
    """One to four levels, one to eight roots, unequal families, up to `LARGEST_BATCH` requests."""
    parents: list[int] = []
    tiles: list[int] = []
    level = [-1]
    for depth in range(int(rng.integers(1, 4))):
        below: list[int] = []
        for above in level:
            for _ in range(int(rng.integers(1, 9 if depth == 0 else 4))):
                below.append(len(parents))
                parents.append(above)
                tiles.append(int(np.exp(rng.uniform(np.log(4), np.log(200)))))
        level = below
    leaves: list[int] = []
    heaviness = rng.dirichlet(np.full(len(level), rng.choice([0.5, 2.0, 50.0])))
    batch_size = int(rng.integers(len(level) + 1, max(LARGEST_BATCH, len(level) + 2)))
    for above, share in zip(level, heaviness, strict=True):
        for _ in range(max(1, round(share * batch_size))):
            leaves.append(len(parents))
            parents.append(above)
            tiles.append(int(rng.integers(1, 24)))
    return TiledTree(parents, tiles, leaves)
