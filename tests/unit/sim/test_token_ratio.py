"""The share of outstanding output that SGLang reserves, by hand."""

import pytest

from sim.sglang import Sglang
from sim.token_ratio import NewTokenRatio
from tests.sglang_runs import run_sglang
from tests.twin.stories import Ask, workload_of


def ratio() -> NewTokenRatio:
    return NewTokenRatio(0.7, 0.7 * 0.14, 600)


@pytest.mark.parametrize(
    ("steps", "expected"), [(0, 0.7), (1, 0.7 - 0.602 / 600), (300, 0.399), (600, 0.098)]
)
def test_it_falls_from_0_7_to_0_098_in_600_decode_steps(steps: int, expected: float) -> None:
    assert ratio().at(steps) == pytest.approx(expected, rel=1e-12)


def test_it_stays_at_its_floor() -> None:
    assert ratio().at(601) == ratio().at(10_000) == pytest.approx(0.098)


def test_it_starts_again_when_idle() -> None:
    one = ratio()
    one.reset(500)
    assert one.at(500) == 0.7
    assert one.at(1100) == pytest.approx(0.098)


def test_after_a_retraction_it_is_what_the_others_have_generated_and_20_steps_each() -> None:
    one = ratio()
    one.estimate(decoded_tokens=30, max_new_tokens=199, room_tokens=40, clock=7)
    assert one.at(8) == 70 / 200
    assert one.at(9) == pytest.approx(0.35 - 0.602 / 600)


def test_after_a_retraction_it_is_at_most_1_and_may_be_below_the_floor() -> None:
    one = ratio()
    one.estimate(decoded_tokens=30, max_new_tokens=10, room_tokens=40, clock=0)
    assert one.at(1) == 1.0
    one.estimate(decoded_tokens=1, max_new_tokens=999, room_tokens=20, clock=1)
    assert one.at(2) == 0.021
    assert one.at(3) == pytest.approx(0.098)


@pytest.mark.parametrize(("output", "is_admitted"), [(260, True), (261, False)])
def test_the_floor_decides_an_admission(output: int, is_admitted: bool) -> None:
    # After 700 decode steps the first holds 710 tokens and has 300 to come: 29.4 are reserved of
    # 4,290, and 4,000 + 260 < 4,260.6.
    asks = [Ask(0, 10, 1001), Ask(700.5, 4000, output)]
    result = run_sglang(workload_of(asks), num_tokens=5000, chunk=8192)
    assert result.requests.admitted_s[1] == (701 if is_admitted else 1001)


@pytest.mark.parametrize(("output", "is_admitted"), [(4093, True), (4094, False)])
def test_half_way_the_ratio_is_0_399(output: int, is_admitted: bool) -> None:
    # 300 decode steps: 310 held, 4,001 to come, 1,596.4 reserved of 9,690. With 601 steps of decay
    # it would be 2 more.
    asks = [Ask(0, 10, 4302), Ask(300.5, 4000, output)]
    result = run_sglang(workload_of(asks), num_tokens=10_000, chunk=8192)
    assert result.requests.admitted_s[1] == (301 if is_admitted else 4302)


@pytest.mark.parametrize(("output", "is_admitted"), [(919, True), (920, False)])
def test_an_idle_instance_starts_at_0_7_again(output: int, is_admitted: bool) -> None:
    # 10 held, 100 to come, 70 reserved of 4,990: 4,000 + 919 < 4,920.
    asks = [Ask(0, 10, 801), Ask(900, 10, 101), Ask(900.5, 4000, output)]
    result = run_sglang(workload_of(asks), num_tokens=5000, chunk=8192)
    assert result.requests.admitted_s[2] == (901 if is_admitted else 1001)


@pytest.mark.parametrize(("output", "is_admitted"), [(954, True), (955, False)])
def test_conservativeness_scales_the_start(output: int, is_admitted: bool) -> None:
    # 0.35 * 100 = 35 reserved of 4,990.
    asks = [Ask(0, 10, 101), Ask(0.5, 4000, output)]
    result = run_sglang(
        workload_of(asks), num_tokens=5000, chunk=8192, rules={"schedule_conservativeness": 0.5}
    )
    assert result.requests.admitted_s[1] == (1 if is_admitted else 101)


def test_conservativeness_cannot_reserve_more_than_everything() -> None:
    rules = Sglang(8, 64, schedule_conservativeness=5.0)
    assert (rules._start_ratio, rules._min_ratio) == (1.0, 0.14)
