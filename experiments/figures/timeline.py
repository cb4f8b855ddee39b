"""One run of each policy over time: batch, KV usage, queue, imbalance, load of every instance."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from experiments.figures.errors import FigureError
from experiments.figures.looks import Look
from experiments.figures.over_time import RunTables, edges_of, panels_of, tables_of
from experiments.figures.study import SHAKY, Study
from experiments.figures.style import PAGE_IN, entry, head, legend_below, new_figure

PANELS = {
    "batch_requests": "Batch size\n(requests)",
    "kv_usage_ratio": "KV usage\n(%)",
    "queue_requests": "Queue\n(requests)",
    "imbalance_ratio": "Load imbalance\n(max / mean)",
}
"""Batch size: mean over instances, 0 while one is idle. Queue: of the whole cluster. Load
imbalance: of requests in the system, over instances, while there are any; 1 is even."""

SHADED = "Requests on\nan instance"
"""Of every instance, as shades."""

PANEL_IN, STRIP_IN = 0.85, 0.13
MAX_NAMED = 8
"""Instances up to which each has its number beside the strip."""


def data(
    study: Study, *, rate: float | None = None, seed: int | None = None, num_bins: int = 240
) -> pd.DataFrame:
    """Time means over equal spans, from the first arrival to the last finish of all runs shown.

    Without steps.parquet, the batch is the requests that were admitted and have not finished, the
    queue those that have arrived and wait for their first admission, and KV usage is left out.

    Args:
        study: the runs.
        rate: offered rate, requests/s: the nearest one is drawn; None as in the figure cdf.
        seed: whose runs are drawn; None takes the first of each series.
        num_bins: spans along the time axis.

    Returns:
        `panel`, `series`, `regime`, `instance` (-1 for the cluster), `start_s`, `end_s`, `value`.
    """
    if num_bins < 1:
        raise FigureError(f"num_bins is {num_bins}: must be at least 1")
    setting = study.pick(rate)
    tables: dict[str, RunTables] = {}
    seeds: set[object] = set()
    for series in study.series:
        runs = study.runs_of(series, setting)
        chosen = [run for run in runs if seed is None or run.document["seed"] == seed]
        found = tables_of(chosen[0]) if chosen else None
        if found is not None:
            tables[series] = found
            seeds.add(chosen[0].document["seed"])
    if not tables:
        which = "" if seed is None else f" of seed {seed}"
        raise FigureError(f"no run{which} at this rate has requests.parquet")
    edges = edges_of(list(tables.values()), num_bins)
    parts = [
        frame.assign(series=series, regime=study.regime(series, setting))
        for series, found in tables.items()
        for frame in panels_of(found, edges)
    ]
    table = pd.concat(parts, ignore_index=True)
    columns = ["panel", "series", "regime", "instance", "start_s", "end_s", "value"]
    table = table[columns]
    heads = [study.title_of(setting), *(f"seed {one}" for one in seeds if len(seeds) == 1)]
    table.attrs = {"head": ", ".join(filter(None, heads)), "notes": _notes(tables)}
    return table


def _notes(tables: Mapping[str, RunTables]) -> list[str]:
    without = [series for series, found in tables.items() if found.steps is None]
    if not without:
        return []
    return [f"no steps.parquet (output.steps=true): no KV usage of {', '.join(without)}"]


def draw(data: pd.DataFrame, looks: Mapping[str, Look]) -> Figure:
    """Lines of the cluster above, one strip of shades per policy below."""
    present = [name for name in looks if (data["series"] == name).any()]
    panels = [name for name in PANELS if (data["panel"] == name).any()]
    num_rows = int(data["instance"].max()) + 1
    strip = min(0.75, max(0.3, STRIP_IN * num_rows))
    heights = [PANEL_IN] * len(panels) + [strip] * len(present)
    figure = new_figure(PAGE_IN, sum(heights) + 0.16 * len(present) + 0.75)
    grid = figure.subplots(len(heights), 1, sharex=True, height_ratios=heights)
    axes_of = dict(zip([*panels, *present], np.atleast_1d(grid), strict=True))
    for panel in panels:
        _draw_lines(axes_of[panel], data[data["panel"] == panel], panel, looks)
    loads = data[data["panel"] == "instance_requests"]
    _draw_strips(figure, {name: axes_of[name] for name in present}, loads)
    axes_of[present[-1]].set_xlabel("Time (s)")
    first_s, last_s = float(data["start_s"].min()), float(data["end_s"].max())
    # From 0, unless the run begins so late that most of the axis would be empty.
    axes_of[present[-1]].set_xlim(0.0 if 0 <= first_s < last_s / 2 else first_s, last_s)
    head(figure, data.attrs.get("head", ""))
    regimes = dict(zip(data["series"], data["regime"], strict=True))
    legend_below(
        figure,
        [
            entry(
                f"{name} ({regimes[name]})" if regimes[name] in SHAKY else name,
                color=looks[name].colour,
                linestyle=looks[name].line,
                marker=looks[name].marker,
                markersize=2.5,
            )
            for name in present
        ],
    )
    return figure


def _draw_lines(axes: Axes, panel: pd.DataFrame, name: str, looks: Mapping[str, Look]) -> None:
    factor = 100.0 if name == "kv_usage_ratio" else 1.0
    for place, (series, look) in enumerate(looks.items()):
        line = panel[panel["series"] == series]
        middle = (line["start_s"] + line["end_s"]) / 2
        axes.plot(
            middle,
            line["value"] * factor,
            color=look.colour,
            linestyle=look.line,
            linewidth=1.0,
            marker=look.marker,
            markersize=2.5,
            markevery=(5 * place, 40),
        )
    axes.set_ylabel(PANELS[name])
    axes.set_ylim(bottom=1.0 if name == "imbalance_ratio" else 0.0)


def _draw_strips(figure: Figure, axes_of: Mapping[str, Axes], loads: pd.DataFrame) -> None:
    norm = Normalize(0, float(loads["value"].max()) or 1.0)
    image = None
    for series, axes in axes_of.items():
        grid = loads[loads["series"] == series].pivot(
            index="instance", columns="start_s", values="value"
        )
        span = (loads["start_s"].min(), loads["end_s"].max())
        image = axes.imshow(
            grid.to_numpy(),
            extent=(*span, len(grid) - 0.5, -0.5),
            aspect="auto",
            interpolation="nearest",
            cmap="Greys",
            norm=norm,
        )
        axes.grid(visible=False)
        axes.set_title(f"{series}, by instance", loc="left", pad=3)
        last = len(grid) - 1
        axes.set_yticks(range(len(grid)) if len(grid) <= MAX_NAMED else [0, last])
    assert image is not None
    bar = figure.colorbar(image, ax=list(axes_of.values()), pad=0.01, aspect=14)
    bar.set_label(SHADED)
    bar.outline.set_visible(False)
