"""A fully associative cache of tiles with least-recently-used replacement."""

from collections import OrderedDict
from collections.abc import Iterable


def count_misses(tiles: Iterable[int], capacity: int) -> int:
    """Misses of a sequence of tile reads on a cache that is empty at first."""
    held: OrderedDict[int, None] = OrderedDict()
    misses = 0
    for tile in tiles:
        if tile in held:
            held.move_to_end(tile)
            continue
        misses += 1
        held[tile] = None
        if len(held) > capacity:
            held.popitem(last=False)
    return misses
