"""Steady throughput of a flood, and verdicts told with enough digits, on cases done by hand."""

import numpy as np
import pytest

from experiments.capacity.criterion import Criterion
from experiments.capacity.steady import FloatArray, SteadyRate, steady_rate

NAN = float("nan")


def test_one_server_with_fixed_service_has_its_service_rate() -> None:
    finish_s = 0.25 * np.arange(1.0, 101.0)
    assert steady_rate(finish_s - 0.25, finish_s) == SteadyRate(4.0, does_drain_dominate=False)


def test_the_window_is_from_a_tenth_of_the_finishes_to_the_last_admission() -> None:
    # Ten places, refilled as they empty: the first finish at 1, the last admission at 11, and the
    # ten that then run drain until 1,000.
    finish_s = np.array([*range(1, 12), *np.linspace(20, 1000, 9)], dtype=float)
    admitted_s = np.array([*[0.0] * 10, *range(2, 12)], dtype=float)
    # 20 requests: 10 % have finished at 2; nine finish from then to 11.
    assert steady_rate(admitted_s, finish_s) == SteadyRate(1.0, does_drain_dominate=False)
    assert steady_rate(admitted_s[::-1], finish_s[::-1]).rate_per_s == 1.0


def test_batches_that_end_together_count_as_wholes() -> None:
    finish_s = np.repeat(2.0 * np.arange(1, 11), 8)
    admitted_s = finish_s - 2.0
    assert steady_rate(admitted_s, finish_s) == SteadyRate(4.0, does_drain_dominate=False)


def test_the_finish_that_begins_the_window_does_not_count() -> None:
    finish_s = np.arange(1.0, 21.0)
    admitted_s = np.append(np.zeros(19), 11.5)
    # From 2 to 11.5: 3, 4, ..., 11.
    assert steady_rate(admitted_s, finish_s) == SteadyRate(9 / 9.5, does_drain_dominate=False)


def test_what_is_rejected_does_not_count() -> None:
    finish_s = np.concatenate([np.arange(1.0, 101.0), [NAN] * 900])
    admitted_s = np.concatenate([np.arange(100.0), [NAN] * 900])
    assert steady_rate(admitted_s, finish_s) == SteadyRate(1.0, does_drain_dominate=False)


@pytest.mark.parametrize(("num_late", "drains"), [(2, True), (3, False)])
def test_a_window_with_less_than_a_fifth_is_no_window(num_late: int, drains: bool) -> None:
    # Ten requests finish at 1, 2, ..., 10; the last admission is when `num_late` have finished.
    finish_s = np.arange(1.0, 11.0)
    admitted_s = np.zeros(10)
    admitted_s[-1] = num_late
    assert steady_rate(admitted_s, finish_s) == SteadyRate(1.0, does_drain_dominate=drains)


def test_the_drain_counts_where_nobody_waits() -> None:
    found = steady_rate(np.zeros(4), np.array([1.0, 2.0, 3.0, 8.0]))
    assert found == SteadyRate(0.5, does_drain_dominate=True)


@pytest.mark.parametrize("finish_s", [np.empty(0), np.full(3, NAN)])
def test_where_nothing_finishes_there_is_no_rate(finish_s: FloatArray) -> None:
    found = steady_rate(np.full(len(finish_s), NAN), finish_s)
    assert found == SteadyRate(None, does_drain_dominate=True)


@pytest.mark.parametrize(
    ("attainment", "share", "told"),
    [
        (0.99, 0.9896, "98.96 % (missed)"),
        (0.99, 0.9904, "99.04 % (met)"),
        (0.99, 0.99, "99.00 % (met)"),
        (0.99, 0.98996, "98.996 % (missed)"),
        (0.99, 0.9899999, "98.99999 % (missed)"),
        (0.9996, 0.99958, "99.958 % (missed)"),
        (0.99995, 0.99996, "99.996 % (met)"),
        (1.0, 0.99999, "99.999 % (missed)"),
        (1.0, 1.0, "100.00 % (met)"),
        (0.999, 0.999, "99.90 % (met)"),
        (None, 0.4654, "46.5 %"),
    ],
)
def test_a_share_has_the_digits_that_tell_its_verdict(
    attainment: float | None, share: float, told: str
) -> None:
    assert Criterion(attainment=attainment).told(share) == told


@pytest.mark.parametrize(
    ("regimes", "holds"),
    [(["stable", "stable", "overloaded"], True), (["stable", "overloaded", "overloaded"], False)],
)
def test_most_replications_must_be_stable(regimes: list[str], holds: bool) -> None:
    replications = [{"regime": regime} for regime in regimes]
    document = {
        "regime": "overloaded",
        "metrics": {"slo_attainment_ratio": 1.0},
        "replications": replications,
    }
    verdict = Criterion(attainment=0.9).judge([document])
    assert (verdict.does_hold, verdict.why) == (holds, "" if holds else "overloaded")
