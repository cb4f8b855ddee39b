"""Figures of runs: what is drawn, checked by hand on small runs."""

import subprocess
import sys
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from experiments.figures import NAMES, figure, plotted_data
from experiments.figures.catalogue import module_of
from experiments.figures.errors import FigureError
from experiments.figures.study import study_of
from experiments.results.load import Run
from tests.unit.experiments.figure_runs import (
    latency_metrics,
    requests_table,
    study_runs,
    write_run,
)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    return study_runs(tmp_path_factory.mktemp("runs"))


def test_an_unknown_figure_lists_those_that_exist(runs: list[Run]) -> None:
    with pytest.raises(FigureError, match=r"unknown figure 'pie': must be one of latency_vs_rate,"):
        figure("pie", runs)


@pytest.mark.parametrize("name", NAMES)
def test_an_unknown_option_is_refused(name: str, runs: list[Run]) -> None:
    with pytest.raises(FigureError, match=f"figure {name} has no option 'colour'"):
        plotted_data(name, runs, colour="red")


@pytest.mark.parametrize("name", NAMES)
def test_drawing_changes_neither_the_table_nor_the_settings(name: str, runs: list[Run]) -> None:
    matplotlib.rcParams["font.size"] = 13.0
    table = plotted_data(name, runs)
    copy = table.copy(deep=True)
    picture = module_of(name).draw(table, study_of(runs).looks)
    pd.testing.assert_frame_equal(table, copy)
    assert isinstance(picture, Figure)
    assert matplotlib.rcParams["font.size"] == 13.0
    matplotlib.rcdefaults()


def test_a_point_is_the_mean_over_seeds_with_its_t_interval(runs: list[Run]) -> None:
    table = plotted_data("latency_vs_rate", runs, quantities=["ttft"], statistics=["mean"])
    point = table[(table["series"] == "jsq") & (table["setting"] == 0)].iloc[0]
    # values 0.21 and 0.231: mean 0.2205, standard error 0.0105, t(1 degree) = 12.7062
    assert point["value"] == pytest.approx(0.2205)
    assert point["high"] - point["value"] == pytest.approx(0.0105 * 12.7062, rel=1e-5)
    assert point["value"] - point["low"] == pytest.approx(0.0105 * 12.7062, rel=1e-5)
    assert point["num_runs"] == 2
    # 9 arrivals in 8 s
    assert point["offered_rate_per_s"] == pytest.approx(9 / 8)


def test_a_single_run_has_no_interval(tmp_path: Path) -> None:
    run = write_run(tmp_path / "0", metrics=latency_metrics(0.1))
    table = plotted_data("latency_vs_rate", [run])
    assert table["value"].notna().all()
    assert table[["low", "high"]].isna().all(axis=None)


def test_seeds_that_change_nothing_count_once(tmp_path: Path) -> None:
    both = [
        write_run(tmp_path / f"{k}", seed=k, metrics=latency_metrics(0.1), config={"trace": {}})
        for k in range(2)
    ]
    table = plotted_data("latency_vs_rate", both)
    assert set(table.loc[table["kind"] == "simulated", "num_runs"]) == {1}


def test_replications_are_observations(tmp_path: Path) -> None:
    parts = [
        {"replication": k, "seed": k, "regime": "stable", "metrics": latency_metrics(0.1 + 0.1 * k)}
        for k in range(3)
    ]
    run = write_run(tmp_path / "0", metrics=latency_metrics(0.2), replications=parts)
    table = plotted_data("heatmap", [run], metric="ttft_mean_s")
    assert table["num_runs"].tolist() == [3]
    assert table["value"].tolist() == pytest.approx([0.2])


def test_the_worst_regime_of_the_seeds_is_that_of_the_point(runs: list[Run]) -> None:
    table = plotted_data("frontier", runs)
    shaky = table[table["regime"] != "stable"]
    assert set(zip(shaky["series"], shaky["setting"], strict=True)) == {("round_robin", 1)}


def test_a_shaky_point_is_hollow_and_the_legend_says_so(runs: list[Run]) -> None:
    picture = figure("frontier", runs, quantities=["ttft"])
    markers = [line for line in picture.axes[0].lines if line.get_marker() in ("o", "s")]
    hollow = [line for line in markers if line.get_markerfacecolor() == "white"]
    assert sum(len(np.asarray(line.get_xdata())) for line in hollow) == 1
    texts = [text.get_text() for text in picture.legends[0].get_texts()]
    assert "hollow: overloaded or backlogged" in texts


def test_intervals_are_drawn_as_bars(runs: list[Run]) -> None:
    picture = figure("latency_vs_rate", runs, quantities=["ttft"], statistics=["mean"])
    bars = [part for part in picture.axes[0].collections if isinstance(part, LineCollection)]
    assert sum(len(part.get_segments()) for part in bars) == 4


def test_settings_go_by_rising_rate_whatever_the_order_of_the_runs(runs: list[Run]) -> None:
    study = study_of(list(reversed(runs)))
    assert [study.offered_rate(setting) for setting in study.settings] == [9 / 8, 9 / 4]
    assert study.series == ["jsq", "round_robin"]


def test_what_is_no_load_makes_another_line_of_the_same_colour(tmp_path: Path) -> None:
    both = [
        write_run(
            tmp_path / f"{k}",
            "routing=jsq",
            f"engine.max_num_seqs={64 * (k + 1)}",
            metrics=latency_metrics(0.1 * (k + 1)),
        )
        for k in range(2)
    ]
    study = study_of(both)
    assert study.series == ["jsq, max_num_seqs=64", "jsq, max_num_seqs=128"]
    first, second = (study.looks[name] for name in study.series)
    assert (first.colour, first.marker) == (second.colour, second.marker)
    assert first.line != second.line


def test_a_key_may_make_another_policy(tmp_path: Path) -> None:
    both = [
        write_run(
            tmp_path / f"{k}",
            f"engine.max_num_seqs={64 * (k + 1)}",
            metrics=latency_metrics(0.1 * (k + 1)),
        )
        for k in range(2)
    ]
    keys = ["engine.max_num_seqs"]
    table = plotted_data("differences", both, metrics=["ttft_mean_s"], policy_keys=keys)
    (baseline,), (series,) = table["baseline"], table["series"]
    assert baseline.endswith("max_num_seqs=64")
    assert series.endswith("max_num_seqs=128")
    assert table["relative_difference"].tolist() == pytest.approx([1.0])


def test_runs_that_did_not_end_well_are_left_out_and_counted(tmp_path: Path) -> None:
    good = write_run(tmp_path / "0", metrics=latency_metrics(0.1))
    bad = write_run(tmp_path / "1", "routing=jsq", status="failed", regime=None)
    half = {"status": "interrupted", "metrics": latency_metrics(0.2)}
    stopped = write_run(tmp_path / "2", "routing=random", document=half)
    table = plotted_data("latency_vs_rate", [good, bad, stopped])
    assert set(table.loc[table["kind"] == "simulated", "series"]) == {"round_robin"}
    assert table.attrs["notes"] == [
        "2 of 3 runs failed, were infeasible or were interrupted: not drawn"
    ]
    with pytest.raises(FigureError, match="none of the 1 runs given ended well"):
        plotted_data("latency_vs_rate", [bad])


def test_copies_of_a_run_are_drawn_once(tmp_path: Path) -> None:
    copies = [write_run(tmp_path / f"{k}", metrics=latency_metrics(0.1)) for k in range(2)]
    table = plotted_data("latency_vs_rate", copies)
    assert "1 of 2 runs repeat another one and are drawn once" in table.attrs["notes"]


def test_the_default_rate_is_the_highest_that_all_policies_sustain(runs: list[Run]) -> None:
    study = study_of(runs)
    assert study.pick(None) == 0
    assert study.pick(100.0) == 1
    assert study.pick(1.3) == 0
    assert study_of(runs[4:]).pick(None) == 1
    assert study_of(runs[2:4]).pick(None) == 0


def test_an_objective_is_drawn_where_it_lies_near_the_points(runs: list[Run]) -> None:
    table = plotted_data("latency_vs_rate", runs)
    # TTFT p99 reaches 0.88 x 2 s, its mean 0.46 s; TPOT p99 goes from 84 ms to 185 ms
    objectives = table[table["kind"] == "slo"]
    assert dict(zip(objectives["metric"], objectives["value"], strict=True)) == {
        "ttft_p99_s": 2.0,
        "tpot_p99_s": 0.1,
    }


@pytest.mark.parametrize("base_s", [0.1, 40.0])
def test_an_objective_far_from_the_points_is_not_drawn(base_s: float, tmp_path: Path) -> None:
    run = write_run(tmp_path / "0", metrics=latency_metrics(base_s))
    table = plotted_data("latency_vs_rate", [run], quantities=["ttft"])
    assert set(table["kind"]) == {"simulated"}


def test_settings_of_the_user_do_not_show(runs: list[Run]) -> None:
    with matplotlib.rc_context({"legend.shadow": True, "axes.linewidth": 9.0}):
        picture = figure("frontier", runs)
    assert not picture.legends[0].shadow
    assert picture.axes[0].spines["left"].get_linewidth() == 0.6


def test_goodput_has_the_offered_rate_beside_it_and_says_what_it_is_per(runs: list[Run]) -> None:
    table = plotted_data("goodput_vs_rate", runs)
    offered = table[table["kind"] == "offered"]
    assert offered["value"].tolist() == offered["offered_rate_per_s"].tolist() == [0.0, 9 / 4]
    picture = figure("goodput_vs_rate", runs)
    assert "offered rate" in [text.get_text() for text in picture.legends[0].get_texts()]
    assert picture.get_suptitle().endswith("goodput per second of makespan, drain included")


@pytest.mark.parametrize("name", ["latency_vs_rate", "goodput_vs_rate", "heatmap"])
def test_one_rate_is_refused_as_on_the_command_line(name: str, runs: list[Run]) -> None:
    with pytest.raises(FigureError, match="all runs have the same offered rate"):
        figure(name, [run for run in runs if "trace.rate_scale=1.0" in run.overrides])


def test_a_frontier_of_one_point_is_refused_and_of_two_is_not(runs: list[Run]) -> None:
    with pytest.raises(FigureError, match="there is one point: it takes several loads or policies"):
        figure("frontier", runs[:2])
    assert isinstance(figure("frontier", runs[:4]), Figure)
    assert isinstance(figure("frontier", [*runs[:2], *runs[4:6]]), Figure)


def test_one_name_need_not_stand_in_a_list(runs: list[Run]) -> None:
    table = plotted_data("latency_vs_rate", runs, quantities="ttft", statistics="mean")
    assert set(table["metric"]) == {"ttft_mean_s"}
    assert set(plotted_data("differences", runs, metrics="ttft_p99_s")["metric"]) == {"ttft_p99_s"}


def test_a_difference_without_interval_stands_inside_its_panel(runs: list[Run]) -> None:
    picture = figure("differences", [runs[0], runs[4]])
    picture.draw_without_rendering()
    for axes in picture.axes:
        (line,) = (line for line in axes.lines if line.get_marker() not in ("None", ""))
        low, high = axes.get_xlim()
        place = (float(np.asarray(line.get_xdata())[0]) - low) / (high - low)
        assert 0.05 < place < 0.95
    setting, policy = picture.axes[0].get_yticklabels()
    assert setting.get_window_extent().y0 > policy.get_window_extent().y1 - 1


def test_the_last_hundredth_of_a_distribution_can_be_read(runs: list[Run]) -> None:
    (axes,) = figure("cdf", runs, quantities=["ttft"]).axes
    heights = axes.transAxes.inverted().transform(
        axes.transData.transform([(1.0, share) for share in (0, 50, 90, 99, 100)])
    )[:, 1]
    assert heights[0] == pytest.approx(0)
    assert heights[-1] == pytest.approx(1)
    assert np.diff(heights).min() > 0.12


def test_time_begins_at_0_and_few_instances_are_all_named(tmp_path: Path) -> None:
    table = requests_table(3.0 + np.arange(9), np.full(9, 0.1), np.full(9, 2))
    for number, named in ((4, ["0", "1", "2", "3"]), (20, ["0", "19"])):
        run = write_run(
            tmp_path / f"{number}",
            metrics=latency_metrics(0.1),
            requests=table,
            config={"cluster": {"num_instances": number}},
        )
        axes = figure("timeline", [run]).axes[-2]
        assert axes.get_xlim()[0] == 0.0
        assert [tick.get_text() for tick in axes.get_yticklabels()] == named


def test_a_metric_without_values_is_named(tmp_path: Path) -> None:
    metrics = {**latency_metrics(0.1), "tpot_mean_s": None}
    run = write_run(tmp_path / "0", metrics=metrics)
    table = plotted_data("latency_vs_rate", [run])
    assert "tpot_mean_s" not in set(table["metric"])
    assert table.attrs["notes"] == ["no run has a value of tpot_mean_s"]
    with pytest.raises(FigureError, match="no metric 'speed' in the runs: must be one of"):
        plotted_data("heatmap", [run], metric="speed")


def test_cells_of_a_heatmap_hold_the_numbers_and_mark_shaky_ones(runs: list[Run]) -> None:
    picture = figure("heatmap", runs, metric="ttft_p99_s")
    cells = {text.get_position(): text.get_text() for text in picture.axes[0].texts}
    # four times the mean of 0.2 and 0.22 s, of 0.21 and 0.231 s, and twice that
    assert cells == {(0, 0): "0.84", (1, 0): "1.68 △", (0, 1): "0.88", (1, 1): "1.76"}


@pytest.fixture(scope="module")
def long_names(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    names = ["a_rather_long_name_of_a_policy", "another_name_as_long_as_that", "jsq", "my_own"]
    return study_runs(tmp_path_factory.mktemp("long"), names)


@pytest.mark.parametrize("name", NAMES)
def test_nothing_covers_anything(name: str, long_names: list[Run]) -> None:
    picture = figure(name, long_names)
    picture.draw_without_rendering()
    boxes = [axes.get_tightbbox() for axes in picture.axes]
    boxes += [legend.get_window_extent() for legend in picture.legends]
    boxes += [text.get_window_extent() for text in picture.texts]
    width, height = picture.canvas.get_width_height()
    for k, box in enumerate(boxes):
        assert box is not None
        assert box.x0 >= -1 and box.y0 >= -1 and box.x1 <= width + 1 and box.y1 <= height + 1
        for other in boxes[:k]:
            assert other is not None
            across = min(box.x1, other.x1) - max(box.x0, other.x0)
            upward = min(box.y1, other.y1) - max(box.y0, other.y0)
            assert across < 2 or upward < 2


def test_a_notebook_shows_a_figure_without_pyplot() -> None:
    code = (
        "import sys, experiments.figures as f; heavy = {'matplotlib', 'pandas', 'scipy'};"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules);"
        "from experiments.figures.style import new_figure;"
        "assert new_figure(2, 2)._repr_png_().startswith(b'\\x89PNG');"
        "assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_table_needs_requests_only_where_it_draws_them(tmp_path: Path) -> None:
    run = write_run(tmp_path / "0", metrics=latency_metrics(0.1))
    assert len(plotted_data("frontier", [run]))
    with pytest.raises(FigureError, match=r"no run has requests\.parquet with finished requests"):
        plotted_data("cdf", [run])
    with pytest.raises(FigureError, match=r"no run at this rate has requests\.parquet"):
        plotted_data("timeline", [run])
    with pytest.raises(FigureError, match=r"cost_totals in result\.json, nor steps\.parquet"):
        plotted_data("breakdown", [run])
    with pytest.raises(FigureError, match="no run has a tenant or slo_class"):
        plotted_data("classes", [run])
    with pytest.raises(FigureError, match="there is one policy"):
        plotted_data("differences", [run])


def test_a_million_requests_are_as_many_points_as_a_thousand(tmp_path: Path) -> None:
    count = 200_000
    arrivals = np.arange(count) / 100.0
    table = requests_table(arrivals, np.full(count, 0.1), np.full(count, 2))
    run = write_run(tmp_path / "0", metrics=latency_metrics(0.1), requests=table)
    for name in ("cdf", "timeline"):
        assert plotted_data(name, [run]).groupby("series").size().max() < 1500
