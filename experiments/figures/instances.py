"""Prefix hits and share of the requests of every instance, by policy."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from experiments.figures.errors import FigureError
from experiments.figures.looks import Look
from experiments.figures.study import Study
from experiments.figures.style import GREY, PAGE_IN, entry, head, legend_below, new_figure

PANELS = {
    "prefix_hit_ratio": "Prefix hits\n(% of prompt tokens)",
    "request_share_ratio": "Share of the requests\n(%)",
    "mean_requests": "Requests in the system\n(time mean)",
}
"""Per instance, as in `instances` of result.json."""

HEIGHT_IN, ROW_IN = 0.8, 0.24


def data(study: Study, *, rate: float | None = None) -> pd.DataFrame:
    """One row per policy, instance and figure: means over the runs of the policy.

    Instances are in the order of their own requests, most first, in every run: their numbers mean
    nothing, and means over seeds by number would level what differs.

    Args:
        study: the runs.
        rate: offered rate, requests/s: the nearest one is drawn; None as in the figure cdf.

    Returns:
        `series`, `rank` (from 0), `metric`, `num_runs`, `value`.
    """
    setting = study.pick(rate)
    rows: list[dict[str, Any]] = []
    for series in study.series:
        tables = [_ranked(run.document) for run in study.runs_of(series, setting)]
        tables = [table for table in tables if table is not None]
        if not tables:
            continue
        merged = pd.concat(tables).groupby("rank")[list(PANELS)].mean()
        rows += [
            {
                "series": series,
                "rank": int(str(rank)),
                "metric": metric,
                "num_runs": len(tables),
                "value": float(values[metric]),
            }
            for rank, values in merged.iterrows()
            for metric in PANELS
        ]
    if not rows:
        raise FigureError("no run says what its instances did, or all have a single one")
    table = pd.DataFrame(rows)
    table.attrs = {"head": study.title_of(setting), "notes": []}
    return table


def _ranked(document: Mapping[str, Any]) -> pd.DataFrame | None:
    """Instances of a run by falling number of requests; None of a single one."""
    found = document.get("instances") or []
    if len(found) < 2:
        return None
    table = pd.DataFrame(found)
    order = np.lexsort([table["instance"], -table["num_requests"]])
    ranked = table.iloc[order].reset_index(drop=True)
    ranked[list(PANELS)] = ranked[list(PANELS)].astype(float)
    return ranked.assign(rank=np.arange(len(ranked)))


def draw(data: pd.DataFrame, looks: Mapping[str, Look]) -> Figure:
    """One panel per figure; a row per policy: a mark per instance, and a bar at their mean."""
    series = [name for name in looks if (data["series"] == name).any()]
    figure = new_figure(PAGE_IN, HEIGHT_IN + ROW_IN * len(series))
    grid = figure.subplots(1, len(PANELS), sharey=True, squeeze=False)[0]
    for axes, (metric, title) in zip(grid, PANELS.items(), strict=True):
        _draw_panel(axes, data[data["metric"] == metric], metric, series, looks)
        axes.set_xlabel(title)
    grid[0].set_yticks(range(len(series)), series)
    grid[0].set_ylim(len(series) - 0.4, -0.6)
    head(figure, data.attrs.get("head", ""))
    style = {"color": GREY, "linestyle": "none"}
    legend_below(
        figure,
        [
            entry("an instance", marker="o", alpha=0.6, **style),
            entry("mean over instances", marker="|", markersize=8, **style),
        ],
    )
    return figure


def _draw_panel(
    axes: Axes, panel: pd.DataFrame, metric: str, series: list[str], looks: Mapping[str, Look]
) -> None:
    factor = 100.0 if metric.endswith("_ratio") else 1.0
    for at, name in enumerate(series):
        look = looks[name]
        values = factor * panel.loc[panel["series"] == name, "value"].to_numpy(dtype=float)
        known = values[np.isfinite(values)]
        if not len(known):
            continue
        axes.hlines(at, known.min(), known.max(), colors=look.colour, linewidth=0.8)
        axes.plot(
            known,
            np.full(len(known), at),
            linestyle="none",
            marker=look.marker,
            markersize=3.5,
            color=look.colour,
            alpha=0.6,
        )
        axes.plot([known.mean()], [at], marker="|", markersize=9, color=look.colour)
    largest = factor * float(panel["value"].max())
    axes.set_xlim(0.0, 1.06 * largest if largest > 0 else 1.0)
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", length=0)
