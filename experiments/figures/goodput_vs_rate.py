"""Goodput and SLO attainment against offered rate."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.figures.errors import FigureError
from experiments.figures.lines import draw_lines, line_entries
from experiments.figures.looks import Look
from experiments.figures.points import COLUMNS, absent_metrics, points_of
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

METRICS = ("goodput_per_s", "slo_attainment_ratio")


def data(study: Study) -> pd.DataFrame:
    """Points of lines.

    Returns:
        `kind` (simulated, or ideal: every request good), `metric`, `series`, `setting`,
        `offered_rate_per_s`, `value` (requests/s, or a ratio), `low`, `high`, `num_runs`, `regime`.
    """
    absent = absent_metrics(study, METRICS)
    if absent:
        raise FigureError(f"no run has a value of {', '.join(absent)}")
    points = points_of(study, METRICS)
    ends = _ideal_ends(points)
    none = np.nan
    ideal = [["ideal", METRICS[0], "ideal", -1, end, end, none, none, 0, None] for end in ends]
    parts = [points, pd.DataFrame(ideal, columns=list(COLUMNS))] if ideal else [points]
    table = pd.concat(parts, ignore_index=True)
    table.attrs = {"head": _objectives(study)}
    return table


def _ideal_ends(points: pd.DataFrame) -> list[float]:
    """Rates between which the ideal is drawn: not far above the highest goodput."""
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
    return f"Good: TTFT at most {ttft} and TPOT at most {tpot}"


def draw(data: pd.DataFrame, looks: Mapping[str, Look]) -> Figure:
    """Goodput left, attainment right."""
    figure = new_figure(width_of(2), 1.95)
    grid = figure.subplots(1, 2)
    x, y = "offered_rate_per_s", "value"
    for axes, metric in zip(grid, METRICS, strict=True):
        panel = data[data["metric"] == metric]
        unit = unit_of(metric, panel[y])
        ideal = panel[panel["kind"] == "ideal"]
        axes.plot(ideal[x], ideal[y] * unit.factor, color=GREY, linestyle=":", linewidth=1)
        draw_lines(axes, panel, looks, x, y, (1.0, unit.factor), is_aside=True)
        axes.set_ylabel(f"{title_of(metric)} ({unit.name})")
        rate_axis(axes)
        axes.set_ylim(bottom=0)
    _zoom(grid[1], data.loc[data["metric"] == METRICS[1], "value"])
    head(figure, data.attrs.get("head", ""))
    entries = line_entries(data, looks)
    if (data["kind"] == "ideal").any():
        entries.append(entry("every request good", color=GREY, linestyle=":"))
    legend_below(figure, entries)
    return figure


def _zoom(axes: Axes, ratios: "pd.Series[float]") -> None:
    """The part of 0 to 100 % that holds the points, at least its upper tenth."""
    missing = max(0.1, 1 - float(ratios.min()))
    axes.set_ylim(max(0.0, 100 - 120 * missing), 100 + 6 * missing)
