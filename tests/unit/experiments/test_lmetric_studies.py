"""Studies of LMETRIC: bootstraps over windows, verdicts, sources, a hot class by hand, jobs."""

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from experiments.help_text import options_of
from experiments.stats.intervals import Interval
from experiments.studies.findings import REPORTED
from experiments.studies.lmetric.comparison import Comparison
from experiments.studies.lmetric.hot_class import balance_of, hot_source
from experiments.studies.lmetric.hotspot import LmetricHotspot
from experiments.studies.lmetric.idle import LmetricIdle
from experiments.studies.lmetric.indicators import LmetricIndicators
from experiments.studies.lmetric.measures import RunTable, read_runs
from experiments.studies.lmetric.overload import LmetricOverload
from experiments.studies.lmetric.paired import (
    NUM_RESAMPLES,
    NUM_WINDOWS,
    bootstrap,
    change,
    floor_of,
)
from experiments.studies.lmetric.routers import LmetricRouters
from experiments.studies.lmetric.rows import ClaimedRow, DifferenceRow
from experiments.studies.lmetric.scaling import LmetricScaling
from experiments.studies.lmetric.setting import SCALES, Setting
from experiments.studies.lmetric.sources import AGENT, CONVERSATION, SOURCES
from experiments.studies.lmetric.staleness import LmetricStaleness, aged
from experiments.studies.lmetric.variants import JSQ, LMETRIC, MAIN, OTHERS, placebo, with_weight
from experiments.studies.lmetric.weights import LmetricWeights
from experiments.studies.runs import Case, Runner
from experiments.sweep.pool import Pool

ALL: tuple[type[Comparison], ...] = (
    *(LmetricRouters, LmetricIndicators, LmetricWeights, LmetricHotspot),
    *(LmetricIdle, LmetricStaleness, LmetricOverload, LmetricScaling),
)


@pytest.fixture
def no_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """No public trace is anywhere."""
    monkeypatch.setenv("FLOCKSIM_DATA", str(tmp_path))
    return tmp_path


# -- differences --------------------------------------------------------------------------------


def test_a_bootstrap_begins_with_the_statistic_itself() -> None:
    runs = [np.arange(100.0), np.arange(100.0, 200.0)]
    assert bootstrap(runs)[0] == 99.5
    assert bootstrap(runs, 50)[0] == 99.0  # the hundredth of 200 values
    assert bootstrap(runs, 95)[0] == 189.0
    assert len(bootstrap(runs)) == len(bootstrap(runs, 95)) == 1 + NUM_RESAMPLES


def test_values_that_are_absent_count_nowhere() -> None:
    values = np.arange(64.0)
    holed = np.where(values % 2 == 0, values, np.nan)
    assert bootstrap([holed])[0] == np.mean(np.arange(0, 64, 2))
    assert bootstrap([holed], 50)[0] == 30.0
    assert math.isnan(bootstrap([np.full(8, np.nan)])[0])
    assert math.isnan(bootstrap([np.full(8, np.nan)], 50)[0])


def test_windows_are_drawn_as_a_whole_and_alike_for_both_sides() -> None:
    # Twice the value everywhere: whatever windows are drawn, the ratio is 2.
    values = np.random.default_rng(0).exponential(size=400)
    twice = change(bootstrap([2 * values]), bootstrap([values]))
    assert (twice.mean, twice.low, twice.high) == pytest.approx((1.0, 1.0, 1.0))
    # All of the variation between windows, none inside: the interval is that of NUM_WINDOWS values.
    steps = np.repeat(np.arange(1.0, NUM_WINDOWS + 1), 25)
    found = change(bootstrap([steps]), np.full(1 + NUM_RESAMPLES, 1.0))
    error = np.arange(1.0, NUM_WINDOWS + 1).std() / math.sqrt(NUM_WINDOWS)
    assert found.high - found.low == pytest.approx(2 * 1.96 * error, rel=0.1)


def test_without_values_there_is_no_difference() -> None:
    nothing = bootstrap([np.full(8, np.nan)])
    assert math.isnan(change(nothing, nothing).mean)
    assert floor_of([change(nothing, nothing)]) == 0.0


def test_the_floor_is_the_farthest_end_of_a_placebo() -> None:
    found = [Interval(0.01, -0.02, 0.03, 16), Interval(0.0, -0.05, 0.01, 16)]
    assert floor_of(found) == 0.05
    assert floor_of([]) == 0.0


@pytest.mark.parametrize(
    ("ends", "floor", "verdict"),
    [
        ((3.0, 9.0), 0.02, "higher"),
        ((1.0, 9.0), 0.02, "within noise"),
        ((-1.0, 9.0), 0.02, "not distinguishable"),
        ((-9.0, -3.0), 0.02, "lower"),
        ((-9.0, -1.0), 0.02, "within noise"),
        ((math.nan, math.nan), 0.02, "not distinguishable"),
    ],
)
def test_a_difference_counts_only_beyond_the_noise(
    ends: tuple[float, float], floor: float, verdict: str
) -> None:
    row = DifferenceRow(
        setting="a",
        quantity="TTFT",
        unit="%",
        claim=None,
        simulated=Interval(sum(ends) / 2, *ends, 16),
        limit_ratio=floor,
        series="a",
    )
    assert row.verdict == verdict


@pytest.mark.parametrize(
    ("claim", "ends", "verdict"),
    [
        ((-40.0, -40.0), (-45.0, -35.0), "agrees"),
        ((-40.0, -40.0), (-60.0, -45.0), "not distinguishable"),
        ((-40.0, -40.0), (-52.0, -36.0), "agrees"),
        ((-40.0, -40.0), (-20.0, -10.0), "smaller"),
        ((-40.0, -40.0), (-90.0, -70.0), "larger"),
        ((-40.0, -40.0), (5.0, 9.0), "opposite"),
        ((-40.0, -40.0), (-9.0, -0.5), "within noise"),
        ((-40.0, -40.0), (-9.0, 4.0), "not distinguishable"),
        ((-100.0, 0.0), (-9.0, -4.0), "agrees"),
        ((-100.0, 0.0), (4.0, 9.0), "disagrees"),
        ((-100.0, 0.0), (-4.0, 9.0), "not distinguishable"),
        ((0.0, math.inf), (4.0, 9.0), "agrees"),
        (None, (4.0, 9.0), REPORTED),
    ],
)
def test_a_claim_is_held_to_its_sign_and_its_size(
    claim: tuple[float, float] | None, ends: tuple[float, float], verdict: str
) -> None:
    row = ClaimedRow(
        setting="a",
        quantity="TTFT",
        unit="%",
        claim=claim,
        simulated=Interval(sum(ends) / 2, *ends, 16),
        limit_ratio=0.25,
        floor_ratio=0.01,
    )
    assert row.verdict == verdict


def test_the_error_of_a_claim_is_relative_to_its_nearer_end() -> None:
    def error(mean: float) -> float | None:
        return ClaimedRow(
            setting="a",
            quantity="TTFT",
            unit="%",
            claim=(-40.0, -20.0),
            simulated=Interval(mean, mean, mean, 16),
        ).error_ratio

    assert error(-30.0) == 0.0
    assert error(-60.0) == pytest.approx(0.5)
    assert error(-10.0) == pytest.approx(-0.5)


# -- sources ------------------------------------------------------------------------------------


def test_where_a_recording_lacks_a_stand_in_is_named(no_data: Path) -> None:
    for source in SOURCES:
        assert source.is_stand_in
        assert source.title == f"{source.label} (stand-in)"
        assert source.note is not None
        assert str(no_data / source.file) in source.note
        assert "trace.path" not in source.overrides("quick")
        numbers = [
            int(section["trace.num_requests"])
            for section in (source.overrides("quick"), source.flood("quick"))
        ]
        assert numbers[1] == 4 * numbers[0]
    assert AGENT.rate("quick", 7.0, 1.0) == {"trace.rate_per_s": "7"}
    assert CONVERSATION.rate("quick", 7.0, 2.0) == {"trace.rate_scale": "3.5"}


def test_a_recording_is_taken_where_it_is(no_data: Path) -> None:
    for source in SOURCES:
        path = no_data / source.file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert CONVERSATION.note is None
    assert CONVERSATION.title == "conversation"
    assert CONVERSATION.overrides("quick")["trace.path"] == f"'{no_data / CONVERSATION.file}'"
    sections = AGENT.overrides("quick")
    assert sum(value == "agent" for value in sections.values()) == 3
    assert sum(value == "agent" for value in AGENT.flood("quick").values()) == 12
    rates = AGENT.rate("quick", 1566 / 69, 1.0)
    assert sum(map(float, rates.values())) == pytest.approx(1.0, rel=1e-5)
    assert set(rates) == {f"trace.parts.reading_{k}.trace.session_rate_per_s" for k in range(3)}


# -- a hot class ---------------------------------------------------------------------------------


def hot_run() -> RunTable:
    """Two instances, ten seconds; three of five requests are of the class, all on instance 0."""
    arrival_s = np.array([0.0, 0.0, 2.0, 4.0, 10.0])
    stay_s = np.array([8.0, 4.0, 8.0, 8.0, 4.0])
    return RunTable(
        {
            "is_hot": np.array([1.0, 0.0, 1.0, 1.0, 0.0]),
            "arrival_s": arrival_s,
            "first_token_s": arrival_s + 1,
            "finish_s": arrival_s + stay_s,
            "instance": np.array([0.0, 1.0, 0.0, 0.0, 1.0]),
        }
    )


def test_the_balance_of_a_hot_class_by_hand() -> None:
    found = balance_of(hot_run(), 2)
    # Instance 0 holds the prefix from 1 s on: two of the three arrivals of the class see a holder.
    assert found.num_holders == pytest.approx(2 / 3)
    assert found.on_holders == pytest.approx(2 / 3)
    assert found.stay_ratio == pytest.approx(2.0)
    assert found.condition == pytest.approx((3 / 2) / ((2 / 3) / (4 / 3)))
    # Of two instances none or one holds the prefix: x / x_bar = 1.5 is too much for either.
    assert found.violated == 1.0
    assert found.with_stay == pytest.approx(2 * found.condition)
    # From 1 to 10 s: 7 + 8 + 6 request-seconds on the holder, 3 on the other one.
    assert found.load_ratio == pytest.approx(21 / 3, rel=0.05)


def test_where_all_hold_the_prefix_no_ratio_is_left() -> None:
    run = hot_run()
    everywhere = RunTable({**run.columns, "instance": np.array([0.0, 0.0, 1.0, 0.0, 1.0])})
    late = RunTable({**everywhere.columns, "first_token_s": np.full(5, -1.0)})
    found = balance_of(late, 2)
    assert found.num_holders == 2
    assert found.condition == found.violated == 0.0
    assert math.isnan(found.load_ratio)


# -- measures ------------------------------------------------------------------------------------


def test_requests_are_read_run_by_run_without_the_warm_up(tmp_path: Path) -> None:
    pd.DataFrame(
        {
            "request_id": [0, 1, 2, 0, 1, 2],
            "arrival_s": [0.0, 1.0, 2.0, 0.0, 1.0, 2.0],
            "first_token_s": [0.5, 1.5, 2.25, 0.5, 1.25, None],
            "finish_s": [1.0, 1.75, 6.25, 1.0, 4.25, None],
            "instance": [0, 1, 0, 0, 1, None],
            "prompt_tokens": [10, 10, 59_997, 10, 10, 10],
            "output_tokens": [5, 1, 9, 5, 4, 4],
            "cached_tokens": [0, 0, 0, 0, 0, None],
            "tenant": ["rest", "hot", "rest", "rest", "rest", "hot"],
            "replication": [0, 0, 0, 1, 1, 1],
        }
    ).to_parquet(tmp_path / "requests.parquet")
    first, second = read_runs(tmp_path / "requests.parquet", num_warm=1)

    def of(run: RunTable, key: str) -> list[float | None]:
        return [None if math.isnan(value) else value for value in run.values(key)]

    assert of(first, "ttft_s") == [0.5, 0.25]
    # One output token has no time per token; the long prompt leaves room for three tokens.
    assert of(first, "tpot_s") == [None, 2.0]
    assert of(first, "is_served") == [1.0, 0.0]
    assert of(first, "hot_ttft_s") == [0.5, None]
    assert of(first, "rest_ttft_s") == [None, 0.25]
    assert of(second, "ttft_s") == [0.25, None]
    assert of(second, "tpot_s") == [1.0, None]
    assert of(second, "rest_tpot_s") == [1.0, None]


# -- jobs ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("study", ALL)
@pytest.mark.parametrize("size", ["quick", "full"])
def test_every_job_has_a_directory_of_its_own(
    no_data: Path, study: type[Comparison], size: str
) -> None:
    made = study()
    plan = made.plan(size)
    cases: list[Case] = []
    for setting, routers in plan.items():
        variants = (made.reference, *made.placebos(size), *routers)
        assert len({variant.label for variant in variants}) == len(variants)
        for variant in variants:
            cases.append(setting.case(variant, made.scales[size], {}))
    folders = [case.folder for case in cases]
    assert len(set(folders)) == len(folders)
    assert len({setting.title for setting in plan}) == len(plan)


@pytest.mark.parametrize("study", ALL)
def test_the_jobs_of_every_setting_can_run(
    no_data: Path, tmp_path: Path, study: type[Comparison]
) -> None:
    made = study()
    scale = made.scales["quick"]
    with Pool(1) as pool:
        runner = Runner(tmp_path, (), pool)
        plan = made.plan("quick")
        for setting in list(plan)[:: max(1, len(plan) // 3)]:
            variant = plan[setting][-1]
            rate = setting.source.rate("quick", 10.0, 5.0)
            job = runner.job(setting.case(variant, scale, rate))
            assert job.replications == scale.num_seeds
            assert job.trace_options.rate_scale == (2.0 if setting.source.is_scaled else 1.0)
            assert runner.job(setting.flood_case("quick")).flood
            assert job.cluster.num_instances == setting.num_instances


def test_the_machine_is_that_of_the_paper(no_data: Path, tmp_path: Path) -> None:
    with Pool(1) as pool:
        case = Setting(source=CONVERSATION, load=0.5).case(placebo(), SCALES["quick"], {})
        job = Runner(tmp_path, (), pool).job(case)
    assert (job.hardware.profile, job.model.name) == ("h20", "qwen2_5_7b")
    assert job.engine_options.max_num_seqs == 256
    assert job.engine_options.gpu_memory_utilization == 0.85
    assert job.routing_options.tie_shift == 1


def test_a_setting_floods_whatever_its_load() -> None:
    low, high = (Setting(source=CONVERSATION, load=load, at=load) for load in (0.5, 0.9))
    assert low != high
    assert low.flooded == high.flooded
    assert low.capacity_factor == 1.0
    assert low.flooded != Setting(source=CONVERSATION, load=0.5, model="30B-A3B").flooded


def test_a_linear_setting_has_its_share_of_the_capacity_of_sixteen() -> None:
    small = Setting(source=CONVERSATION, load=0.5, num_instances=4, place="4", is_linear=True)
    assert small.flooded.num_instances == 16
    assert small.capacity_factor == 0.25


def test_the_comparison_has_twenty_routers_that_can_be_chosen() -> None:
    names = {variant.routing for variant in (LMETRIC, *MAIN, *OTHERS)}
    assert len(names) == 20
    assert names <= set(options_of("routing"))


def test_weights_add_up() -> None:
    options = with_weight(0.55).options
    assert sum(map(float, options.values())) == pytest.approx(1.0)
    assert options["hit_weight"] == "0.55"


def test_an_old_view_keeps_the_options_of_the_router() -> None:
    old = aged(placebo(2), "period", 0.5, assumes=True)
    assert old.options == {
        "tie_shift": "2",
        "publish_period_s": "0.5",
        "assume_dispatches": "true",
    }
    assert aged(JSQ, "delay", 0.1, assumes=False).label == "jsq, delay 0.1 s"


def test_a_hot_class_has_its_share_of_the_arrivals() -> None:
    sections = hot_source(0.2, 10_000).generated["quick"]
    rates = [float(value) for key, value in sections.items() if key.endswith("rate_per_s")]
    assert rates == [16.0, 4.0]
    # The class comes when a tenth of the others has come, and stays until they end.
    numbers = [int(value) for key, value in sections.items() if key.endswith("num_requests")]
    start_s = float(sections["+trace.parts.hot.start_s"])
    assert start_s == pytest.approx(0.1 * numbers[0] / rates[0])
    assert numbers[1] / rates[1] == pytest.approx(0.9 * numbers[0] / rates[0])
