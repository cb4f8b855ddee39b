"""Interpolation of factors between scattered points."""

import math

import numpy as np
import pytest

from hwmodels.tables.nodes import FADED, REACH
from hwmodels.tables.residuals import APART, Residuals

SQUARE = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
FACTORS = np.array([0.5, 1.0, 1.25, 2.0])


def one(residuals: Residuals, *place: float) -> float:
    return float(residuals.factor(np.array([place]))[0])


def test_a_measured_point_has_its_own_factor() -> None:
    found = Residuals(SQUARE, FACTORS).factor(SQUARE)
    assert found.tolist() == pytest.approx(FACTORS.tolist(), rel=1e-15)


def test_two_points_are_weighted_by_their_distances_and_that_of_the_next() -> None:
    line = np.array([[0.0], [0.9], [2.9]])
    # At 0.3 the neighbours are 0.3 and 0.6 away, the first one left out 2.6.
    near, far = ((2.6 - d) / (2.6 * d) for d in (0.3, 0.6))
    logs = (near**2 * math.log(0.5) + far**2 * math.log(2.0)) / (near**2 + far**2)
    found = one(Residuals(line, np.array([0.5, 2.0, 9.0])), 0.3)
    assert found == pytest.approx(math.exp(logs), rel=1e-12)


def test_in_the_middle_of_equally_far_points_stands_their_mean() -> None:
    mean = math.exp(np.log(FACTORS).mean())
    one_more = np.concatenate([SQUARE, [[4.0, 4.0]]])
    found = one(Residuals(one_more, np.append(FACTORS, 3.0)), 0.5, 0.5)
    assert found == pytest.approx(mean, rel=1e-12)


def test_between_points_the_factor_stays_between_theirs() -> None:
    places = np.random.default_rng(0).uniform(-1.5, 2.5, (500, 2))
    found = Residuals(SQUARE, FACTORS).factor(places)
    assert found.min() >= FACTORS.min()
    assert found.max() <= FACTORS.max()


def test_far_away_there_is_no_factor_and_it_fades_without_a_jump() -> None:
    residuals = Residuals(np.array([[0.0]]), np.array([0.5]))
    assert one(residuals, REACH) == pytest.approx(0.5, rel=1e-15)
    assert one(residuals, (REACH + FADED) / 2) == pytest.approx(math.sqrt(0.5), rel=1e-12)
    assert one(residuals, FADED) == 1.0
    assert one(residuals, -5.0) == 1.0


def test_a_coarse_grid_speaks_for_what_is_between_its_points_and_an_octave_beside_them() -> None:
    grid = np.array([[0.0, 0.0], [0.0, 3.0], [0.0, 6.0]])
    residuals = Residuals(grid, np.full(3, 0.5))
    assert one(residuals, 0.0, 4.5) == pytest.approx(0.5, rel=1e-15)
    assert one(residuals, 0.0, 7.0) == pytest.approx(0.5, rel=1e-15)
    assert one(residuals, 0.0, 8.0) == 1.0
    assert one(residuals, 2.0, 3.0) == 1.0
    assert residuals.covers(np.array([[0.0, 4.5], [0.0, 7.1]])).tolist() == [True, False]


def test_kinds_that_lie_apart_never_mix() -> None:
    grid = np.array([[0.0, 0.0], [0.0, APART]])
    residuals = Residuals(grid, np.array([0.5, 2.0]))
    assert residuals.factor(grid).tolist() == pytest.approx([0.5, 2.0], rel=1e-15)
    assert one(residuals, 0.0, APART / 2) == 1.0


def test_neighbours_that_come_and_go_make_no_jump() -> None:
    rng = np.random.default_rng(1)
    residuals = Residuals(rng.uniform(0, 4, (60, 3)), np.exp(rng.normal(0, 0.2, 60)))
    start, end = np.array([0.5, 1.0, 3.0]), np.array([3.5, 2.5, 0.7])
    path = start + np.linspace(0, 1, 40_001)[:, None] * (end - start)
    steps = np.abs(np.diff(np.log(residuals.factor(path))))
    assert steps.max() < 1e-3  # the path takes 40,000 steps over some 5 octaves


def test_along_an_axis_of_choice_factors_are_linear_between_the_values_measured() -> None:
    axis, other = np.meshgrid([0.0, 1.0, 4.0], np.arange(0, 1, 0.1), indexing="ij")
    grid = np.stack([axis.ravel(), other.ravel()], axis=1)
    by_value = np.select([grid[:, 0] == 0, grid[:, 0] == 1], [0.5, 1.5], 2.0)
    residuals = Residuals(grid, by_value, along=0)
    assert one(residuals, 0.0, 0.37) == pytest.approx(0.5, rel=1e-12)
    assert one(residuals, 0.25, 0.37) == pytest.approx(0.75, rel=1e-12)
    assert one(residuals, 0.7, 0.37) == pytest.approx(1.2, rel=1e-12)
    assert one(residuals, -1.5, 0.37) == pytest.approx((0.5 + 1.0) / 2, rel=1e-12)
    assert one(residuals, -7.0, 0.37) == 1.0
    scattered = Residuals(grid, by_value)
    assert one(scattered, 0.25, 0.37) == pytest.approx(0.5, rel=1e-12), "all neighbours at 0"


def test_covered_is_what_lies_within_reach() -> None:
    residuals = Residuals(SQUARE, FACTORS)
    places = np.array([[0.5, 0.5], [2.0, 1.0], [2.01, 1.0], [9.0, 9.0]])
    assert residuals.covers(places).tolist() == [True, True, False, False]


def test_the_order_of_the_points_does_not_matter() -> None:
    rng = np.random.default_rng(2)
    places, asked = rng.integers(0, 5, (200, 4)) / 2, rng.integers(0, 9, (300, 4)) / 4
    distinct = np.unique(places, axis=0)
    factors = np.exp(rng.normal(0, 0.2, len(distinct)))
    order = rng.permutation(len(distinct))
    forward, shuffled = Residuals(distinct, factors), Residuals(distinct[order], factors[order])
    assert forward.factor(asked).tolist() == shuffled.factor(asked).tolist()


def test_one_place_alone_is_as_among_many() -> None:
    rng = np.random.default_rng(3)
    residuals = Residuals(rng.uniform(0, 4, (60, 5)), np.exp(rng.normal(0, 0.2, 60)))
    places = rng.uniform(-1, 5, (50, 5))
    assert residuals.factor(places).tolist() == [one(residuals, *place) for place in places]
