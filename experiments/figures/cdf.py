"""Distributions over requests (TTFT, TPOT, end-to-end latency) and over token gaps (ITL)."""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.figures.errors import FigureError
from experiments.figures.looks import MEASURED, MEASURED_LOOK, Look
from experiments.figures.measured import MeasuredFiles, measured_runs
from experiments.figures.study import SHAKY, Study
from experiments.figures.style import entry, head, legend_below, log_axis, new_figure, width_of
from experiments.figures.units import title_of, unit_of
from experiments.results.load import Run
from experiments.stats.per_request import request_latencies

FloatArray = npt.NDArray[np.float64]

QUANTILES: FloatArray = np.unique(
    np.concatenate([np.arange(200) / 200, 0.99 + np.arange(11) / 1000])
).round(3)
"""Points of a curve, whatever the number of requests; denser in the tail."""

SHARE_TICKS = (0, 25, 50, 75, 90, 99, 100)

TAIL_WEIGHT, TAIL_END = 0.25, 100.1
"""The axis of shares is linear plus a logarithm of what is missing, so that the part above 99 %
takes a seventh of the height."""

_SHARES: FloatArray = np.linspace(0.0, 100.0, 4001)


def data(
    study: Study,
    *,
    quantities: Sequence[str] = ("ttft", "tpot", "itl", "e2e"),
    rate: float | None = None,
    measured: MeasuredFiles | None = None,
) -> pd.DataFrame:
    """Quantiles; seeds and replications are pooled.

    Args:
        study: the runs.
        quantities: panels: of ttft, tpot, itl, e2e, queue.
        rate: offered rate, requests/s: the nearest one is drawn. None takes the highest at which
            no run is backlogged or overloaded, or the lowest of all.
        measured: result files of `vllm bench serve --save-detailed`.

    Returns:
        `quantity`, `series`, `regime`, `quantile`, `value_s`.
    """
    for quantity in quantities:
        if quantity not in ("ttft", "tpot", "itl", "e2e", "queue"):
            allowed = "must be one of ttft, tpot, itl, e2e, queue"
            raise FigureError(f"unknown quantity {quantity!r}: {allowed}")
    setting = study.pick(rate)
    curves: dict[tuple[str, str], FloatArray] = {}
    for series in study.series:
        found = _quantiles_of(study.runs_of(series, setting), quantities)
        curves |= {(quantity, series): values for quantity, values in found.items()}
    absent = [name for name in quantities if not any(key[0] == name for key in curves)]
    if len(absent) == len(quantities):
        raise FigureError("no run has requests.parquet with finished requests")
    curves |= _measured_curves(measured, [name for name in quantities if name not in absent])
    parts = [
        pd.DataFrame(
            {
                "quantity": quantity,
                "series": series,
                "regime": study.regime(series, setting),
                "quantile": QUANTILES,
                "value_s": curves[quantity, series],
            }
        )
        for quantity in quantities
        for series in [*study.series, MEASURED]
        if (quantity, series) in curves
    ]
    table = pd.concat(parts, ignore_index=True)
    table.attrs = {"head": study.title_of(setting), "notes": [_why(name) for name in absent]}
    return table


def _why(quantity: str) -> str:
    if quantity == "itl":
        return "no run has distributions.parquet, which the panel of ITL needs"
    return f"no run has a value of {quantity}"


def _quantiles_of(runs: Sequence[Run], quantities: Sequence[str]) -> dict[str, FloatArray]:
    """Quantiles of the pooled requests of some runs, seconds."""
    tables = [(run, table) for run in runs if (table := request_latencies(run)) is not None]
    done = [(run, table[table["status"] == "finished"]) for run, table in tables]
    found: dict[str, FloatArray] = {}
    for quantity in quantities:
        if quantity == "itl":
            gaps = [(run.distributions, _num_gaps(table)) for run, table in done]
            known = [(table, number) for table, number in gaps if table is not None and number]
            if known:
                found[quantity] = _pooled_gaps(known)
            continue
        samples = [table[f"{quantity}_s"].dropna().to_numpy() for _, table in done]
        if any(map(len, samples)):
            found[quantity] = np.quantile(np.concatenate(samples), QUANTILES)
    return found


def _num_gaps(finished: pd.DataFrame) -> int:
    """About how many gaps between tokens the requests had."""
    return int((finished["output_tokens"] - 1).clip(lower=0).sum())


def _pooled_gaps(known: Sequence[tuple[pd.DataFrame, int]]) -> FloatArray:
    """Quantiles of the gaps of several runs: their distributions, mixed by number of gaps."""
    tables = [table.dropna().sort_values("quantile") for table, _ in known]
    curves = [(table["quantile"].to_numpy(), table["itl_s"].to_numpy()) for table in tables]
    if len(curves) == 1:
        single: FloatArray = np.interp(QUANTILES, *curves[0])
        return single
    values = np.concatenate([gaps for _, gaps in curves])
    weights = np.concatenate(
        [
            np.full(len(gaps), num / len(gaps))
            for (_, gaps), (_, num) in zip(curves, known, strict=True)
        ]
    )
    order = np.argsort(values, kind="stable")
    ends = np.cumsum(weights[order])
    places = (ends - weights[order] / 2) / ends[-1]
    mixed: FloatArray = np.interp(QUANTILES, places, values[order])
    return mixed


def _measured_curves(
    measured: MeasuredFiles | None, quantities: Sequence[str]
) -> dict[tuple[str, str], FloatArray]:
    """Quantiles of the measured samples, all files pooled."""
    runs = measured_runs(measured)
    found: dict[tuple[str, str], FloatArray] = {}
    for quantity in quantities:
        samples = [run.samples[quantity] for run in runs if quantity in run.samples]
        if samples:
            found[quantity, MEASURED] = np.quantile(np.concatenate(samples), QUANTILES)
    return found


def draw(data: pd.DataFrame, looks: Mapping[str, Look]) -> Figure:
    """One panel per quantity, time on a logarithmic axis."""
    quantities = list(dict.fromkeys(data["quantity"]))
    columns = 2 if len(quantities) == 4 else min(3, len(quantities))
    rows = -(-len(quantities) // columns)
    figure = new_figure(width_of(columns), rows * 1.65 + 0.2)
    grid = figure.subplots(rows, columns, squeeze=False, sharey=True)
    for axes, quantity in zip(grid.flat, quantities, strict=False):
        _draw_panel(axes, data[data["quantity"] == quantity], quantity, looks)
    for axes in grid[:, 0]:
        axes.set_ylabel("Cumulative share (%)")
    for axes in grid.flat[len(quantities) :]:
        axes.remove()
    head(figure, data.attrs.get("head", ""))
    legend_below(figure, _entries(data, looks))
    return figure


def _height(share: FloatArray) -> FloatArray:
    """Height of a share in percent on its axis."""
    known = np.clip(share, 0.0, 100.0)
    height: FloatArray = known / 100 - TAIL_WEIGHT * np.log10(1 - known / TAIL_END)
    return height


def _share(height: FloatArray) -> FloatArray:
    """Share in percent at a height: the inverse of `_height`."""
    share: FloatArray = np.interp(height, _height(_SHARES), _SHARES)
    return share


def _draw_panel(axes: Axes, panel: pd.DataFrame, quantity: str, looks: Mapping[str, Look]) -> None:
    metric = f"{quantity}_s"
    unit = unit_of(metric, panel.loc[panel["quantile"] == 0.9, "value_s"])
    present = [name for name in [*looks, MEASURED] if (panel["series"] == name).any()]
    smallest = float(panel.loc[panel["value_s"] > 0, "value_s"].min())
    for place, series in enumerate(present):
        curve = panel[panel["series"] == series]
        look = looks.get(series, MEASURED_LOOK)
        is_measured = series == MEASURED
        axes.plot(
            curve["value_s"].clip(lower=smallest) * unit.factor,
            curve["quantile"] * 100,
            color=look.colour,
            linestyle=look.line,
            marker=None if is_measured else look.marker,
            markersize=3,
            # Markers of different lines stand at different heights.
            markevery=(10 + place * 40 // len(present), 40),
            zorder=3 if is_measured else 2,
        )
    axes.set_xlabel(f"{title_of(metric)} ({unit.name})")
    axes.set_yscale("function", functions=(_height, _share))
    axes.set_ylim(0, 100)
    axes.set_yticks(SHARE_TICKS)
    if smallest > 0:
        log_axis(axes, "x")


def _entries(data: pd.DataFrame, looks: Mapping[str, Look]) -> list[Artist]:
    regimes = dict(zip(data["series"], data["regime"], strict=True))
    entries: list[Artist] = []
    for series, look in looks.items():
        if series in regimes:
            regime = regimes[series]
            label = f"{series} ({regime})" if regime in SHAKY else series
            style = {"color": look.colour, "linestyle": look.line, "marker": look.marker}
            entries.append(entry(label, markersize=3, **style))
    if MEASURED in regimes:
        style = {"color": MEASURED_LOOK.colour, "linestyle": MEASURED_LOOK.line}
        entries.append(entry(MEASURED, **style))
    return entries
