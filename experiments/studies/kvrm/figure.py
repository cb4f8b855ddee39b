"""Figures of the studies of executors: measures by executor, and what is reserved over time."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from experiments.figures.looks import looks_of
from experiments.figures.style import (
    PAGE_IN,
    entry,
    legend_below,
    new_figure,
    styled,
)
from experiments.studies.feather.rows import SeriesRow

_PANEL_IN = 1.35
_BARS_IN = 2.3
_WIDTH = 0.8
"""Part of the place of a setting that its bars take."""


def over_time_figure(panels: Mapping[str, Sequence[SeriesRow]]) -> Figure:
    """Panels below one another: a measure over simulated time, one line per executor.

    Args:
        panels: rows by the title of their panel, each with `at` in seconds.
    """
    looks = looks_of(list(dict.fromkeys(r.series for rows in panels.values() for r in rows)))
    with styled():
        figure = new_figure(PAGE_IN, _PANEL_IN * len(panels))
        grid = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
        for axes, (title, rows) in zip(grid, panels.items(), strict=True):
            for series in dict.fromkeys(row.series for row in rows):
                own = [row for row in rows if row.series == series]
                axes.plot(
                    [row.at for row in own],
                    [row.simulated.mean for row in own],
                    color=looks[series].colour,
                    linestyle=looks[series].line,
                    linewidth=1.0,
                )
            axes.set_title(title, loc="left")
            axes.set_ylabel(rows[0].unit)
            axes.set_ylim(bottom=0)
        grid[-1].set_xlabel("Simulated time (s)")
        entries = [entry(n, color=x.colour, linestyle=x.line) for n, x in looks.items()]
        legend_below(figure, entries)
        return figure


def bars_figure(panels: Mapping[str, Sequence[SeriesRow]]) -> Figure:
    """Panels side by side: a measure by setting, a bar with its interval per executor.

    Args:
        panels: rows by the title of their panel; all panels have the same settings.
    """
    looks = looks_of(list(dict.fromkeys(r.series for rows in panels.values() for r in rows)))
    names = list(looks)
    with styled():
        figure = new_figure(PAGE_IN, _BARS_IN)
        grid = figure.subplots(1, len(panels), squeeze=False)[0]
        for axes, (title, rows) in zip(grid, panels.items(), strict=True):
            settings = list(dict.fromkeys(row.setting for row in rows))
            for row in rows:
                place = names.index(row.series) - (len(names) - 1) / 2
                x = settings.index(row.setting) + _WIDTH * place / len(names)
                value = row.simulated
                axes.bar(x, value.mean, _WIDTH / len(names), color=looks[row.series].colour)
                if not np.isnan(value.low):
                    axes.plot([x, x], [value.low, value.high], color="black", linewidth=0.8)
            axes.set_xticks(range(len(settings)), settings)
            axes.set_title(title, loc="left")
            axes.set_ylabel(rows[0].unit)
            axes.set_ylim(bottom=0)
        legend_below(
            figure,
            [entry(n, color=x.colour, marker="s", linestyle="") for n, x in looks.items()],
        )
        return figure
