"""Differences that count only beyond what a placebo makes."""

import numpy as np
import pytest

from experiments.composing import compose_config
from experiments.schema.job import read_job
from experiments.stats.noise_floor import (
    GuardedDifference,
    Placebo,
    guarded_difference,
    noise_floor,
    tie_shift_override,
    trace_windows,
    unit_differences,
    unit_interval,
    window_override,
)
from sim.errors import ConfigError
from tests.conftest import TINY

SEEDS = range(12)


def by_seed(values: list[float]) -> dict[int, float]:
    return dict(zip(SEEDS, values, strict=True))


NOISE = [0.3, -0.2, 0.1, -0.3, 0.2, 0.0, 0.1, -0.1, 0.3, -0.2, 0.1, -0.3]
BASE = by_seed([10.0 + seed for seed in SEEDS])


def shifted_by(change: float, scale: float) -> dict[int, float]:
    return {seed: BASE[seed] + change + scale * NOISE[seed] for seed in SEEDS}


def test_units_are_compared_one_by_one_in_the_policys_order() -> None:
    ours = {("a", 0): 5.0, ("b", 0): 7.0, ("c", 0): 1.0}
    theirs = {("c", 0): 2.0, ("a", 0): 4.0}
    assert unit_differences(ours, theirs).tolist() == [1.0, -1.0]
    with pytest.raises(ConfigError, match="no seed and no window is common"):
        unit_differences({0: 1.0}, {1: 1.0})


def test_of_few_units_the_wider_interval_counts() -> None:
    """t(2) at 97.5 % = 4.302653; a bootstrap cannot leave the values' own range."""
    few = unit_interval([1.0, 2.0, 3.0])
    reach = 4.302653 / 3**0.5
    assert (few.low, few.high) == pytest.approx((2 - reach, 2 + reach))
    many = unit_interval(NOISE)
    assert -0.3 < many.low < np.mean(NOISE) < many.high < 0.3
    assert unit_interval(NOISE) == many


def test_a_floor_is_the_farthest_reach_of_any_placebo() -> None:
    small, large = (Placebo(plain=BASE, shifted=shifted_by(0.0, k)) for k in (1.0, -4.0))
    ends = unit_interval([-4 * noise for noise in NOISE])
    reach = max(-ends.low, ends.high)
    assert noise_floor([small, large]) == pytest.approx(reach, rel=0.1)  # resampled
    assert noise_floor([small]) < noise_floor([small, large])
    below = unit_interval([-1 + noise for noise in NOISE])
    assert noise_floor([Placebo(plain=BASE, shifted=shifted_by(-1.0, 1.0))]) == pytest.approx(
        -below.low, rel=0.1
    )
    assert noise_floor([Placebo(plain=BASE, shifted=BASE)]) == 0.0
    assert noise_floor([Placebo(plain={0: 3.0}, shifted={0: 1.0})]) == 2.0
    assert np.isnan(noise_floor([]))


def test_a_verdict_needs_the_interval_beyond_the_floor() -> None:
    policy = shifted_by(-0.5, 1.0)
    calm = Placebo(plain=BASE, shifted=shifted_by(0.0, 0.1))
    wild = Placebo(plain=BASE, shifted=shifted_by(0.0, 10.0))
    assert guarded_difference(policy, BASE, [calm]).verdict("lower") == "better"
    assert guarded_difference(policy, BASE, [calm]).verdict("higher") == "worse"
    assert guarded_difference(policy, BASE, [calm]).verdict(None) == "lower"
    assert guarded_difference(policy, BASE, [calm, wild]).verdict("lower") == "within noise"
    assert guarded_difference(policy, BASE).verdict("lower") == "better"
    flat = guarded_difference(shifted_by(0.0, 1.0), BASE, [calm])
    assert flat.verdict("lower") == "not distinguishable"


def test_a_lone_unit_or_an_absent_figure_gives_no_verdict() -> None:
    lone = guarded_difference({0: 3.0}, {0: 2.0}, [Placebo(plain={0: 2.0}, shifted={0: 2.0})])
    assert lone.verdict("lower") == "one unit"
    assert (lone.difference.mean, lone.relative) == (1.0, 0.5)
    absent = guarded_difference({0: np.nan, 1: 1.0}, {0: 2.0, 1: 2.0})
    assert absent.verdict("lower") == "absent"
    unknown = guarded_difference(
        shifted_by(-0.5, 1.0), BASE, [Placebo(plain={0: 1.0}, shifted={0: np.nan})]
    )
    assert isinstance(unknown, GuardedDifference)
    assert np.isnan(unknown.noise_floor)


def test_windows_cut_a_trace_without_gaps() -> None:
    windows = trace_windows(0.0, 10.0, 4)
    assert windows == [(0.0, 2.5), (2.5, 5.0), (5.0, 7.5), (7.5, 10.0)]
    with pytest.raises(ConfigError, match="no windows: 0 from 0 s to 10 s"):
        trace_windows(0.0, 10.0, 0)


def test_overrides_reach_the_job() -> None:
    window = trace_windows(0.0, 1.0, 3)[1]
    overrides = [*TINY, window_override(window), tie_shift_override(2)]
    job = read_job(compose_config(overrides)[0])
    assert job.trace_options.window_s == window
    assert job.routing_options.tie_shift == 2
