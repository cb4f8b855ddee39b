"""Lines of points with intervals, and the entries that explain them in a legend."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.transforms import Transform

from experiments.figures.looks import MEASURED, MEASURED_LOOK, Look
from experiments.figures.study import SHAKY
from experiments.figures.style import GREY, aside, entry

if TYPE_CHECKING:
    import pandas as pd

FloatArray = npt.NDArray[np.float64]

BAR_WIDTH_PT = 0.8

MAX_BAR_RATIO = 2.0
"""Bars beyond so many times their point (two seeds suffice for that) run out of the panel."""


def draw_lines(
    axes: Axes,
    panel: "pd.DataFrame",
    looks: Mapping[str, Look],
    x: str,
    y: str,
    factors: tuple[float, float],
    *,
    is_aside: bool = False,
) -> None:
    """The lines of a panel, with intervals as bars and hollow markers at shaky points.

    Args:
        axes: where to draw.
        panel: rows with the columns `series`, `setting`, `regime`, `x` and `y`; intervals are in
            `low` and `high` for a column called `value`, else in the column's name with ``_low``.
        looks: of all series, in the order in which they are drawn.
        x: column of the abscissa.
        y: column of the ordinate.
        factors: from the table to the axes, x and y.
        is_aside: lines stand side by side where they have the same x.
    """
    present = [name for name in looks if (panel["series"] == name).any()]
    for place, name in enumerate(present):
        points = panel[panel["series"] == name].sort_values("setting")
        shift = aside(axes, place, len(present)) if is_aside else axes.transData
        look = looks[name]
        xs = points[x].to_numpy(dtype=float) * factors[0]
        ys = points[y].to_numpy(dtype=float) * factors[1]
        axes.plot(xs, ys, color=look.colour, linestyle=look.line, zorder=2, transform=shift)
        _reach(axes, xs, ys)
        for column, factor, centre in ((x, factors[0], xs), (y, factors[1], ys)):
            low, high = _bounds(points, column, factor, centre)
            ends = [(low, ys), (high, ys)] if column == x else [(xs, low), (xs, high)]
            _draw_bars(axes, ends, look, shift)
            near = (
                np.maximum(low, centre / MAX_BAR_RATIO),
                np.minimum(high, centre * MAX_BAR_RATIO),
            )
            for bound in near:
                _reach(axes, *((bound, ys) if column == x else (xs, bound)))
        is_shaky = points["regime"].isin(SHAKY).to_numpy()
        for rows, face in ((~is_shaky, look.colour), (is_shaky, "white")):
            (markers,) = axes.plot(
                xs[rows],
                ys[rows],
                linestyle="none",
                marker=look.marker,
                color=look.colour,
                markerfacecolor=face,
                transform=shift,
                clip_on=False,
                zorder=3,
            )
            markers.set_in_layout(False)  # they may stand out of the panel a little


def _reach(axes: Axes, xs: FloatArray, ys: FloatArray) -> None:
    """Make room for points: axes take no account of lines that are moved aside."""
    is_known = np.isfinite(xs + ys)
    axes.update_datalim(np.column_stack([xs[is_known], ys[is_known]]))
    axes.autoscale_view()


def _bounds(
    points: "pd.DataFrame", column: str, factor: float, centre: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Ends of the bars along an axis; NaN where there are none."""
    prefix = "" if column == "value" else f"{column}_"
    if f"{prefix}low" not in points.columns:
        none = np.full(len(points), np.nan)
        return none, none
    low, high = (points[f"{prefix}{end}"].to_numpy(dtype=float) * factor for end in ("low", "high"))
    # Quantities are positive: a bar down to 0 or below ends above it, also on a log axis.
    return np.maximum(low, centre * 0.02), high


def _draw_bars(
    axes: Axes, ends: list[tuple[FloatArray, FloatArray]], look: Look, shift: Transform
) -> None:
    """Bars between two lists of points, where both are known."""
    corners = np.array(ends).transpose(2, 0, 1)  # shape (bars, ends, x and y)
    bars = LineCollection(
        list(corners[np.isfinite(corners).all(axis=(1, 2))]),
        colors=look.colour,
        linewidths=BAR_WIDTH_PT,
        alpha=0.7,
        transform=shift,
        zorder=1.9,
    )
    axes.add_collection(bars, autolim=False)


def draw_measured(
    axes: Axes, panel: "pd.DataFrame", x: str, y: str, factors: tuple[float, float]
) -> None:
    """Measured points of a panel: black stars, not joined."""
    points = panel[panel["kind"] == "measured"]
    axes.plot(
        points[x].to_numpy(dtype=float) * factors[0],
        points[y].to_numpy(dtype=float) * factors[1],
        linestyle="none",
        marker=MEASURED_LOOK.marker,
        markersize=8,
        color=MEASURED_LOOK.colour,
        markeredgecolor="white",
        markeredgewidth=0.5,
        zorder=4,
    )


def _interval_entry() -> Artist:
    style = {"color": GREY, "linestyle": "none", "marker": "|"}
    return entry("95 % interval of the mean", markersize=8, **style)


def line_entries(data: "pd.DataFrame", looks: Mapping[str, Look]) -> list[Artist]:
    """Legend entries of the series of a table of points, and of its marks."""
    present = set(data["series"])
    entries: list[Artist] = [
        entry(series, color=look.colour, linestyle=look.line, marker=look.marker)
        for series, look in looks.items()
        if series in present
    ]
    simulated = data[data["kind"] == "simulated"]
    if simulated["regime"].isin(SHAKY).any():
        entries.append(
            entry(
                "hollow: overloaded or backlogged",
                color=GREY,
                linestyle="none",
                marker="o",
                markerfacecolor="white",
            )
        )
    if "low" in data.columns and simulated["low"].notna().any():
        entries.append(_interval_entry())
    if MEASURED in present:
        style = {"color": MEASURED_LOOK.colour, "marker": MEASURED_LOOK.marker}
        entries.append(entry(MEASURED, linestyle="none", markersize=8, **style))
    return entries
