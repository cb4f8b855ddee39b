"""Latency against offered rate: mean and p99 of TTFT, TPOT and end-to-end latency."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.figures.errors import FigureError
from experiments.figures.lines import draw_lines, draw_measured, line_entries
from experiments.figures.looks import MEASURED, Look
from experiments.figures.measured import MeasuredFiles, measured_runs
from experiments.figures.points import COLUMNS, absent_metrics, load_axis, points_of
from experiments.figures.study import Study
from experiments.figures.style import (
    GREY,
    entry,
    legend_below,
    new_figure,
    rate_axis,
    value_axis,
    width_of,
)
from experiments.figures.units import title_of, unit_of

PANEL_IN = 1.55


def data(
    study: Study,
    *,
    quantities: Sequence[str] = ("ttft", "tpot", "e2e"),
    statistics: Sequence[str] = ("mean", "p99"),
    measured: MeasuredFiles | None = None,
) -> pd.DataFrame:
    """Points of lines, seconds.

    Args:
        study: the runs.
        quantities: columns of panels: of ttft, tpot, itl, e2e, queue.
        statistics: rows of panels: of mean, p50, p90, p99.
        measured: result files of `vllm bench serve`.

    Returns:
        `kind` (simulated, measured or slo), `metric`, `series`, `setting`, `offered_rate_per_s`,
        `users`, `value`, `low`, `high`, `num_runs`, `regime`.
    """
    study, notes = study.over_load()
    metrics = [f"{name}_{statistic}_s" for statistic in statistics for name in quantities]
    absent = absent_metrics(study, metrics)
    shown = [name for name in metrics if name not in absent]
    if not shown:
        raise FigureError(f"no run has any of {', '.join(metrics)}")
    points = points_of(study, shown)
    stars, more = _measured_rows(measured, shown, study.is_closed)
    rows = [*stars, *_slo_rows(study, points)]
    parts = [points, pd.DataFrame(rows, columns=list(COLUMNS))] if rows else [points]
    table = pd.concat(parts, ignore_index=True)
    table.attrs = {"notes": [*notes, *(f"no run has a value of {name}" for name in absent), *more]}
    return table


def _measured_rows(
    measured: MeasuredFiles | None, metrics: Sequence[str], is_closed: bool
) -> tuple[list[list[object]], list[str]]:
    """Measured points, and a note on the runs that have no place over users."""
    none = np.nan
    runs = measured_runs(measured)
    placed = [run for run in runs if not is_closed or run.users is not None]
    rows: list[list[object]] = []
    for run in placed:
        load = (none, run.users) if is_closed else (run.offered_rate_per_s, none)
        rows += [
            ["measured", name, MEASURED, -1, *load, run.metrics[name], none, none, 1, None]
            for name in metrics
            if name in run.metrics
        ]
    left_out = len(runs) - len(placed)
    why = "measured runs without max_concurrency are not drawn over users"
    return rows, [f"{left_out} {why}"] if left_out else []


def _slo_rows(study: Study, points: pd.DataFrame) -> list[list[object]]:
    """Objectives that all runs share, where they lie near the points of a panel."""
    rows: list[list[object]] = []
    for metric, panel in points.groupby("metric", sort=False):
        key = f"{str(metric).partition('_')[0]}_s"
        limits = {run.config.get("slo", {}).get(key) for run in study.runs}
        limit = limits.pop() if len(limits) == 1 else None
        if limit is None:
            continue
        if panel["value"].min() / 1.5 <= limit <= panel["value"].max() * 1.5:
            none = np.nan
            rows.append(["slo", metric, "SLO", -1, none, none, limit, none, none, 0, None])
    return rows


def draw(data: pd.DataFrame, looks: Mapping[str, Look]) -> Figure:
    """One panel per metric, lines per series."""
    simulated = data[data["kind"] == "simulated"]
    metrics = list(dict.fromkeys(simulated["metric"]))
    columns = len(dict.fromkeys(name.partition("_")[0] for name in metrics))
    rows = -(-len(metrics) // columns)
    figure = new_figure(width_of(columns), rows * PANEL_IN + 0.1)
    grid = figure.subplots(rows, columns, squeeze=False)
    x, x_title = load_axis(data)
    for k, metric in enumerate(metrics):
        axes = grid[k // columns, k % columns]
        _draw_panel(axes, data[data["metric"] == metric], metric, looks, x)
        rate_axis(axes, x_title)
        if k + columns < len(metrics):
            axes.set_xlabel("")
    for axes in grid.flat[len(metrics) :]:
        axes.remove()
    entries = line_entries(data, looks)
    if (data["kind"] == "slo").any():
        entries.append(entry("SLO", color=GREY, linestyle=":"))
    legend_below(figure, entries)
    return figure


def _draw_panel(
    axes: Axes, panel: pd.DataFrame, metric: str, looks: Mapping[str, Look], x: str
) -> None:
    unit = unit_of(metric, panel["value"])
    y = "value"
    draw_lines(axes, panel, looks, x, y, (1.0, unit.factor), is_aside=True)
    draw_measured(axes, panel, x, y, (1.0, unit.factor))
    for limit in panel.loc[panel["kind"] == "slo", y]:
        axes.axhline(limit * unit.factor, color=GREY, linestyle=":", linewidth=1)
    axes.set_ylabel(f"{title_of(metric)} ({unit.name})")
    value_axis(axes, "y", panel["value"])
