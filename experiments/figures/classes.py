"""Latency of each tenant or SLO class under each policy: median and p99."""

from collections.abc import Mapping

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.figures.errors import FigureError
from experiments.figures.looks import Look
from experiments.figures.study import Study
from experiments.figures.style import (
    GREY,
    PAGE_IN,
    entry,
    head,
    legend_below,
    new_figure,
    value_axis,
)
from experiments.figures.units import title_of, unit_of
from experiments.stats.per_request import CLASSES, class_frame
from sim.errors import ConfigError

QUANTITIES = ("ttft", "tpot", "e2e")
STATISTICS = ("p50", "p99")
ROW_IN = 0.16
MAX_CLASSES = 12


def data(study: Study, *, by: str | None = None, rate: float | None = None) -> pd.DataFrame:
    """Percentiles by class: means over seeds and replications, seconds.

    Args:
        study: the runs.
        by: tenant or slo_class; None takes the first of them that the runs have.
        rate: offered rate, requests/s: the nearest one is drawn; None as in the figure cdf.

    Returns:
        `by`, `class` (the MAX_CLASSES with most requests), `series`, `metric`, `value`,
        `num_requests` (mean over the runs).
    """
    setting = study.pick(rate)
    frame, by = _frame(study, by)
    frame = frame.merge(study.rows.drop_duplicates("run")[["run", "series", "setting"]], on="run")
    frame = frame[frame["setting"] == setting]
    frame[by] = frame[by].astype(str)
    sizes = frame.groupby(by)["num_requests"].sum()
    kept = sorted(sizes.sort_values(ascending=False, kind="stable").index[:MAX_CLASSES])
    metrics = [f"{name}_{statistic}_s" for name in QUANTITIES for statistic in STATISTICS]
    rows = [
        {
            "by": by,
            "class": name,
            "series": series,
            "metric": metric,
            "value": float(part[metric].mean()),
            "num_requests": float(part["num_requests"].mean()),
        }
        for name in kept
        for series in study.series
        if len(part := frame[(frame[by] == name) & (frame["series"] == series)])
        for metric in metrics
    ]
    table = pd.DataFrame(rows)
    left_out = len(sizes) - len(kept)
    notes = [f"the {left_out} smallest of {len(sizes)} classes are not drawn"] if left_out else []
    table.attrs = {"head": study.title_of(setting), "notes": notes}
    return table


def _frame(study: Study, by: str | None) -> tuple[pd.DataFrame, str]:
    """Metrics by class, and the class."""
    why = f"no run has a {' or '.join(CLASSES)}"
    for name in CLASSES if by is None else (by,):
        try:
            return class_frame(study.runs, name), name
        except ConfigError as error:
            why = str(error) if by is not None else why
    raise FigureError(why)


def draw(data: pd.DataFrame, looks: Mapping[str, Look]) -> Figure:
    """One panel per latency; a line from the median to the p99 for each policy, by class."""
    present = set(zip(data["class"], data["series"], strict=True))
    rows: list[tuple[str, str | None]] = []
    for name in dict.fromkeys(data["class"]):
        rows += [(name, None), *((name, series) for series in looks if (name, series) in present)]
    figure = new_figure(PAGE_IN, 0.75 + ROW_IN * len(rows))
    grid = figure.subplots(1, len(QUANTITIES), sharey=True)
    for axes, quantity in zip(grid, QUANTITIES, strict=True):
        _draw_panel(axes, data, quantity, rows, looks)
    counts = data.drop_duplicates("class").set_index("class")["num_requests"]
    labels = [
        series if series is not None else f"{name} ({counts[name]:,.0f} requests)"
        for name, series in rows
    ]
    grid[0].set_yticks(range(len(rows)), labels)
    for tick, (_, series) in zip(grid[0].get_yticklabels(), rows, strict=True):
        tick.set_fontweight("normal" if series else "bold")
    grid[0].set_ylim(len(rows) - 0.4, -0.6)
    title = {"tenant": "By tenant", "slo_class": "By SLO class"}[str(data["by"].iloc[0])]
    head(figure, ". ".join(filter(None, [title, data.attrs.get("head", "")])))
    style = {"color": GREY, "linestyle": "none"}
    legend_below(
        figure,
        [entry("median", marker="o", **style), entry("p99", marker="|", markersize=8, **style)],
    )
    return figure


def _draw_panel(
    axes: Axes,
    data: pd.DataFrame,
    quantity: str,
    rows: list[tuple[str, str | None]],
    looks: Mapping[str, Look],
) -> None:
    place = {key: k for k, key in enumerate(rows)}
    panel = data[data["metric"].str.startswith(f"{quantity}_")]
    unit = unit_of(f"{quantity}_s", panel["value"])
    for key, bar in panel.groupby(["class", "series"], sort=False):
        name, series = map(str, key)
        look, at = looks[series], place[name, series]
        low, high = (
            unit.factor * float(bar.loc[bar["metric"] == f"{quantity}_{end}_s", "value"].iloc[0])
            for end in STATISTICS
        )
        axes.hlines(at, low, high, colors=look.colour, linewidth=1.1)
        axes.plot([low], [at], marker=look.marker, color=look.colour)
        axes.plot([high], [at], marker="|", markersize=6, markeredgewidth=1.4, color=look.colour)
    axes.set_xlabel(f"{title_of(f'{quantity}_s')} ({unit.name})")
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", length=0)
    value_axis(axes, "x", panel["value"])
