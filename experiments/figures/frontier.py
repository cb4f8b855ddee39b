"""Throughput against latency: one curve per policy, its points joined by rising rate."""

from collections.abc import Mapping, Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.figures.errors import FigureError
from experiments.figures.lines import draw_lines, draw_measured, line_entries
from experiments.figures.looks import MEASURED, Look
from experiments.figures.measured import MeasuredFiles, measured_runs
from experiments.figures.points import absent_metrics, points_of
from experiments.figures.study import Study
from experiments.figures.style import legend_below, new_figure, rate_axis, value_axis, width_of
from experiments.figures.units import title_of, unit_of

THROUGHPUT = "output_tokens_per_s"


def data(
    study: Study,
    *,
    quantities: Sequence[str] = ("ttft", "tpot"),
    statistic: str = "p99",
    measured: MeasuredFiles | None = None,
) -> pd.DataFrame:
    """Points of curves.

    Args:
        study: the runs.
        quantities: panels: of ttft, tpot, itl, e2e, queue.
        statistic: of mean, p50, p90, p99.
        measured: result files of `vllm bench serve`.

    Returns:
        `kind` (simulated or measured), `metric`, `series`, `setting`, `offered_rate_per_s`,
        `users`, `output_tokens_per_s` with `..._low` and `..._high`, `value`, `low`, `high`
        (seconds), `num_runs`, `regime`.
    """
    study, notes = study.over_load()
    metrics = [f"{name}_{statistic}_s" for name in quantities]
    absent = absent_metrics(study, [*metrics, THROUGHPUT])
    shown = [name for name in metrics if name not in absent]
    if not shown or THROUGHPUT in absent:
        raise FigureError(f"no run has {THROUGHPUT} and any of {', '.join(metrics)}")
    names = {"value": THROUGHPUT, "low": f"{THROUGHPUT}_low", "high": f"{THROUGHPUT}_high"}
    output = points_of(study, [THROUGHPUT]).rename(columns=names)
    keys = ["series", "setting"]
    table = points_of(study, shown).merge(output[[*keys, *names.values()]], on=keys, how="left")
    rows = [
        {
            "kind": "measured",
            "metric": name,
            "series": MEASURED,
            "setting": -1,
            "offered_rate_per_s": run.offered_rate_per_s if run.users is None else None,
            "users": run.users,
            "value": run.metrics[name],
            "num_runs": 1,
            THROUGHPUT: run.metrics[THROUGHPUT],
        }
        for run in measured_runs(measured)
        for name in shown
        if name in run.metrics and THROUGHPUT in run.metrics
    ]
    if rows:
        added = pd.DataFrame(rows).reindex(columns=table.columns)
        for column in table.columns:
            added[column] = added[column].astype(table[column].dtype)
        table = pd.concat([table, added], ignore_index=True)
    table.attrs = {"notes": [*notes, *(f"no run has a value of {name}" for name in absent)]}
    return table


def draw(data: pd.DataFrame, looks: Mapping[str, Look]) -> Figure:
    """One panel per latency; throughput along the x axis, better is right and below."""
    metrics = list(dict.fromkeys(data["metric"]))
    figure = new_figure(width_of(len(metrics)), 2.0)
    for axes, metric in zip(
        figure.subplots(1, len(metrics), squeeze=False)[0], metrics, strict=True
    ):
        _draw_panel(axes, data[data["metric"] == metric], metric, looks)
    legend_below(figure, line_entries(data, looks))
    return figure


def _draw_panel(axes: Axes, panel: pd.DataFrame, metric: str, looks: Mapping[str, Look]) -> None:
    unit = unit_of(metric, panel["value"])
    factors = (1.0, unit.factor)
    draw_lines(axes, panel, looks, THROUGHPUT, "value", factors)
    draw_measured(axes, panel, THROUGHPUT, "value", factors)
    rate_axis(axes, "Output (tokens/s)")
    axes.set_ylabel(f"{title_of(metric)} ({unit.name})")
    value_axis(axes, "y", panel["value"])
