"""Runs with a fixed number of users: shown over users, not over a rate that nobody offers."""

import json
from pathlib import Path

import numpy as np
import pytest

from experiments.compare.build import compare_runs
from experiments.figures import figure, plotted_data
from experiments.figures.errors import FigureError
from experiments.figures.study import study_of
from experiments.results.load import Run, load_runs
from experiments.results.metrics_frame import metrics_frame
from experiments.stats.per_request import class_frame
from tests.unit.experiments.figure_runs import (
    latency_metrics,
    requests_table,
    study_runs,
    write_run,
)

RATE_FIGURES = ("latency_vs_rate", "goodput_vs_rate", "heatmap")


def loop_runs(
    directory: Path, users: tuple[int, ...] = (8, 64, 16), key: str = "trace.replay_concurrency"
) -> list[Run]:
    """Two policies; the more users, the slower requests come, against the order of rates."""
    return [
        write_run(
            directory / f"{routing}{number}",
            f"routing={routing}",
            f"{key}={number}",
            metrics=latency_metrics(number / 100),
            requests=requests_table(np.arange(9) * number, np.full(9, 0.1), np.full(9, 2)),
            regime="closed_loop",
            document={"flags": [{"flag": "closed_loop", "concurrency": number, "text": "users"}]},
        )
        for routing in ("jsq", "random")
        for number in users
    ]


def test_a_closed_loop_has_users_and_no_offered_rate(tmp_path: Path) -> None:
    frame = metrics_frame(loop_runs(tmp_path, (8, 16)))
    assert frame["users"].tolist() == [8, 16] * 2
    assert frame["offered_rate_per_s"].isna().all()


def test_a_tenant_of_a_closed_loop_offers_no_rate(tmp_path: Path) -> None:
    table = requests_table(np.arange(4), np.full(4, 0.1), np.full(4, 2), tenant=list("aabb"))
    for regime, is_unknown in (("stable", False), ("closed_loop", True)):
        run = write_run(
            tmp_path / regime, metrics=latency_metrics(0.1), requests=table, regime=regime
        )
        rates = class_frame([run], "tenant")["offered_rate_per_s"]
        assert rates.isna().tolist() == [is_unknown] * 2


def test_titles_of_tables_name_the_users(tmp_path: Path) -> None:
    table, report = compare_runs(loop_runs(tmp_path, (1, 16)))
    assert [section.title for section in report.sections] == [
        "trace.replay_concurrency=1; 1 user",
        "trace.replay_concurrency=16; 16 users",
    ]
    assert table["offered_rate_per_s"].isna().all()
    assert set(table["users"]) == {1.0, 16.0}


@pytest.mark.parametrize(
    "key", ["trace.replay_concurrency", "trace.concurrency", "trace.arrivals.concurrency"]
)
def test_settings_go_by_rising_users(key: str, tmp_path: Path) -> None:
    study = study_of(loop_runs(tmp_path, key=key))
    assert study.series == ["jsq", "random"]
    assert [study.users(setting) for setting in study.settings] == [8, 16, 64]
    assert study.title_of(study.pick(None)) == "At 64 users"
    assert study.title_of(study.pick(15)) == "At 16 users"


@pytest.mark.parametrize("name", RATE_FIGURES)
def test_the_axis_is_users(name: str, tmp_path: Path) -> None:
    picture = figure(name, loop_runs(tmp_path))
    assert {axes.get_xlabel() for axes in picture.axes} <= {"Users", ""}
    assert "Users" in [axes.get_xlabel() for axes in picture.axes]
    table = plotted_data(name, loop_runs(tmp_path))
    assert table["offered_rate_per_s"].isna().all()
    assert set(table["users"].dropna()) == {8, 16, 64}


def test_cells_stand_over_the_users(tmp_path: Path) -> None:
    axes = figure("heatmap", loop_runs(tmp_path)).axes[0]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["8", "16", "64"]


def test_one_number_of_users_is_refused_over_users(tmp_path: Path) -> None:
    with pytest.raises(FigureError, match="all runs have the same number of users"):
        figure("latency_vs_rate", loop_runs(tmp_path, (8,)))


def test_rows_of_other_figures_are_named_by_users(tmp_path: Path) -> None:
    axes = figure("differences", loop_runs(tmp_path)).axes[0]
    labels = [tick.get_text() for tick in axes.get_yticklabels()]
    assert labels == ["8 users", "random", "16 users", "random", "64 users", "random"]
    assert figure("cdf", loop_runs(tmp_path)).get_suptitle() == "At 64 users"


@pytest.mark.parametrize("name", [*RATE_FIGURES, "frontier"])
def test_beside_offered_rates_a_closed_loop_is_left_out_and_told(name: str, tmp_path: Path) -> None:
    mixed = [*loop_runs(tmp_path / "loop"), *study_runs(tmp_path / "open")]
    table = plotted_data(name, mixed)
    assert table["users"].isna().all()
    assert set(table.loc[table["offered_rate_per_s"] > 0, "offered_rate_per_s"]) == {9 / 8, 9 / 4}
    note = "6 runs with a fixed number of users offer no rate: not drawn (jsq, random)"
    assert note in table.attrs["notes"]
    assert study_of(mixed).title_of(study_of(mixed).pick(None)).endswith("requests/s offered")
    assert study_of(mixed).title_of(study_of(mixed).pick(1e9)) == "At 2.25 requests/s offered"


def test_measured_runs_stand_over_their_own_users(tmp_path: Path) -> None:
    result = {"request_throughput": 3.5, "request_rate": "inf", "mean_ttft_ms": 50.0}
    for name, more in {"a": {"max_concurrency": 12}, "b": {}}.items():
        (tmp_path / f"{name}.json").write_text(json.dumps({**result, **more}))
    files = [tmp_path / "a.json", tmp_path / "b.json"]
    table = plotted_data("latency_vs_rate", loop_runs(tmp_path / "runs"), measured=files)
    assert table.loc[table["kind"] == "measured", "users"].tolist() == [12]
    note = "1 measured runs without max_concurrency are not drawn over users"
    assert table.attrs["notes"] == [note]


def test_runs_written_without_the_flag_are_known_by_their_options(tmp_path: Path) -> None:
    write_run(tmp_path / "0", "trace.replay_concurrency=8", requests=requests_table([0, 1], 1, 2))
    assert metrics_frame(load_runs(tmp_path))["users"].tolist() == [8]
