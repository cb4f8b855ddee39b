"""Studies of Feather: measures by hand, verdicts on claims, effects of a factorial, jobs."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from experiments.stats.intervals import Interval
from experiments.studies.feather.attribution import NUM_GROUPS
from experiments.studies.feather.cell import Cell
from experiments.studies.feather.chunk import FeatherChunk
from experiments.studies.feather.cpu_cells import CROWD, FREE, PYTHON, SERVED, SMALL, CpuCell
from experiments.studies.feather.effects import effect_intervals
from experiments.studies.feather.factors import CONDITIONS, cell_of, tight_blocks
from experiments.studies.feather.found import Found
from experiments.studies.feather.group_service import measures_of, service_of
from experiments.studies.feather.groups import FeatherGroups
from experiments.studies.feather.learning import of_state
from experiments.studies.feather.load import SCALES, Load
from experiments.studies.feather.measures import (
    CPU_REQUEST,
    HBM_RATE,
    OUTPUT,
    TBT,
    longest_wait_s,
    of_metrics,
    recomputed_tokens,
    served_at_half_time,
)
from experiments.studies.feather.models import FeatherModels
from experiments.studies.feather.no_sharing import FeatherNoSharing
from experiments.studies.feather.one_prefix import MEASURED
from experiments.studies.feather.output import FeatherOutput
from experiments.studies.feather.packed import FeatherA100
from experiments.studies.feather.prefix import FeatherPrefix
from experiments.studies.feather.rate import FeatherLoad
from experiments.studies.feather.reward import FeatherReward
from experiments.studies.feather.rows import ClaimRow
from experiments.studies.feather.single_batch import batch_case
from experiments.studies.feather.splits import FeatherSplits
from experiments.studies.feather.standard import VARIANTS
from experiments.studies.feather.sweep import BASES, Sweep
from experiments.studies.feather.transfer import LOADS
from experiments.studies.feather.variants import FCFS, FEATHER, LPM, MAIN
from policies.batching.feather.learner import ADD, STOP, Decision, state_of
from policies.batching.feather.scheduler import Feather

SWEEPS: tuple[type[Sweep], ...] = (
    *(FeatherGroups, FeatherPrefix, FeatherOutput, FeatherNoSharing, FeatherModels, FeatherLoad),
    *(FeatherChunk, FeatherReward, FeatherA100, FeatherSplits),
)


def served() -> pd.DataFrame:
    """Four requests: two of a group that is served first, two of one that waits."""
    return pd.DataFrame(
        {
            "arrival_s": [10.0, 10.0, 12.0, 13.0],
            "admitted_s": [10.0, 11.0, 18.5, 15.0],
            "finish_s": [13.0, 15.0, 20.0, 16.0],
            "cached_tokens": [96, 96, 0, 48],
            "output_tokens": [10, 20, 40, 80],
        }
    )


def test_the_longest_wait_is_from_arrival_to_admission() -> None:
    assert longest_wait_s(served()) == 6.5


def test_group_service_is_the_share_that_has_finished_at_half_time() -> None:
    # First arrival at 10 s, last end at 20 s: half time is 15 s, and who ends then has ended.
    assert served_at_half_time(served(), np.array([7, 7, 3, 3])).tolist() == [0.0, 1.0]
    assert served_at_half_time(served(), np.array([0, 1, 0, 1])).tolist() == [0.5, 0.5]


def test_service_of_a_group_counts_until_the_first_group_is_done() -> None:
    # Group 7 is done at 15 s, 5 s after the first arrival; by then nobody else has finished.
    service = service_of(served(), np.array([7, 7, 3, 3]))
    assert service.until_s == 5.0
    assert service.num_served.tolist() == [2, 0]
    assert service.tokens_per_s.tolist() == [30 / 5, 0.0]
    assert service.longest_wait_s.tolist() == [1.0, 6.5]
    # With requests 0 and 3 in a group, it is done at 16 s; of the other one 1 has finished then.
    service = service_of(served(), np.array([1, 0, 0, 1]))
    assert service.until_s == 6.0
    assert service.num_served.tolist() == [2, 1]
    assert service.tokens_per_s.tolist() == [90 / 6, 20 / 6]
    assert service.longest_wait_s.tolist() == [2.0, 6.5]


def test_groups_are_kept_one_by_one_while_there_are_few() -> None:
    values = service_of(served(), np.array([7, 7, 3, 3])).values
    requests, output, wait = measures_of(1)
    assert [values[measure.key] for measure in (requests, output, wait)] == [0.0, 0.0, 6.5]
    assert (values["least_group_tokens_per_s"], values["most_group_tokens_per_s"]) == (0.0, 6.0)
    assert (values["least_group_wait_s"], values["first_done_s"]) == (1.0, 5.0)
    many = pd.concat([served()] * 3, ignore_index=True)
    assert requests.key not in service_of(many, np.arange(12)).values


def test_recomputed_is_what_was_lacking_of_a_prefix_that_had_been_computed() -> None:
    # Of 100 tokens six blocks, 96 tokens, can be found again: 96 and 48 of them were not.
    assert recomputed_tokens(served(), prefix_tokens=100, num_cold=0) == 96 + 48
    assert recomputed_tokens(served(), prefix_tokens=100, num_cold=1) == 48


def metrics(**changed: float | None) -> dict[str, float | None]:
    parts = ("gemm", "attention_decode", "attention_prefill", "small_ops", "launch")
    return {
        **{f"gpu_{part}_ratio": 0.1 for part in parts},
        "gpu_time_s": 20.0,
        "gpu_idle_ratio": 0.5,
        "hbm_bytes": 5e12,
        "output_tokens_per_s": 100.0,
        "itl_mean_s": 0.03,
        **changed,
    }


def test_rates_are_per_busy_second_and_absent_metrics_are_no_numbers() -> None:
    values = of_metrics(metrics(itl_mean_s=None))
    assert values[HBM_RATE.key] == pytest.approx(500.0)
    assert values["gemm_s"] == pytest.approx(2.0)
    assert math.isnan(values[TBT.key])


def test_scheduler_cpu_per_request_is_of_the_time_without_waits_for_it() -> None:
    # Of 20 s half are idle and a tenth waits for the scheduler, whose CPU takes half of the rest.
    values = of_metrics(
        metrics(scheduler_cpu_ratio=0.5, gpu_scheduler_ratio=0.1, num_requests=100.0)
    )
    assert values[CPU_REQUEST.key] == pytest.approx(0.5 * 8.0 / 100)
    assert CPU_REQUEST.key not in of_metrics(metrics())


def taught() -> Feather:
    """Ten decisions from 20 s on, one a second; every second one an ADD; regret in the first two.

    Rewarded: 3 ADD and 1 STOP without loss in one state, a STOP at a loss in another.
    """
    policy = Feather()
    policy.learner.learn([Decision(state_of(5, 0, 3), ADD)] * 3, 2.0, 0)
    policy.learner.learn([Decision(state_of(5, 0, 3), STOP)], 2.0, 0)
    policy.learner.learn([Decision(state_of(44, 9, 1), STOP)], 1.0, 0)
    for k in range(10):
        policy.history.note(20.0 + k, k % 2 == 0, 4.0 if k < 2 else 0.0)
    return policy


def test_learning_is_done_when_nearly_all_regret_has_come() -> None:
    values = of_state(taught().state(), start_s=19.0)
    assert values == {
        "num_states": 2.0,
        "num_decisions": 10.0,
        "add_ratio": 0.5,
        "add_no_loss_ratio": 0.75,
        "add_loss_ratio": 0.0,
        "regret_per_s": 0.8,
        "late_regret_per_s": 0.0,
        "settled_decisions": 2.0,
        "settled_s": 2.0,
        "settled_ratio": 0.2,
    }


def test_a_learner_that_never_stops_exploring_is_never_done() -> None:
    policy = taught()
    for k in range(90):
        policy.history.note(30.0 + k, True, 4.0)
    values = of_state(policy.state(), start_s=20.0)
    assert values["settled_ratio"] > 0.94
    assert values["late_regret_per_s"] == 4.0


def found(variant_outputs: list[float]) -> Found:
    cell = Cell(load=Load(), variant=FCFS)
    return Found(cell, tuple({OUTPUT.key: value, TBT.key: 0.03} for value in variant_outputs))


def test_a_ratio_is_taken_seed_by_seed() -> None:
    ratio = found([200.0, 100.0]).ratio(found([100.0, 50.0]), OUTPUT)
    assert (ratio.mean, ratio.low, ratio.high) == (2.0, 2.0, 2.0)
    assert found([1.0]).samples(TBT) == [30.0]


def claim(
    claimed: tuple[float, float] | None,
    interval: tuple[float, float, float],
    limit: float = 0.0,
) -> ClaimRow:
    low, mean, high = interval
    return ClaimRow(
        setting="s",
        quantity="q",
        unit="x",
        claim=claimed,
        simulated=Interval(mean, low, high, 10),
        limit_ratio=limit,
    )


@pytest.mark.parametrize(
    ("claimed", "interval", "limit", "verdict"),
    [
        (None, (1.0, 2.0, 3.0), 0.0, "reported"),
        ((4.0, 4.0), (1.8, 1.9, 2.0), 0.25, "disagrees"),
        ((4.0, 4.0), (3.2, 3.3, 3.4), 0.25, "agrees"),
        ((4.0, 4.0), (2.0, 2.9, 3.8), 0.25, "not distinguishable"),
        ((2.0, 10.0), (0.9, 2.1, 3.3), 0.0, "not distinguishable"),
        ((0.0, 1.0), (0.9, 0.95, 0.99), 0.0, "agrees"),
        ((0.0, 1.0), (0.9, 0.97, 1.04), 0.0, "not distinguishable"),
        ((0.0, 1.0), (1.1, 1.2, 1.3), 0.0, "disagrees"),
        ((1.0, 1.0), (0.96, 1.0, 1.04), 0.05, "agrees"),
        ((1.0, 1.0), (0.95, 1.04, 1.13), 0.05, "not distinguishable"),
        ((3.0, math.inf), (3.5, 4.0, 4.5), 0.0, "agrees"),
        ((3.0, math.inf), (math.nan, 4.0, math.nan), 0.0, "not distinguishable"),
    ],
)
def test_a_claim_is_judged_by_the_whole_interval(
    claimed: tuple[float, float] | None,
    interval: tuple[float, float, float],
    limit: float,
    verdict: str,
) -> None:
    assert claim(claimed, interval, limit).verdict == verdict


def test_the_error_of_a_claim_counts_from_its_nearer_end() -> None:
    assert claim((2.0, 4.0), (1.0, 1.5, 2.0)).error_ratio == pytest.approx(-0.25)
    assert claim((2.0, 4.0), (2.0, 3.0, 4.0)).error_ratio == 0.0
    assert claim((2.0, 4.0), (4.0, 5.0, 6.0)).error_ratio == pytest.approx(0.25)
    assert claim((3.0, math.inf), (1.0, 1.5, 2.0)).error_ratio == pytest.approx(-0.5)
    assert claim(None, (1.0, 1.0, 1.0)).error_ratio is None


def test_effects_are_factors_of_the_geometric_mean() -> None:
    # A doubles the ratio, B does nothing by itself, both together add another factor of 1.5.
    ratios: dict[tuple[int, ...], list[float]] = {
        (a, b): [2.0 ** (a > 0) * 1.5 ** (a > 0 and b > 0)] * 3 for a in (1, -1) for b in (1, -1)
    }
    effects = effect_intervals(ratios)
    assert list(effects) == [(0,), (1,), (0, 1)]
    assert effects[0,].mean == pytest.approx(2 * math.sqrt(1.5))
    assert effects[1,].mean == pytest.approx(math.sqrt(1.5))
    assert effects[0, 1].mean == pytest.approx(math.sqrt(1.5))
    assert effects[0,].low == pytest.approx(effects[0,].high)


def test_a_tight_cache_holds_half_of_the_prefixes_and_a_hundred_requests() -> None:
    assert tight_blocks(Load(num_groups=5)) == 3 * 313 + 100 * 6


def test_a_warm_start_is_as_long_as_its_prefixes_need_and_counts_in_no_figure() -> None:
    values = Load(num_groups=100, prefix_tokens=10_000).overrides(1000)
    assert values["trace.warm_start_s"] == "310"
    assert values["trace.warmup_requests"] == "100"
    cold = Load(is_warm=False).overrides(1000)
    assert (cold["trace.warm_start_s"], cold["trace.warmup_requests"]) == ("null", "0")


def test_without_groups_prompts_are_as_long_and_share_nothing() -> None:
    values = Load(num_groups=0, prefix_tokens=480, rate_per_s=None).overrides(1000)
    assert (values["trace"], values["trace.prompt"]) == ("synthetic", "500")
    assert values["trace.arrivals"] == "all_at_once"
    assert Load(num_groups=0).num_warm == 0


@pytest.mark.parametrize("kind", SWEEPS)
def test_no_two_jobs_of_a_sweep_share_a_directory_or_are_the_same(kind: type[Sweep]) -> None:
    study = kind()
    cases = [
        study.cell(arrivals, value, variant).case(SCALES["quick"])
        for arrivals in study.arrivals
        for value in study.values
        for variant in study.variants
    ]
    assert len({case.folder for case in cases}) == len(cases)
    assert len({case.overrides for case in cases}) == len(cases)


def test_no_two_jobs_of_the_factorial_share_a_directory() -> None:
    folders = [
        cell_of(replace(base, num_groups=groups), condition, variant).case(SCALES["full"]).folder
        for base in BASES.values()
        for groups in NUM_GROUPS
        for condition in CONDITIONS
        for variant in MAIN
    ]
    assert len(set(folders)) == len(folders) == 4 * 2 * 8 * 4


def test_no_two_jobs_about_cpu_time_share_a_directory() -> None:
    cells = [
        CpuCell(served, 1000, variant, language, users)
        for served in SERVED
        for variant in (FCFS, LPM)
        for language, users in ((PYTHON, 200), (FREE, 200), (PYTHON, CROWD))
    ]
    assert len({one.cell.case(SCALES["quick"]).folder for one in cells}) == len(cells)


def test_free_cpu_time_is_not_priced_and_an_engine_gets_no_option_of_another() -> None:
    overrides = CpuCell(SMALL, 1000, LPM, FREE).cell.case(SCALES["quick"]).overrides
    assert "scheduler.enabled=false" in overrides
    assert not any(one.startswith("engine.async") for one in overrides)


def test_workloads_of_the_transfer_differ() -> None:
    assert len({load.name for load in LOADS.values()}) == len(LOADS)


def test_labels_of_policies_are_unique() -> None:
    assert len({one.label for one in VARIANTS}) == len(VARIANTS)


def test_every_size_has_ten_seeds_and_the_full_one_three_thousand_requests() -> None:
    assert min(scale.num_seeds for scale in SCALES.values()) >= 10
    assert SCALES["full"].num_requests == 3000


def test_one_batch_is_as_large_with_and_without_the_deviating_request() -> None:
    for has_deviator in (False, True):
        case = batch_case(100, 5000, has_deviator=has_deviator, machine={})
        sizes = [int(o.split("=")[1]) for o in case.overrides if "num_requests=" in o]
        assert sum(sizes) == 100
        assert f"trace.warmup_requests={len(sizes)}" in case.overrides


def test_the_measured_runs_are_within_two_percent_of_each_other_but_for_the_radix_tree() -> None:
    for batch in (100, 500):
        assert MEASURED[batch, FEATHER] / MEASURED[batch, FCFS] > 0.98
