"""From a metrics frame to the long table: blocks, pairs, verdicts."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from experiments.results.load import load_runs, metrics_frame
from experiments.stats.blocks import blocks_of
from experiments.stats.comparison import COLUMNS, comparison
from sim.errors import ConfigError
from tests.job_directories import write_job

Row = tuple[str, float, int, float]
"""Router, rate scale, seed, mean TTFT in seconds."""

STUDY: list[Row] = [
    ("round_robin", 2.0, 0, 1.0),
    ("round_robin", 2.0, 1, 2.0),
    ("round_robin", 2.0, 2, 3.0),
    ("jsq", 2.0, 0, 0.9),
    ("jsq", 2.0, 1, 1.85),
    ("jsq", 2.0, 2, 2.9),
    ("round_robin", 0.5, 0, 0.5),
    ("round_robin", 0.5, 1, 0.6),
    ("jsq", 0.5, 0, 0.8),
    ("jsq", 0.5, 1, 0.4),
]


def write_study(directory: Path, rows: list[Row], **more: Any) -> pd.DataFrame:
    for number, (router, scale, seed, ttft_s) in enumerate(rows):
        write_job(
            directory / str(number),
            f"routing={router}",
            f"trace.rate_scale={scale}",
            seed=seed,
            metrics={"ttft_mean_s": ttft_s, "goodput_per_s": 1 / ttft_s},
            **more,
        )
    return metrics_frame(load_runs(directory))


def of(table: pd.DataFrame, policy: str, scale: float, metric: str = "ttft_mean_s") -> Any:
    is_it = (table["policy"] == policy) & (table["metric"] == metric)
    if "trace.rate_scale" in table:
        is_it &= table["trace.rate_scale"] == scale
    (row,) = table[is_it].to_dict("records")
    return row


def test_settings_come_in_ascending_order_with_their_policies(tmp_path: Path) -> None:
    blocks = blocks_of(write_study(tmp_path, STUDY))
    assert [block.title for block in blocks] == ["trace.rate_scale=0.5", "trace.rate_scale=2"]
    assert [list(block.samples) for block in blocks] == [["round_robin", "jsq"]] * 2


def test_the_columns_are_the_settings_and_those_documented(tmp_path: Path) -> None:
    table = comparison(write_study(tmp_path, STUDY))
    assert list(table.columns) == ["trace.rate_scale", *COLUMNS]
    assert len(table) == 2 * 2 * 2


def test_policies_are_paired_by_seed(tmp_path: Path) -> None:
    """Differences -0.10, -0.15, -0.10: certain, though the means overlap widely."""
    row = of(comparison(write_study(tmp_path, STUDY)), "jsq", 2.0)
    assert row["mean"] == pytest.approx(1.8833333)
    assert row["difference"] == pytest.approx(-0.35 / 3)
    assert row["relative_difference"] == pytest.approx(-0.35 / 6)
    assert (row["difference_method"], row["num_pairs"]) == ("paired", 3)
    assert row["verdict"] == "better"
    assert row["low"] < 1.0


def test_pairs_are_found_in_whatever_order_the_jobs_stand(tmp_path: Path) -> None:
    orderly = of(comparison(write_study(tmp_path / "a", STUDY)), "jsq", 2.0)
    rows = [*STUDY[:3], *reversed(STUDY[3:6])]
    shuffled = of(comparison(write_study(tmp_path / "b", rows)), "jsq", 2.0)
    for name in ("difference", "difference_low", "p_value_holm", "verdict"):
        assert shuffled[name] == pytest.approx(orderly[name])


def test_a_difference_within_the_noise_is_not_distinguishable(tmp_path: Path) -> None:
    row = of(comparison(write_study(tmp_path, STUDY)), "jsq", 0.5)
    assert row["verdict"] == "not distinguishable"
    assert row["difference_low"] < 0 < row["difference_high"]


def test_the_baseline_has_no_difference_to_itself(tmp_path: Path) -> None:
    table = comparison(write_study(tmp_path, STUDY), baseline="jsq")
    assert pd.isna(of(table, "jsq", 2.0)["verdict"])
    assert of(table, "round_robin", 2.0)["verdict"] == "worse"
    assert of(table, "round_robin", 2.0)["baseline"] == "jsq"


def test_higher_goodput_is_better(tmp_path: Path) -> None:
    row = of(comparison(write_study(tmp_path, STUDY)), "jsq", 2.0, "goodput_per_s")
    assert (row["better"], row["unit"]) == ("higher", "requests/s")
    assert row["difference"] > 0


def test_other_seeds_are_not_paired(tmp_path: Path) -> None:
    rows = [(router, scale, seed + 10 * (router == "jsq"), t) for router, scale, seed, t in STUDY]
    row = of(comparison(write_study(tmp_path, rows)), "jsq", 2.0)
    assert row["difference_method"] == "welch"
    assert row["verdict"] == "not distinguishable"


def test_a_lone_pair_tells_less_than_all_runs(tmp_path: Path) -> None:
    rows = [("round_robin", 2.0, seed, 1.0 + 0.1 * seed) for seed in (0, 1, 2)]
    rows += [("jsq", 2.0, seed, 2.0 + 0.1 * seed) for seed in (2, 3, 4)]
    row = of(comparison(write_study(tmp_path, rows)), "jsq", 2.0)
    assert (row["difference_method"], row["num_pairs"]) == ("welch", 3)
    assert row["difference"] == pytest.approx(1.2)


def test_another_trace_under_the_same_seeds_is_not_paired(tmp_path: Path) -> None:
    for number, (router, sha256) in enumerate([("round_robin", "a"), ("jsq", "b")]):
        for seed in range(3):
            write_job(
                tmp_path / f"{number}{seed}",
                f"routing={router}",
                seed=seed,
                metrics={"ttft_mean_s": 1.0 + seed + 0.1 * number * (1 + seed)},
                provenance={"trace": {"sha256": sha256}},
            )
    frame = metrics_frame(load_runs(tmp_path))
    # The digests differ, so the traces are another setting: the policies never meet.
    assert frame.attrs["settings"] == ["trace.sha256"]
    table = comparison(frame)
    assert table["difference"].isna().all()


def test_equal_seeds_of_unlike_requests_are_not_paired(tmp_path: Path) -> None:
    for number, router in enumerate(("jsq", "random")):
        for seed in range(3):
            write_job(
                tmp_path / f"{number}{seed}",
                f"routing={router}",
                seed=seed,
                metrics={"ttft_mean_s": 1.0 + seed + number},
                provenance={"trace": {"num_rows": 100 + number}},
            )
    row = of(comparison(metrics_frame(load_runs(tmp_path))), "random", 1.0)
    assert row["difference_method"] == "welch"


def test_a_policy_that_lacks_a_seed_is_paired_over_the_others(tmp_path: Path) -> None:
    row = of(comparison(write_study(tmp_path, STUDY[:5])), "jsq", 2.0)
    assert (row["num_runs"], row["num_pairs"], row["difference_method"]) == (2, 2, "paired")
    assert row["difference"] == pytest.approx(-0.125)


def test_one_run_each_has_a_difference_and_no_verdict(tmp_path: Path) -> None:
    row = of(comparison(write_study(tmp_path, [STUDY[0], STUDY[3]])), "jsq", 2.0)
    assert row["difference"] == pytest.approx(-0.1)
    assert row["verdict"] == "one run"
    assert pd.isna(row["low"])
    assert pd.isna(row["interval"])


def test_runs_that_repeat_one_another_are_one_observation(tmp_path: Path) -> None:
    """Seeds that change nothing: three equal runs of each must not make anything certain."""
    rows = [
        (router, 1.0, seed, t)
        for router, t in (("jsq", 1.0), ("random", 2.0))
        for seed in (0, 1, 2)
    ]
    row = comparison(write_study(tmp_path, rows)).set_index("policy").loc["random"].iloc[0]
    assert row["num_runs"] == 1
    assert row["verdict"] == "one run"
    assert pd.isna(row["low"])


def test_a_fixed_policy_against_a_random_one_is_paired_over_all_seeds(tmp_path: Path) -> None:
    rows = [("jsq", 1.0, seed, 1.0) for seed in range(3)]
    rows += [("random", 1.0, seed, 2.0 + 0.01 * seed) for seed in range(3)]
    row = of(comparison(write_study(tmp_path, rows)), "random", 1.0)
    assert (row["verdict"], row["num_pairs"]) == ("worse", 3)


def test_only_jobs_that_ended_well_count(tmp_path: Path) -> None:
    write_study(tmp_path, STUDY[:4])
    write_job(tmp_path / "9", "routing=jsq", "trace.rate_scale=2.0", seed=1, status="interrupted")
    table = comparison(metrics_frame(load_runs(tmp_path)))
    assert of(table, "jsq", 2.0)["num_runs"] == 1


def test_the_worst_regime_is_shown_with_how_many_runs_are_in_it(tmp_path: Path) -> None:
    for seed, regime in enumerate(["stable", "overloaded", "backlogged", "overloaded"]):
        write_job(tmp_path / str(seed), seed=seed, regime=regime)
    table = comparison(metrics_frame(load_runs(tmp_path)))
    assert table[["regime", "num_in_regime"]].values.tolist() == [["overloaded", 2]]


def test_several_rivals_are_corrected_together(tmp_path: Path) -> None:
    rows = STUDY[:6] + [
        ("random", 2.0, seed, value) for seed, value in ((0, 0.9), (1, 1.8), (2, 3.1))
    ]
    alone = of(
        comparison(write_study(tmp_path / "a", rows[:6])),
        "jsq",
        2.0,
    )
    both = of(
        comparison(write_study(tmp_path / "b", rows)),
        "jsq",
        2.0,
    )
    assert both["p_value_holm"] == pytest.approx(2 * alone["p_value_holm"])
    assert both["difference_level"] == pytest.approx(0.975)


def test_the_bootstrap_is_for_means_alone(tmp_path: Path) -> None:
    frame = write_study(tmp_path, STUDY)
    plain, drawn = comparison(frame), comparison(frame, method="bootstrap")
    assert set(drawn["interval"]) == {"bootstrap"}
    assert not plain["low"].equals(drawn["low"])
    assert plain["difference_low"].equals(drawn["difference_low"])


def test_unknown_names_are_refused_with_the_known_ones(tmp_path: Path) -> None:
    frame = write_study(tmp_path, STUDY)
    with pytest.raises(ConfigError, match=r"unknown policy: jqs \(did you mean jsq\?\)"):
        comparison(frame, baseline="jqs")
    with pytest.raises(ConfigError, match="unknown metric: ttft_mean"):
        comparison(frame, metrics=["ttft_mean"])


def test_nothing_that_ended_well_cannot_be_compared(tmp_path: Path) -> None:
    write_job(tmp_path, status="failed")
    with pytest.raises(ConfigError, match="no run to compare"):
        comparison(metrics_frame(load_runs(tmp_path)))
