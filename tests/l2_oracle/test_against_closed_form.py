"""The closed form of tree traffic against misses of a simulated LRU cache.

150 random trees in two member orders, with wave sizes, caches and drifts of their own. Errors are
those of M, relative; they are largest where a wave's unique bytes are close to the cache size.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pytest

from hwmodels.kernels.l2_curve import L2Curve
from hwmodels.kernels.prefix_batch import PrefixBatch
from hwmodels.kernels.tree_traffic import MemberOrder, tree_traffic
from tests.l2_oracle.cache import count_misses
from tests.l2_oracle.trees import TiledTree, random_tree
from tests.l2_oracle.waves import reads_in_waves

NUM_TREES = 150
TILE_BYTES = 2**16


class Setting(NamedTuple):
    requests_per_wave: int
    capacity_tiles: int
    drift_tiles: int


def random_setting(tree: TiledTree, rng: np.random.Generator) -> Setting:
    """A wave of three requests up to more than the batch; a cache of 8 % to 120 % of the tree."""
    unique = sum(tree.num_tiles)
    return Setting(
        requests_per_wave=int(rng.integers(3, max(5, int(tree.batch_size * 1.2)))),
        capacity_tiles=max(8, int(unique * np.exp(rng.uniform(np.log(0.08), np.log(1.2))))),
        drift_tiles=int(rng.integers(0, 5)),
    )


def closed_form_tiles(tree: TiledTree, setting: Setting, member_order: MemberOrder) -> float:
    """M in tiles, with a hit curve as steep as that of a cyclic scan under LRU."""
    curve = L2Curve(
        midpoint_bytes=setting.capacity_tiles * TILE_BYTES,
        log_width=0.02,
        l2_bytes_per_s=5e12,
        hbm_bytes_per_s=2e12,
    )
    members = tree.members().tolist()
    moved = tree_traffic(
        PrefixBatch.from_tree(tree.parents, tree.num_tiles, members),
        curve,
        token_bytes=TILE_BYTES,
        requests_per_wave=setting.requests_per_wave,
        drift_tokens=setting.drift_tiles + 1,  # one tile each for requests in step
        member_order=member_order,
    )
    return float(moved.hbm_bytes[0]) / TILE_BYTES


def errors(member_order: MemberOrder) -> npt.NDArray[np.float64]:
    found = []
    for seed in range(NUM_TREES):
        rng = np.random.default_rng(seed)
        tree = random_tree(rng)
        setting = random_setting(tree, rng)
        order = list(range(tree.batch_size))
        if member_order == "interleaved":
            rng.shuffle(order)
        reads = reads_in_waves(tree, order, setting.requests_per_wave, setting.drift_tiles, rng)
        misses = count_misses(reads.tolist(), setting.capacity_tiles)
        found.append(closed_form_tiles(tree, setting, member_order) / misses - 1.0)
    return np.array(found)


@pytest.mark.parametrize(
    ("member_order", "mean", "median", "ninth_decile"),
    [("contiguous", 0.03, 0.015, 0.09), ("interleaved", 0.065, 0.02, 0.2)],
)
def test_traffic_agrees_with_a_simulated_cache(
    member_order: MemberOrder, mean: float, median: float, ninth_decile: float
) -> None:
    found = errors(member_order)
    size = np.abs(found)
    assert size.mean() <= mean
    assert np.median(size) <= median
    assert np.quantile(size, 0.9) <= ninth_decile
    assert abs(found.mean()) <= 0.04


def test_the_simulated_cache_holds_what_was_read_last() -> None:
    assert count_misses([1, 2, 1, 3, 2, 1], capacity=2) == 5
    assert count_misses([0, 1, 2] * 10, capacity=3) == 3
    assert count_misses([0, 1, 2] * 10, capacity=2) == 30


def test_requests_in_step_read_each_tile_side_by_side() -> None:
    tree = TiledTree(parents=[-1, 0, 0], num_tiles=[3, 1, 1], leaves=[1, 2])
    reads = reads_in_waves(tree, [0, 1], 2, 0, np.random.default_rng(0)).tolist()
    assert reads[:6] == [0, 0, 1, 1, 2, 2]
    assert sorted(reads[6:]) == [3, 4]
    one_by_one = reads_in_waves(tree, [1, 0], 1, 0, np.random.default_rng(0)).tolist()
    assert one_by_one == [0, 1, 2, 4, 0, 1, 2, 3]
