"""Placebos and further units in a comparison: what is noise, and what repeats one setting."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from experiments.compare.build import compare_runs
from experiments.figures.study import study_of
from experiments.results.load import Run, load_runs, metrics_frame
from experiments.stats.blocks import blocks_of
from experiments.stats.comparison import COLUMNS, _guarded, comparison
from experiments.stats.differences import Difference
from experiments.stats.intervals import mean_interval
from sim.errors import ConfigError
from tests.job_directories import write_job

SEEDS = range(4)


def write_seeds(directory: Path, router: str, ttfts_s: list[float], tie_shift: int = 0) -> None:
    for seed, ttft_s in zip(SEEDS, ttfts_s, strict=True):
        write_job(
            directory / f"{router}{tie_shift}{seed}",
            f"routing={router}",
            f"routing.tie_shift={tie_shift}",
            seed=seed,
            metrics={"ttft_mean_s": ttft_s},
        )


def write_both(directory: Path) -> list[Run]:
    """JSQ is 0.1 s quicker in every seed, give or take 0.01 s."""
    write_seeds(directory, "round_robin", [1.0, 2.0, 3.0, 4.0])
    write_seeds(directory, "jsq", [0.9, 1.91, 2.89, 3.9])
    return load_runs(directory)


def verdict(runs: list[Run]) -> Any:
    table = comparison(metrics_frame(runs), "round_robin")
    (row,) = table[table["policy"] == "jsq"].to_dict("records")
    return row


def test_a_placebo_makes_no_setting_and_no_policy(tmp_path: Path) -> None:
    write_both(tmp_path)
    write_seeds(tmp_path, "jsq", [0.9, 1.9, 2.9, 3.9], tie_shift=1)
    frame = metrics_frame(load_runs(tmp_path))
    assert frame.attrs["settings"] == []
    (block,) = blocks_of(frame)
    assert block.samples["jsq"].metrics["ttft_mean_s"].tolist() == [0.9, 1.91, 2.89, 3.9]
    (placebo,) = block.placebos["jsq"]
    assert placebo.metrics["ttft_mean_s"].tolist() == [0.9, 1.9, 2.9, 3.9]
    assert list(block.placebos) == ["jsq"]


def test_placebos_alone_are_a_policy_like_any_other(tmp_path: Path) -> None:
    write_seeds(tmp_path, "jsq", [0.9, 1.9, 2.9, 3.9], tie_shift=1)
    (block,) = blocks_of(metrics_frame(load_runs(tmp_path)))
    assert len(block.samples["jsq"].seeds) == 4
    assert not block.placebos


def test_as_a_policy_key_the_shift_makes_policies(tmp_path: Path) -> None:
    write_both(tmp_path)
    write_seeds(tmp_path, "jsq", [0.9, 1.9, 2.9, 3.9], tie_shift=1)
    frame = metrics_frame(load_runs(tmp_path), ["routing.tie_shift"])
    assert set(frame["policy"]) == {"round_robin tie_shift=0", "jsq tie_shift=0", "jsq tie_shift=1"}
    assert not any(block.placebos for block in blocks_of(frame))


def test_without_placebos_the_interval_alone_decides(tmp_path: Path) -> None:
    row = verdict(write_both(tmp_path))
    assert row["verdict"] == "better"
    assert pd.isna(row["noise_floor"])


@pytest.mark.parametrize(
    ("router", "change_s", "expected"),
    [
        ("jsq", 0.01, "better"),
        ("jsq", 0.2, "within noise"),
        ("round_robin", -0.2, "within noise"),
    ],
)
def test_a_verdict_needs_more_than_the_placebos_of_either_side(
    tmp_path: Path, router: str, change_s: float, expected: str
) -> None:
    write_both(tmp_path)
    plain = {"jsq": [0.9, 1.91, 2.89, 3.9], "round_robin": [1.0, 2.0, 3.0, 4.0]}[router]
    write_seeds(tmp_path, router, [value + change_s for value in plain], tie_shift=1)
    row = verdict(load_runs(tmp_path))
    assert row["noise_floor"] == pytest.approx(abs(change_s))
    assert row["verdict"] == expected
    assert row["difference"] == pytest.approx(-0.1)


def write_skewed(directory: Path, changes_s: list[float]) -> pd.DataFrame:
    """JSQ against round robin over as many seeds as changes."""
    for seed, change_s in enumerate(changes_s):
        for router, ttft_s in (("round_robin", 1.0 + seed), ("jsq", 1.0 + seed + change_s)):
            write_job(
                directory / f"{router}{seed}",
                f"routing={router}",
                seed=seed,
                metrics={"ttft_mean_s": ttft_s},
            )
    return metrics_frame(load_runs(directory))


@pytest.mark.parametrize("method", ["bootstrap", "percentile"])
def test_paired_differences_take_the_bootstrap_that_is_asked_for(
    tmp_path: Path, method: str
) -> None:
    changes = [0.1, 0.2, 0.1, 0.3, 0.1, 0.2, 0.1, 2.0, 0.1, 0.2, 0.1, 0.1]
    table = comparison(write_skewed(tmp_path, changes), "round_robin", method=method)
    (row,) = table[table["policy"] == "jsq"].to_dict("records")
    rounded = [(1.0 + seed + change) - (1.0 + seed) for seed, change in enumerate(changes)]
    expected = mean_interval(rounded, method=method)
    assert row["difference_low"] == pytest.approx(expected.low, rel=1e-6)
    assert row["difference_high"] == pytest.approx(expected.high, rel=1e-6)
    # Student's test does not tell the two apart (p = 0.07), so neither does the bootstrap.
    assert row["verdict"] == "not distinguishable"


def test_a_bootstrap_that_covers_0_takes_a_verdict_back() -> None:
    pairs = Difference(1.0, -0.1, 2.0, 0.1, 12, "paired", 0.3, 11.0, 0.01, 0.95)
    assert _guarded(pairs, "ttft_mean_s", 0.95, float("nan")) == "not distinguishable"
    clear = replace(pairs, low=0.2)
    assert _guarded(clear, "ttft_mean_s", 0.95, float("nan")) == "worse"
    assert _guarded(clear, "ttft_mean_s", 0.95, 0.2) == "within noise"


def test_the_report_tells_what_the_floor_is_made_of(tmp_path: Path) -> None:
    write_both(tmp_path)
    write_seeds(tmp_path, "jsq", [1.1, 2.11, 3.09, 4.1], tie_shift=1)
    table, report = compare_runs(load_runs(tmp_path), baseline="round_robin")
    assert set(COLUMNS) <= set(table.columns)
    assert any("placebos" in note and "jsq" in note for note in report.notes)
    cells = [line for row in report.sections[0].rows for cell in row.cells for line in cell.lines]
    assert any(line.endswith("within noise") for line in cells)


def test_figures_do_not_draw_placebos(tmp_path: Path) -> None:
    write_both(tmp_path)
    write_seeds(tmp_path, "jsq", [1.1, 2.11, 3.09, 4.1], tie_shift=1)
    study = study_of(load_runs(tmp_path))
    assert len(study.rows) == 8
    assert study.placebos is not None
    assert len(study.placebos) == 4
    assert any("placebos" in note for note in study.notes)


def write_windows(directory: Path) -> list[Run]:
    for router, gain_s in (("round_robin", 0.0), ("jsq", 0.1)):
        for start in (0, 10, 20):
            write_job(
                directory / f"{router}{start}",
                f"routing={router}",
                f"trace.window_s=[{start},{start + 10}]",
                metrics={"ttft_mean_s": 1 + start / 10 - gain_s + start / 1e5 * (gain_s > 0)},
            )
    return load_runs(directory)


def test_windows_of_a_trace_are_settings_unless_they_are_units(tmp_path: Path) -> None:
    runs = write_windows(tmp_path)
    assert len(blocks_of(metrics_frame(runs))) == 3
    (block,) = blocks_of(metrics_frame(runs, unit_keys=["trace.window_s"]))
    assert len(block.samples["jsq"].seeds) == 3
    table, report = compare_runs(runs, baseline="round_robin", unit_keys=["trace.window_s"])
    (row,) = table[table["policy"] == "jsq"].to_dict("records")
    assert (row["num_pairs"], row["difference_method"]) == (3, "paired")
    assert row["verdict"] == "better"
    assert "every value of trace.window_s counts as a run of its own" in report.notes


def test_an_unknown_unit_key_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no run has the key trace.windows"):
        metrics_frame(write_windows(tmp_path), unit_keys=["trace.windows"])
