"""Each policy against a baseline: relative differences with intervals, a forest plot."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.figures.errors import FigureError
from experiments.figures.looks import Look
from experiments.figures.points import absent_metrics
from experiments.figures.study import Study
from experiments.figures.style import GREY, PAGE_IN, entry, head, legend_below, new_figure
from experiments.figures.units import load_text, title_of
from experiments.stats.comparison import WITHIN_NOISE, comparison
from experiments.stats.directions import direction_of
from sim.errors import ConfigError

METRICS = ("ttft_p99_s", "tpot_p99_s", "e2e_mean_s", "goodput_per_s")
BASE_IN, ROW_IN = 1.05, 0.15
MAX_ROWS = 60
MAX_BAR_RATIO = 4.0


def data(
    study: Study,
    *,
    baseline: str | None = None,
    metrics: Sequence[str] = METRICS,
    rate: float | None = None,
) -> pd.DataFrame:
    """Differences of the means to those of the baseline, paired over equal loads where possible.

    Intervals and verdicts are those of `experiments.stats.comparison`, at 95 % after Holm.

    Args:
        study: the runs.
        baseline: a policy; None takes the first.
        metrics: panels: of the metrics of result.json.
        rate: offered rate, requests/s: only the nearest one is drawn. None draws all, or the
            default one of the figure cdf if these are more than MAX_ROWS rows.

    Returns:
        `metric`, `baseline`, `series`, `setting`, `offered_rate_per_s`, `users`,
        `relative_difference`, `low`, `high` (likewise relative; NaN for a single run), `method`,
        `verdict`.
    """
    absent = absent_metrics(study, metrics)
    shown = [name for name in metrics if name not in absent]
    if not shown:
        raise FigureError(f"no run has a value of {', '.join(metrics)}")
    rows = [study.rows] if study.placebos is None else [study.rows, study.placebos]
    frame = pd.concat(rows)
    frame.attrs.update(study.attrs)
    frame.attrs["settings"] = ["variant", "setting"]
    if frame["policy"].nunique() < 2:
        raise FigureError("there is one policy: nothing to compare it with")
    try:
        table = comparison(frame, baseline, shown)
    except ConfigError as error:
        raise FigureError(str(error)) from error
    table = table[(table["policy"] != table["baseline"]) & table["relative_difference"].notna()]
    if table.empty:
        raise FigureError("no policy shares a setting with a baseline whose figures are not 0")
    notes = [f"no run has a value of {name}" for name in absent]
    is_long = len(table) > MAX_ROWS * len(shown) and len(study.settings) > 1
    if rate is not None or is_long:
        table = table[table["setting"] == study.pick(rate)]
    if rate is None and is_long:
        notes.append("one rate of several is drawn: option rate")
    return _shaped(table, study, notes)


def _shaped(table: pd.DataFrame, study: Study, notes: list[str]) -> pd.DataFrame:
    per_unit = table["relative_difference"] / table["difference"].where(table["difference"] != 0)
    series = [
        f"{policy}, {variant}" if variant else policy
        for policy, variant in zip(table["policy"], table["variant"], strict=True)
    ]
    shaped = pd.DataFrame(
        {
            "metric": table["metric"],
            "baseline": table["baseline"],
            "series": series,
            "setting": table["setting"].astype(int),
            "offered_rate_per_s": table["setting"].map(study.offered_rate),
            "users": table["setting"].map(study.users),
            "relative_difference": table["relative_difference"],
            "low": table["difference_low"] * per_unit,
            "high": table["difference_high"] * per_unit,
            "method": table["difference_method"],
            "verdict": table["verdict"],
        }
    )
    shaped = shaped.reset_index(drop=True)
    shaped.attrs = {"notes": notes}
    return shaped


def draw(data: pd.DataFrame, looks: Mapping[str, Look]) -> Figure:
    """One panel per metric; hollow where there is no interval, or it covers 0 or noise."""
    metrics = list(dict.fromkeys(data["metric"]))
    keys = data.drop_duplicates(["setting", "series"])
    order = {name: place for place, name in enumerate(looks)}
    settings = sorted(set(keys["setting"]))
    rows: list[tuple[int, str | None]] = []
    for setting in settings:
        inside = keys.loc[keys["setting"] == setting, "series"]
        rows += [
            (setting, None),
            *((setting, name) for name in sorted(inside, key=order.__getitem__)),
        ]
    figure = new_figure(PAGE_IN, BASE_IN + ROW_IN * len(rows))
    grid = figure.subplots(1, len(metrics), sharey=True, squeeze=False)[0]
    loads = data.drop_duplicates("setting").set_index("setting")[["offered_rate_per_s", "users"]]
    for axes, metric in zip(grid, metrics, strict=True):
        _draw_panel(axes, data[data["metric"] == metric], metric, rows, looks)
    labels = [
        name if name is not None else load_text(*loads.loc[setting]) or "all requests"
        for setting, name in rows
    ]
    grid[0].set_yticks(range(len(rows)), labels)
    for tick, (_, name) in zip(grid[0].get_yticklabels(), rows, strict=True):
        tick.set_fontweight("normal" if name else "bold")
    grid[0].set_ylim(len(rows) - 0.4, -0.6)
    head(figure, f"Difference to {data['baseline'].iloc[0]}, paired where loads are equal")
    legend_below(figure, _entries(data))
    return figure


def _draw_panel(
    axes: Axes,
    panel: pd.DataFrame,
    metric: str,
    rows: Sequence[tuple[int, str | None]],
    looks: Mapping[str, Look],
) -> None:
    place = {key: k for k, key in enumerate(rows)}
    axes.axvline(0, color=GREY, linewidth=0.8, zorder=1)
    percents = 100 * panel[["low", "relative_difference", "high"]].to_numpy(dtype=float)
    names = zip(panel["setting"], panel["series"], panel["verdict"], strict=True)
    for (low, middle, high), (setting, series, verdict) in zip(percents, names, strict=True):
        look, at = looks[series], place[setting, series]
        is_clear = verdict not in ("not distinguishable", WITHIN_NOISE, "one run")
        axes.hlines(at, low, high, colors=look.colour, linewidth=1.1)
        axes.plot(
            [middle],
            [at],
            marker=look.marker,
            color=look.colour,
            markerfacecolor=look.colour if is_clear else "white",
        )
    way = direction_of(metric)
    axes.set_title(f"{title_of(metric)}\n{way} is better" if way else title_of(metric))
    axes.set_xlabel("Difference (%)")
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", length=0)
    reach = _reach(percents)
    axes.set_xlim(-reach, reach)


def _reach(percents: "np.typing.NDArray[np.float64]") -> float:
    """Half of the axis: wide intervals (two seeds suffice for those) run out of the panel."""
    ends, middles = float(np.nanmax(np.abs(percents))), float(np.abs(percents[:, 1]).max())
    bars = min(ends, max(MAX_BAR_RATIO * middles, 10.0))
    return max(1.08 * bars, 1.25 * middles) or 1.0


def _entries(data: pd.DataFrame) -> list[Artist]:
    style = {"color": GREY, "linestyle": "none", "marker": "o"}
    entries: list[Artist] = [entry("distinguishable from the baseline", **style)]
    noise = ", within noise" if (data["verdict"] == WITHIN_NOISE).any() else ""
    hollow = f"not distinguishable{noise}, or one run"
    entries.append(entry(hollow, markerfacecolor="white", **style))
    if data["low"].notna().any():
        entries.append(entry("95 % interval (after Holm)", color=GREY, linestyle="-"))
    return entries
