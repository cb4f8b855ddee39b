"""Differences between policies: by hand, against scipy, and how often verdicts err."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from experiments.stats.differences import (
    Difference,
    holm,
    paired_difference,
    welch_difference,
)
from experiments.stats.directions import direction_of, unit_of


def test_a_paired_difference_by_hand() -> None:
    """Differences -1, -2, -3: mean -2, standard error 1/sqrt(3), t(2) at 97.5 % = 4.30265."""
    found = paired_difference([9.0, 18.0, 27.0], [10.0, 20.0, 30.0])
    reach = 4.302653 / 3**0.5
    assert found.difference == pytest.approx(-2.0)
    assert (found.low, found.high) == pytest.approx((-2.0 - reach, -2.0 + reach), rel=1e-6)
    assert found.relative == pytest.approx(-0.1)
    assert (found.num_values, found.method) == (3, "paired")


def test_p_values_are_those_of_scipy() -> None:
    rng = np.random.default_rng(4)
    ours, theirs = rng.normal(1.0, 1.0, 6), rng.normal(0.0, 3.0, 9)
    welch = stats.ttest_ind(ours, theirs, equal_var=False)
    found = welch_difference(ours, theirs)
    assert found.p_value == pytest.approx(welch.pvalue)
    assert found.freedom == pytest.approx(welch.df)
    bounds = welch.confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((bounds.low, bounds.high))
    paired = stats.ttest_rel(ours, theirs[:6])
    assert paired_difference(ours, theirs[:6]).p_value == pytest.approx(paired.pvalue)


def test_one_pair_has_a_difference_and_no_verdict() -> None:
    found = paired_difference([1.0], [2.0])
    assert found.difference == -1.0
    assert found.verdict("lower", 0.05) == "one run"


def test_an_absent_figure_has_no_difference() -> None:
    found = paired_difference([np.nan, 1.0], [1.0, 2.0])
    assert found.verdict("lower", 0.05) == "absent"
    assert welch_difference([], [1.0]).verdict("lower", 0.05) == "absent"


def test_equal_figures_are_not_distinguishable() -> None:
    found = paired_difference([1.0, 2.0, 3.0], [1.0, 2.0, 3.0])
    assert (found.difference, found.p_value) == (0.0, 1.0)
    assert found.verdict("lower", 0.05) == "not distinguishable"


def test_a_constant_difference_is_certain() -> None:
    found = paired_difference([2.0, 3.0], [1.0, 2.0])
    assert (found.low, found.high, found.p_value) == (1.0, 1.0, 0.0)


@pytest.mark.parametrize(
    ("sign", "direction", "verdict"),
    [
        (1, "higher", "better"),
        (-1, "higher", "worse"),
        (1, "lower", "worse"),
        (-1, "lower", "better"),
        (1, None, "higher"),
        (-1, None, "lower"),
    ],
)
def test_verdicts_follow_the_direction_of_the_metric(
    sign: int, direction: str | None, verdict: str
) -> None:
    found = paired_difference(sign * np.array([1.0, 1.1, 0.9]), [0.0, 0.0, 0.0])
    assert found.verdict(direction, 0.05) == verdict  # type: ignore[arg-type]


def test_a_baseline_of_zero_has_no_relative_difference() -> None:
    assert np.isnan(paired_difference([1.0, 2.0], [0.0, 0.0]).relative)


def test_pairs_on_common_random_numbers_see_what_welch_does_not() -> None:
    """A shift of 1 under common noise of 10 and own noise of 0.5, five runs each: the paired test
    has the power of the noncentral t with the common noise gone; Welch's has next to none."""
    rng = np.random.default_rng(5)
    num_trials = 400
    found = {"paired": 0, "welch": 0}
    for _ in range(num_trials):
        common = rng.normal(100.0, 10.0, 5)
        theirs = common + rng.normal(0.0, 0.5, 5)
        ours = common + 1.0 + rng.normal(0.0, 0.5, 5)
        found["paired"] += paired_difference(ours, theirs).p_value <= 0.05
        found["welch"] += welch_difference(ours, theirs).p_value <= 0.05
    shift = 1.0 / (0.5 * 2**0.5 / 5**0.5)
    power = stats.nct.sf(stats.t.isf(0.025, 4), 4, shift)
    assert found["paired"] / num_trials == pytest.approx(power, abs=4 * (0.25 / num_trials) ** 0.5)
    assert found["welch"] < 0.05 * num_trials


def test_welch_errs_as_often_as_it_says_with_unequal_variances() -> None:
    rng = np.random.default_rng(6)
    wrong = [
        welch_difference(rng.normal(0, 1, 5), rng.normal(0, 4, 8)).p_value <= 0.05
        for _ in range(3_000)
    ]
    assert np.mean(wrong) == pytest.approx(0.05, abs=0.015)


def with_p_values(*p_values: float) -> list[Difference]:
    """Differences of 10 degrees of freedom and standard error 1 that have these p-values."""
    model = paired_difference([1.0, 2.0], [0.0, 0.0])
    return [
        replace(
            model,
            difference=float(stats.t.isf(p / 2, 10)),
            standard_error=1.0,
            freedom=10,
            p_value=p,
        )
        for p in p_values
    ]


def test_holm_multiplies_by_the_number_of_policies_left() -> None:
    found = holm(with_p_values(0.04, 0.01, 0.03))
    assert [one.p_value for one in found] == pytest.approx([0.06, 0.03, 0.06])


def test_holm_intervals_leave_out_zero_exactly_where_the_verdict_says_so() -> None:
    rng = np.random.default_rng(7)
    for _ in range(200):
        found = holm(with_p_values(*rng.beta(0.3, 3.0, size=5)))
        for one in found:
            leaves_out_zero = one.low > 0 or one.high < 0
            assert leaves_out_zero == (one.p_value <= 0.05)


def test_holm_keeps_the_risk_of_any_wrong_verdict() -> None:
    """Four policies that equal the baseline: uncorrected, one of them looks different in about
    14 % of studies (the tests share the baseline); corrected, in at most 5 %."""
    rng = np.random.default_rng(8)
    plain = corrected = 0
    for _ in range(1_500):
        baseline = rng.normal(size=10)
        found = [welch_difference(rng.normal(size=10), baseline) for _ in range(4)]
        plain += any(one.p_value <= 0.05 for one in found)
        corrected += any(one.p_value <= 0.05 for one in holm(found))
    assert plain / 1_500 > 0.1
    assert corrected / 1_500 < 0.065


def test_holm_leaves_what_could_not_be_tested() -> None:
    lone = paired_difference([1.0], [2.0])
    (first, second) = holm([lone, *with_p_values(0.01)])
    assert first == lone
    assert second.p_value == pytest.approx(0.01)


@pytest.mark.parametrize(
    ("metric", "direction", "unit"),
    [
        ("ttft_p99_s", "lower", "s"),
        ("queue_mean_s", "lower", "s"),
        ("makespan_s", "lower", "s"),
        ("num_preemptions", "lower", "preemptions"),
        ("load_imbalance_ratio", "lower", "ratio"),
        ("goodput_per_s", "higher", "requests/s"),
        ("output_tokens_per_s", "higher", "tokens/s"),
        ("slo_attainment_ratio", "higher", "ratio"),
        ("prefix_hit_ratio", "higher", "ratio"),
        ("hbm_bytes", None, "bytes"),
        ("num_gpu_blocks", None, "blocks"),
        ("mean_batch_size", None, "requests"),
        ("num_requests", None, "requests"),
    ],
)
def test_metrics_have_a_direction_and_a_unit(metric: str, direction: str | None, unit: str) -> None:
    assert direction_of(metric) == direction
    assert unit_of(metric) == unit
