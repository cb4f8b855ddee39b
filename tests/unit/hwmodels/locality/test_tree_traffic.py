"""Bytes from HBM: numbers by hand, and rules over random trees."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hwmodels.kernels.l2_curve import L2Curve
from hwmodels.kernels.prefix_batch import PrefixBatch
from hwmodels.kernels.tree_traffic import MemberOrder, TreeTraffic, tree_traffic, waves_with_node
from sim.errors import ConfigError
from tests.l2_oracle.trees import TiledTree, random_tree
from tests.unit.hwmodels.locality.devices import A100_L2, ADA_L2, H200_L2

ORDERS: tuple[MemberOrder, ...] = ("contiguous", "interleaved")
ONE_BYTE: dict[str, Any] = {"token_bytes": 1.0, "requests_per_wave": 2.0, "drift_tokens": 55.0}


def curve(midpoint_bytes: float, log_width: float = 0.5) -> L2Curve:
    return L2Curve(
        midpoint_bytes=midpoint_bytes,
        log_width=log_width,
        l2_bytes_per_s=4e12,
        hbm_bytes_per_s=1e12,
    )


# -- by hand -------------------------------------------------------------------------------------


def test_four_requests_in_two_waves_by_hand() -> None:
    batch = PrefixBatch.from_levels([1, 4], [100, 10])
    moved = tree_traffic(batch, curve(120), member_order="contiguous", **ONE_BYTE)
    assert moved.logical_bytes == [440.0]
    assert moved.unique_bytes == [140.0]
    # Root in both waves, two leaves in each: 100 + 20 bytes per wave, so h_cross = 1/2. Requests
    # run 55 of 110 tokens apart: 60 bytes live at a time, (60 / 120)^2 = 1/4, h_in = 4/5.
    assert moved.wave_bytes == pytest.approx([120.0], rel=1e-14)
    # 140 once, the root once more in the second wave, and two more requests within the waves.
    assert moved.hbm_bytes == pytest.approx([140 + 100 * 1 / 2 + 2 * 100 * 1 / 5], rel=1e-14)
    assert moved.l2_hit_ratio == pytest.approx([1 - 230 / 440], rel=1e-14)


def test_each_step_adds_one_token_per_request_by_hand() -> None:
    batch = PrefixBatch.from_levels([1, 4], [100, 10])
    moved = tree_traffic(batch, curve(120), member_order="contiguous", num_steps=11, **ONE_BYTE)
    assert moved.logical_bytes[10] == 480.0
    assert moved.unique_bytes[10] == 180.0
    assert moved.wave_bytes[10] == pytest.approx(140.0)
    across, within = (140 / 120) ** 2, (140 * 55 / 120 / 120) ** 2
    again = 100 * across / (1 + across) + 200 * within / (1 + within)
    assert moved.hbm_bytes[10] == pytest.approx(180 + again, rel=1e-13)


@pytest.mark.parametrize(
    ("members", "waves", "together", "contiguous", "interleaved"),
    [
        (1, 4, 2, 1.0, 1.0),
        (4, 4, 2, 2.5, 4 * (1 - 0.75**4)),
        (8, 4, 2, 4.0, 4.0),  # all requests: every wave
        (8, 1, 9, 1.0, 1.0),
        (3, 8, 1, 3.0, 3.0),  # one request per wave
    ],
)
def test_waves_that_read_a_node(
    members: int, waves: int, together: int, contiguous: float, interleaved: float
) -> None:
    found = [float(waves_with_node(members, waves, together, order)) for order in ORDERS]
    assert found == pytest.approx([contiguous, interleaved], rel=1e-12)


def test_a_whole_number_of_waves_is_not_rounded_up() -> None:
    batch = PrefixBatch.from_levels([1, 44], [100, 10])
    # 132 slots and 45 thread blocks per request: exactly 15 waves, though 44 / (132 / 45) > 15.
    moved = tree_traffic(
        batch, curve(120), token_bytes=1.0, requests_per_wave=132 / 45, drift_tokens=128.0
    )
    assert moved.wave_bytes == pytest.approx([100 + 440 / 15], rel=1e-12)


def test_a_wave_that_is_not_full_is_a_wave() -> None:
    batch = PrefixBatch.from_levels([1, 5], [100, 10])
    moved = tree_traffic(batch, curve(1e9), member_order="contiguous", **ONE_BYTE)
    assert moved.wave_bytes == pytest.approx([100 + 50 / 3], rel=1e-12)


def test_within_a_wave_no_more_is_live_than_its_unique_bytes() -> None:
    batch = PrefixBatch.from_levels([1, 4], [100, 10])
    options = ONE_BYTE | {"drift_tokens": 1e6}
    moved = tree_traffic(batch, curve(120), member_order="contiguous", **options)
    assert moved.hbm_bytes == pytest.approx([140 + 100 * 1 / 2 + 2 * 100 * 1 / 2], rel=1e-14)


def test_a_request_that_needs_more_than_a_wave_counts_as_one_per_wave() -> None:
    batch = PrefixBatch.from_levels([1, 4], [100, 10])
    options: dict[str, Any] = {"token_bytes": 1.0, "drift_tokens": 1.0}
    found = [
        tree_traffic(batch, curve(120), requests_per_wave=size, **options).hbm_bytes[0]
        for size in (0.25, 1.0)
    ]
    assert found[0] == found[1]


def test_an_unknown_order_is_one_line() -> None:
    with pytest.raises(ConfigError, match="unknown member_order 'sorted'; allowed: interleaved, c"):
        waves_with_node(1, 1, 1, "sorted")  # type: ignore[arg-type]


# -- rules ---------------------------------------------------------------------------------------

CURVES = [A100_L2, H200_L2, ADA_L2, curve(1.0), curve(1e12)]


class Case:
    """A random tree on a random GPU."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.tree: TiledTree = random_tree(rng)
        self.l2 = CURVES[seed % len(CURVES)]
        self.options: dict[str, Any] = {
            "token_bytes": float(rng.choice([512, 4096, 16384]) * 16),
            "requests_per_wave": float(rng.uniform(1, 80)),
            "drift_tokens": float(rng.uniform(1, 200)),
        }

    @property
    def batch(self) -> PrefixBatch:
        tree = self.tree
        return PrefixBatch.from_tree(tree.parents, tree.num_tiles, tree.members().tolist())

    def moved(self, order: MemberOrder, **changes: Any) -> TreeTraffic:
        batch, l2 = changes.pop("batch", self.batch), changes.pop("l2", self.l2)
        return tree_traffic(batch, l2, member_order=order, **(self.options | changes))


CASES = st.integers(0, 10**6).map(Case)
many = settings(max_examples=80, deadline=None)


@many
@given(CASES, st.sampled_from(ORDERS))
def test_traffic_lies_between_unique_and_logical_bytes(case: Case, order: MemberOrder) -> None:
    moved = case.moved(order, num_steps=40)
    assert (moved.unique_bytes <= moved.hbm_bytes * (1 + 1e-12)).all()
    assert (moved.hbm_bytes <= moved.logical_bytes * (1 + 1e-12)).all()
    assert (moved.wave_bytes <= moved.unique_bytes * (1 + 1e-12)).all()


@many
@given(CASES)
def test_prefix_by_prefix_never_moves_more_than_mixed(case: Case) -> None:
    contiguous, interleaved = (case.moved(order).hbm_bytes[0] for order in ORDERS)
    assert contiguous <= interleaved * (1 + 1e-12)


@many
@given(CASES, st.sampled_from(ORDERS))
def test_without_sharing_every_byte_comes_from_hbm_once(case: Case, order: MemberOrder) -> None:
    contexts = case.tree.num_tiles
    batch = PrefixBatch.from_tree([-1] * len(contexts), contexts, [1] * len(contexts))
    moved = case.moved(order, batch=batch, num_steps=3)
    assert moved.hbm_bytes == pytest.approx(moved.logical_bytes, rel=1e-12)
    assert moved.hbm_bytes == pytest.approx(moved.unique_bytes, rel=1e-12)


@many
@given(CASES, st.sampled_from(ORDERS))
def test_in_a_huge_cache_only_unique_bytes_come_from_hbm(case: Case, order: MemberOrder) -> None:
    moved = case.moved(order, l2=curve(1e17, log_width=0.1))
    assert moved.hbm_bytes == pytest.approx(moved.unique_bytes, rel=1e-9)


@many
@given(CASES, st.sampled_from(ORDERS))
def test_a_larger_cache_never_moves_more(case: Case, order: MemberOrder) -> None:
    midpoints = np.geomspace(1e4, 1e11, 12)
    found = [case.moved(order, l2=curve(float(m))).hbm_bytes[0] for m in midpoints]
    assert (np.diff(found) <= np.array(found[1:]) * 1e-12).all()


@many
@given(CASES, st.sampled_from(ORDERS))
def test_requests_further_apart_never_move_less(case: Case, order: MemberOrder) -> None:
    found = [case.moved(order, drift_tokens=d).hbm_bytes[0] for d in (0, 1, 10, 100, 1000, 10**5)]
    assert (np.diff(found) >= -1e-12 * np.array(found[1:])).all()


@many
@given(CASES, st.sampled_from(ORDERS), st.integers(0, 10**6))
def test_more_members_of_a_node_never_move_less(case: Case, order: MemberOrder, which: int) -> None:
    batch = case.batch
    members = batch.members.copy()
    members[which % len(members)] += 1
    members = np.minimum(members, batch.batch_size)
    more = PrefixBatch(
        batch_size=batch.batch_size,
        members=members,
        tokens=batch.tokens,
        context_tokens_max=batch.context_tokens_max,
        sum_squares=batch.sum_squares,
        num_partials=batch.num_partials,
    )
    fewer_bytes = case.moved(order, drift_tokens=1e6).hbm_bytes[0]
    assert case.moved(order, batch=more, drift_tokens=1e6).hbm_bytes[0] >= fewer_bytes * (1 - 1e-12)


@many
@given(CASES, st.sampled_from(ORDERS), st.integers(0, 10**6))
def test_one_more_request_never_moves_less_unless_it_opens_a_wave(
    case: Case, order: MemberOrder, which: int
) -> None:
    tree, per_wave = case.tree, case.options["requests_per_wave"]
    num_waves = [np.ceil((tree.batch_size + more) / per_wave) for more in (0, 1)]
    if num_waves[0] != num_waves[1]:
        return
    leaf = tree.leaves[which % len(tree.leaves)]
    larger = TiledTree(
        [*tree.parents, tree.parents[leaf]],
        [*tree.num_tiles, tree.num_tiles[leaf]],
        [*tree.leaves, len(tree.parents)],
    )
    batch = PrefixBatch.from_tree(larger.parents, larger.num_tiles, larger.members().tolist())
    # The live bytes are those of the mean context, which the request changes: far apart here.
    found = [case.moved(order, batch=b, drift_tokens=1e6).hbm_bytes[0] for b in (case.batch, batch)]
    assert found[1] >= found[0] * (1 - 1e-12)


@many
@given(CASES, st.sampled_from(ORDERS))
def test_traffic_grows_from_step_to_step(case: Case, order: MemberOrder) -> None:
    found = case.moved(order, drift_tokens=1e6, num_steps=60).hbm_bytes
    assert (np.diff(found) > 0).all()
