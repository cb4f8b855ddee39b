"""The order in which the CTAs of a decode-attention layer read their tiles."""

import numpy as np
import numpy.typing as npt

from tests.l2_oracle.trees import TiledTree

IntArray = npt.NDArray[np.int64]


def reads_in_waves(
    tree: TiledTree,
    order: list[int],
    requests_per_wave: int,
    drift_tiles: int,
    rng: np.random.Generator,
) -> IntArray:
    """Tile numbers in the order of their reads.

    `requests_per_wave` requests start together and advance one tile per tick; the next wave starts
    when all of them are done. Each one lags by a time of its own, constant over the wave: up to
    `2 drift_tiles` ticks, and one for the random order within a tick.

    Args:
        tree: what the requests read.
        order: requests in the order in which they take slots.
        requests_per_wave: requests that run together.
        drift_tiles: mean lag, ticks.
        rng: source of the lags and of the order within a tick.
    """
    waves = []
    for first in range(0, len(order), requests_per_wave):
        tiles, ticks = [], []
        for request in order[first : first + requests_per_wave]:
            own = tree.tiles_of(tree.leaves[request])
            tiles.append(own)
            ticks.append(np.arange(len(own)) + rng.uniform(0, 2 * drift_tiles + 1))
        in_time = np.argsort(np.concatenate(ticks), kind="stable")
        waves.append(np.concatenate(tiles)[in_time])
    return np.concatenate(waves)
