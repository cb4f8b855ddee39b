"""Goodput and SLO attainment against offered rate.

Goodput is per second of the makespan, the drain after the last arrival included: even where every
request is good it lies below the offered rate, the more so the shorter the run.
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.figures.errors import FigureError
from experiments.figures.lines import draw_lines, line_entries
from experiments.figures.looks import Look
from experiments.figures.points import COLUMNS, absent_metrics, load_axis, points_of
from experiments.figures.study import Study
from experiments.figures.style import (
    GREY,
    entry,
    head,
    legend_below,
    new_figure,
    rate_axis,
    width_of,
)
from experiments.figures.units import title_of, unit_of
from experiments.quantities import duration

OFFERED = "offered"
METRICS = ("goodput_per_s", "slo_attainment_ratio")


def data(study: Study) -> pd.DataFrame:
    """Points of lines.

    Returns:
        `kind` (simulated, or offered: the rate itself, for comparison), `metric`, `series`,
        `setting`, `offered_rate_per_s`, `users`, `value` (requests/s of the makespan, or a ratio),
        `low`, `high`, `num_runs`, `regime`.
    """
    study, notes = study.over_load()
    absent = absent_metrics(study, METRICS)
    if absent:
        raise FigureError(f"no run has a value of {', '.join(absent)}")
    points = points_of(study, METRICS)
    none = np.nan
    offered = [
        [OFFERED, METRICS[0], OFFERED, -1, end, none, end, none, none, 0, None]
        for end in _offered_ends(points)
    ]
    parts = [points, pd.DataFrame(offered, columns=list(COLUMNS))] if offered else [points]
    table = pd.concat(parts, ignore_index=True)
    table.attrs = {"head": _objectives(study), "notes": notes}
    return table


def _offered_ends(points: pd.DataFrame) -> list[float]:
    """Rates between which the offered rate is drawn: not far above the highest goodput."""
    highest = float(points.loc[points["metric"] == METRICS[0], "value"].max())
    rates = points["offered_rate_per_s"].dropna()
    if rates.empty or not highest > 0:
        return []
    return [0.0, min(float(rates.max()), 1.25 * highest)]


def _objectives(study: Study) -> str:
    """The objectives, where all runs share them."""
    found = {
        tuple(run.config.get("slo", {}).get(key) for key in ("ttft_s", "tpot_s"))
        for run in study.runs
    }
    limits = found.pop()
    if found or None in limits:
        return ""
    ttft, tpot = map(duration, limits)
    what = "goodput per second of makespan, drain included"
    return f"Good: TTFT at most {ttft} and TPOT at most {tpot}; {what}"


def draw(data: pd.DataFrame, looks: Mapping[str, Look]) -> Figure:
    """Goodput left, attainment right."""
    figure = new_figure(width_of(2), 1.95)
    grid = figure.subplots(1, 2)
    (x, x_title), y = load_axis(data), "value"
    for axes, metric in zip(grid, METRICS, strict=True):
        panel = data[data["metric"] == metric]
        unit = unit_of(metric, panel[y])
        offered = panel[panel["kind"] == OFFERED]
        axes.plot(offered[x], offered[y] * unit.factor, color=GREY, linestyle=":", linewidth=1)
        draw_lines(axes, panel, looks, x, y, (1.0, unit.factor), is_aside=True)
        axes.set_ylabel(f"{title_of(metric)} ({unit.name})")
        rate_axis(axes, x_title)
        axes.set_ylim(bottom=0)
    _zoom(grid[1], data.loc[data["metric"] == METRICS[1], "value"])
    head(figure, data.attrs.get("head", ""))
    entries = line_entries(data, looks)
    if (data["kind"] == OFFERED).any():
        entries.append(entry("offered rate", color=GREY, linestyle=":"))
    legend_below(figure, entries)
    return figure


def _zoom(axes: Axes, ratios: "pd.Series[float]") -> None:
    """The part of 0 to 100 % that holds the points, at least its upper tenth."""
    missing = max(0.1, 1 - float(ratios.min()))
    axes.set_ylim(max(0.0, 100 - 120 * missing), 100 + 6 * missing)
