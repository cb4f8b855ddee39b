"""Distributions of the latencies, measured against simulated."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.calibrate.against.figures_of import QUANTITIES
from experiments.calibrate.against.measured_run import BoolArray, MeasuredRun
from experiments.calibrate.against.replay import Simulated
from experiments.calibrate.against.study import Study
from experiments.figures.looks import COLOURS, MEASURED, MEASURED_LOOK, Look
from experiments.figures.style import (
    PAGE_IN,
    entry,
    head,
    legend_below,
    log_axis,
    new_figure,
    styled,
)
from sim.inter_token import token_gaps, weighted_percentiles
from sim.workload import FloatArray

SHARES: FloatArray = np.linspace(0.0, 100.0, 201)
"""Points of a curve, percent, whatever the number of requests."""

LOOKS = {
    MEASURED: MEASURED_LOOK,
    "as configured": Look(COLOURS[4], "", "-"),
    "fitted": Look(COLOURS[0], "", "-"),
}

_MS_PER_S = 1e3


def distributions_figure(study: Study) -> Figure:
    """A panel per latency; with a fit, of the requests that it did not see."""
    measured, fitted = study.measured, study.fitted
    rows = study.simulated.is_done if fitted is None else fitted.is_heldout
    curves = {
        MEASURED: _measured(measured, rows),
        "as configured": _simulated(study.simulated, 0.0, rows),
    }
    if fitted is not None:
        curves["fitted"] = _simulated(fitted.simulated, fitted.offset_s, rows)
    shown = [name for name in QUANTITIES if name in curves[MEASURED]]
    what = "requests" if fitted is None else "requests that the fit did not see"
    with styled():
        num_rows = -(-len(shown) // 2)
        figure = new_figure(PAGE_IN, 0.3 + 1.8 * num_rows)
        head(figure, f"{int(rows.sum()):,} {what}")
        panels = figure.subplots(num_rows, 2, squeeze=False, sharey=True).ravel().tolist()
        for axes, name in zip(panels, shown, strict=False):
            _panel(axes, name, {series: found[name] for series, found in curves.items()})
        for axes in panels[len(shown) :]:
            axes.remove()
        legend_below(
            figure,
            [
                entry(series, color=LOOKS[series].colour, linestyle=LOOKS[series].line)
                for series in curves
            ],
        )
        return figure


def _panel(axes: Axes, name: str, curves: dict[str, FloatArray]) -> None:
    for series, values_s in curves.items():
        look = LOOKS[series]
        is_measured = series == MEASURED
        axes.plot(
            np.maximum(values_s, 1e-6) * _MS_PER_S,
            SHARES,
            color=look.colour,
            linestyle=look.line,
            zorder=3 if is_measured else 2,
        )
    axes.set_xlabel(f"{name.upper()} (ms)")
    axes.set_ylabel("Cumulative share (%)")
    axes.set_ylim(0, 100)
    log_axis(axes, "x")


def _measured(run: MeasuredRun, rows: BoolArray) -> dict[str, FloatArray]:
    samples = {"ttft": run.ttft_s[rows], "tpot": run.tpot_s[rows], "e2e": run.e2e_s[rows]}
    samples = {name: values[~np.isnan(values)] for name, values in samples.items()}
    if run.has_a_gap_per_token:
        samples["itl"] = run.gaps_of(rows)
    return {name: np.percentile(values, SHARES) for name, values in samples.items() if len(values)}


def _simulated(found: Simulated, offset_s: float, rows: BoolArray) -> dict[str, FloatArray]:
    tpot_s = found.tpot_s[rows]
    samples = {
        "ttft": found.ttft_s[rows] + offset_s,
        "tpot": tpot_s[~np.isnan(tpot_s)],
        "e2e": found.e2e_s[rows] + offset_s,
    }
    curves = {name: np.percentile(v, SHARES) for name, v in samples.items() if len(v)}
    gaps_s, weights = token_gaps(found.result, rows)
    if weights.sum():
        curves["itl"] = np.array(weighted_percentiles(gaps_s, weights, SHARES.tolist()))
    return curves
