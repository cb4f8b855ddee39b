"""Intervals of means, against tables and against their own promise."""

import numpy as np
import pytest
from scipy import stats

from experiments.stats.intervals import Interval, mean_interval
from sim.errors import ConfigError

NUM_TRIALS = 4_000


def test_the_t_interval_of_four_values_by_hand() -> None:
    """Mean 2.5, standard deviation sqrt(5/3), t(3) at 97.5 % = 3.18245."""
    found = mean_interval([1.0, 2.0, 3.0, 4.0])
    reach = 3.182446 * (5 / 3) ** 0.5 / 2
    assert found.mean == 2.5
    assert found.low == pytest.approx(2.5 - reach, rel=1e-6)
    assert found.high == pytest.approx(2.5 + reach, rel=1e-6)
    assert found.half_width == pytest.approx(reach, rel=1e-6)
    assert found.num_values == 4


def test_the_level_widens_the_interval() -> None:
    low, high = stats.t.interval(0.99, 2, loc=3.0, scale=2.0 / 3**0.5)
    found = mean_interval([1.0, 3.0, 5.0], level=0.99)
    assert (found.low, found.high) == pytest.approx((low, high))


def test_one_value_has_a_mean_and_no_interval() -> None:
    found = mean_interval([7.0])
    assert found.mean == 7.0
    assert not found.is_bounded
    assert np.isnan(found.half_width)


def test_no_value_or_an_absent_one_has_no_mean() -> None:
    assert np.isnan(mean_interval([]).mean)
    absent = mean_interval([1.0, np.nan])
    assert np.isnan(absent.mean)
    assert absent.num_values == 2


@pytest.mark.parametrize("method", ["t", "bootstrap", "percentile"])
def test_equal_values_have_an_interval_of_no_width(method: str) -> None:
    assert mean_interval([0.1, 0.1, 0.1], method=method) == Interval(0.1, 0.1, 0.1, 3)


def test_the_t_interval_covers_the_mean_of_normals_as_often_as_it_says() -> None:
    """4,000 samples of 5: 95 % with a standard error of 0.34 %."""
    samples = np.random.default_rng(1).normal(10.0, 3.0, size=(NUM_TRIALS, 5))
    found = [mean_interval(sample) for sample in samples]
    covered = np.mean([one.low <= 10.0 <= one.high for one in found])
    assert covered == pytest.approx(0.95, abs=4 * 0.0034)


def test_the_bca_bootstrap_of_skewed_data_leans_to_the_long_tail() -> None:
    """Lognormal values: the upper bound is farther from the mean than the lower one, and more so
    than with plain percentiles; t is symmetric."""
    sample = np.random.default_rng(2).lognormal(0.0, 1.2, size=30)

    def lean(method: str) -> float:
        found = mean_interval(sample, method=method)
        return (found.high - found.mean) / (found.mean - found.low)

    assert lean("bootstrap") > lean("percentile") > 1.1
    assert lean("t") == pytest.approx(1.0)


def test_the_bootstrap_of_much_normal_data_agrees_with_t() -> None:
    sample = np.random.default_rng(3).normal(5.0, 1.0, size=400)
    exact = mean_interval(sample)
    for method in ("bootstrap", "percentile"):
        found = mean_interval(sample, method=method)
        assert found.low == pytest.approx(exact.low, abs=0.01)
        assert found.high == pytest.approx(exact.high, abs=0.01)


def test_the_bootstrap_gives_the_same_interval_every_time() -> None:
    sample = [1.0, 2.0, 4.0, 8.0]
    found = [mean_interval(sample, method="bootstrap") for _ in range(2)]
    assert found[0] == found[1]


@pytest.mark.parametrize("level", [0.0, 1.0, 95.0, float("nan")])
def test_a_level_that_is_none_is_refused(level: float) -> None:
    with pytest.raises(ConfigError, match="must lie between 0 and 1"):
        mean_interval([1.0, 2.0], level=level)


def test_an_unknown_method_is_refused() -> None:
    with pytest.raises(ConfigError, match="unknown interval 'z': must be one of t, bootstrap"):
        mean_interval([1.0, 2.0], method="z")
