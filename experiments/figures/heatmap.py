"""One metric for every policy at every rate, with the numbers in the cells."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib import colormaps
from matplotlib.colors import ListedColormap, LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

from experiments.figures.errors import FigureError
from experiments.figures.looks import Look
from experiments.figures.points import absent_metrics, load_axis, points_of
from experiments.figures.study import SHAKY, Study
from experiments.figures.style import GREY, LOG_FROM_RATIO, entry, legend_below, new_figure
from experiments.figures.units import brief, title_of, unit_of
from experiments.quantities import ABSENT, digits

CELL_IN, ROW_IN = 0.55, 0.26
SHADES = ListedColormap(colormaps["Greys"](np.linspace(0.04, 0.78, 256)))
"""Lightness alone carries the value: the same in print. No black, so that numbers can be read."""


def data(study: Study, *, metric: str = "ttft_p99_s") -> pd.DataFrame:
    """Cells.

    Args:
        study: the runs.
        metric: any metric of result.json.

    Returns:
        `metric`, `series`, `setting`, `offered_rate_per_s` (mean over the series), `users`,
        `value`, `num_runs`, `regime`.
    """
    study, notes = study.over_load()
    cells = points_of(study, [metric])
    if absent_metrics(study, [metric]):
        raise FigureError(f"no run has a value of {metric}")
    cells["offered_rate_per_s"] = cells["setting"].map(study.offered_rate)
    loads = ["offered_rate_per_s", "users"]
    cells = cells[["metric", "series", "setting", *loads, "value", "num_runs", "regime"]]
    cells.attrs = {"notes": notes}
    return cells


def draw(data: pd.DataFrame, looks: Mapping[str, Look]) -> Figure:
    """Rows are policies, columns rates (or users); a triangle marks a regime that is not steady."""
    series = [name for name in looks if name in set(data["series"])]
    settings = sorted(set(data["setting"]))
    grid = data.pivot(index="series", columns="setting", values="value").loc[series, settings]
    metric = str(data["metric"].iloc[0])
    unit = unit_of(metric, data["value"])
    values = grid.to_numpy() * unit.factor
    longest = max(map(len, series))
    width = 0.9 + 0.065 * longest + CELL_IN * len(settings)
    figure = new_figure(max(3.3, width), 0.6 + ROW_IN * len(series))
    axes = figure.subplots()
    norm = _norm(values)
    image = axes.imshow(np.ma.masked_invalid(values), cmap=SHADES, norm=norm, aspect="auto")
    x, x_title = load_axis(data)
    loads = data.drop_duplicates("setting").set_index("setting")[x]
    axes.set_xticks(range(len(settings)), [brief(float(loads[one])) for one in settings])
    axes.set_yticks(range(len(series)), series)
    axes.set_xlabel(x_title)
    axes.grid(visible=False)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    regimes = {(row.series, row.setting): row.regime for row in data.itertuples()}
    for (row, column), value in np.ndenumerate(values):
        is_shaky = regimes.get((series[row], settings[column])) in SHAKY
        number = digits(float(value)) if np.isfinite(value) else ABSENT
        text = f"{number} △" if is_shaky else number
        is_dark = np.isfinite(value) and SHADES(norm(value))[0] < 0.55
        axes.text(column, row, text, ha="center", va="center", color="w" if is_dark else "k")
    bar = figure.colorbar(image, ax=axes, pad=0.02, aspect=12, format="{x:g}")
    bar.set_label(f"{title_of(metric)} ({unit.name})")
    if isinstance(norm, LogNorm):
        bar.ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        bar.ax.yaxis.set_minor_locator(NullLocator())
    bar.outline.set_visible(False)
    if data["regime"].isin(SHAKY).any():
        mark = {"linestyle": "none", "marker": "^", "color": GREY, "markerfacecolor": "white"}
        legend_below(figure, [entry("overloaded or backlogged", **mark)])
    return figure


def _norm(values: "np.typing.NDArray[np.float64]") -> Normalize:
    """Range of the shades, logarithmic where it is wide."""
    finite = values[np.isfinite(values)]
    low, high = float(finite.min()), float(finite.max())
    if low > 0 and high / low > LOG_FROM_RATIO:
        return LogNorm(low, high)
    return Normalize(low, high if high > low else low + (abs(low) or 1.0))
