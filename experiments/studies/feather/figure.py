"""Figures of the studies of Feather: lines over a swept value, and dots by setting."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.figures.looks import MEASURED, MEASURED_LOOK, Look, looks_of
from experiments.figures.style import (
    GREY,
    PAGE_IN,
    aside,
    entry,
    legend_below,
    log_axis,
    new_figure,
    styled,
    value_axis,
)
from experiments.studies.feather.rows import SeriesRow

_LINES_HEIGHT_IN = 2.4
_DOTS_ROW_IN = 0.22
_DOTS_FRAME_IN = 0.7
_LOG_FROM = 20
_ASIDE = 0.5
"""Part of a row over which its dots are spread."""


def lines_figure(
    panels: Mapping[str, Sequence[SeriesRow]],
    axis: str,
    ticks: Mapping[float, str] | None = None,
    label: str = "",
) -> Figure:
    """Panels side by side: a measure over the swept value, one line per policy.

    Args:
        panels: rows by the title of their panel; all of one quantity, each with `at`.
        axis: title of the abscissa.
        ticks: names of values, where they are no numbers; their points are not joined.
        label: title of the ordinate; empty: quantity and unit of the rows.
    """
    looks = _looks([row.series for rows in panels.values() for row in rows])
    values = [row.at for rows in panels.values() for row in rows if row.at is not None]
    with styled():
        figure = new_figure(PAGE_IN, _LINES_HEIGHT_IN)
        grid = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
        for axes, (title, rows) in zip(grid, panels.items(), strict=True):
            for place, name in enumerate(looks):
                own = [row for row in rows if row.series == name]
                _draw_line(axes, own, looks[name], place, is_joined=ticks is None)
            axes.set_title(title, loc="left")
            axes.set_xlabel(axis)
            _abscissa(axes, values, ticks)
        first = next(iter(panels.values()))[0]
        grid[0].set_ylabel(label or f"{first.quantity.capitalize()} ({first.unit})")
        value_axis(grid[0], "y", [row.simulated.mean for rows in panels.values() for row in rows])
        legend_below(figure, _entries(looks, has_lines=ticks is None))
        return figure


def dots_figure(
    panels: Mapping[str, Sequence[SeriesRow]], label: str = "", no_effect: float | None = None
) -> Figure:
    """Panels side by side: a value with its interval per setting, coloured by series.

    Args:
        panels: rows by the title of their panel; all panels have the same settings.
        label: title of the abscissa; empty: quantity and unit of the rows.
        no_effect: where a line says that there is no difference; None for no line.
    """
    looks = _looks([row.series for rows in panels.values() for row in rows])
    is_mixed = any(row.series != row.setting for rows in panels.values() for row in rows)
    settings = list(dict.fromkeys(row.setting for rows in panels.values() for row in rows))
    with styled():
        figure = new_figure(PAGE_IN, _DOTS_FRAME_IN + _DOTS_ROW_IN * len(settings))
        grid = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
        for axes, (title, rows) in zip(grid, panels.items(), strict=True):
            for row in rows:
                place = list(looks).index(row.series) - (len(looks) - 1) / 2
                shift = _ASIDE * place / len(looks) if is_mixed else 0.0
                _draw_dot(axes, row, looks[row.series], settings.index(row.setting) + shift)
            if no_effect is not None:
                axes.axvline(no_effect, color=GREY, linewidth=0.8, zorder=1)
            axes.set_title(title, loc="left")
            axes.set_xlabel(label or f"{rows[0].quantity.capitalize()} ({rows[0].unit})")
            value_axis(axes, "x", [row.simulated.mean for row in rows])
        grid[0].set_yticks(range(len(settings)), settings)
        grid[0].set_ylim(len(settings) - 0.5, -0.5)
        if is_mixed:
            legend_below(figure, _entries(looks, has_lines=False))
        return figure


def _draw_line(
    axes: Axes, rows: Sequence[SeriesRow], look: Look, place: int, *, is_joined: bool
) -> None:
    """Points with bars, a little aside of the others; joined where values are numbers."""
    known = [row for row in rows if row.at is not None]
    if not known:
        return
    xs = np.array([row.at for row in known], dtype=float)
    ys = np.array([row.simulated.mean for row in known])
    shift = aside(axes, place % 4, 4)
    axes.plot(xs, ys, color=look.colour, linestyle=look.line if is_joined else "")
    axes.plot(xs, ys, color=look.colour, marker=look.marker, linestyle="", transform=shift)
    for x, row in zip(xs, known, strict=True):
        bounds = [row.simulated.low, row.simulated.high]
        axes.plot([x, x], bounds, color=look.colour, linewidth=0.8, transform=shift)


def _draw_dot(axes: Axes, row: SeriesRow, look: Look, place: float) -> None:
    axes.plot(
        *([row.simulated.mean], [place]),
        linestyle="",
        color=look.colour,
        marker=look.marker,
        clip_on=False,
    )
    axes.plot([row.simulated.low, row.simulated.high], [place, place], color=look.colour)


def _looks(series: Sequence[str]) -> dict[str, Look]:
    """Looks of the series; measured values look as in all figures."""
    looks = looks_of(series)
    return {name: MEASURED_LOOK if name == MEASURED else look for name, look in looks.items()}


def _abscissa(axes: Axes, values: Sequence[float], ticks: Mapping[float, str] | None) -> None:
    if ticks is not None:
        axes.set_xticks(list(ticks), list(ticks.values()))
    elif min(values) > 0 and max(values) / min(values) >= _LOG_FROM:
        log_axis(axes, "x")


def _entries(looks: Mapping[str, Look], *, has_lines: bool = True) -> list[Artist]:
    return [
        entry(
            name,
            color=look.colour,
            marker=look.marker,
            linestyle=look.line if has_lines else "",
        )
        for name, look in looks.items()
    ]
