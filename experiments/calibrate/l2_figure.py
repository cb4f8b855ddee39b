"""Measured read rates against the size of the data set, and the fitted curve."""

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from experiments.calibrate.figure import FITTED_COLOUR
from experiments.figures.style import (
    COLUMN_IN,
    GREY,
    entry,
    head,
    legend_below,
    log_axis,
    new_figure,
    styled,
)
from hwmodels.fitting.validation import Comparison
from hwmodels.kernels.l2_curve import L2Curve

_MIB = 2**20
_TB = 1e12
_NUM_POINTS = 400


def l2_figure(device: str, curve: L2Curve, rows: Comparison) -> Figure:
    """Rate of repeated reads, TB/s, against MiB; the midpoint of the curve is marked."""
    sizes = rows.columns["data_set_bytes"]
    grid = np.geomspace(sizes.min() / 1.5, sizes.max() * 1.2, _NUM_POINTS)
    line: dict[str, Any] = {"color": FITTED_COLOUR, "linewidth": 1.2}
    dots: dict[str, Any] = {"color": "black", "marker": ".", "linestyle": "none"}
    with styled():
        figure = new_figure(COLUMN_IN, 2.5)
        head(figure, device)
        axes = figure.subplots()
        axes.plot(grid / _MIB, curve.bytes_per_s(grid) / _TB, **line)
        axes.plot(sizes / _MIB, sizes / rows.measured / _TB, **dots)
        axes.axvline(curve.midpoint_bytes / _MIB, color=GREY, linewidth=0.7, linestyle="--")
        log_axis(axes, "x")
        axes.set_ylim(bottom=0)
        axes.set_xlabel("data set (MiB)")
        axes.set_ylabel("read rate (TB/s)")
        handles = [
            entry("measured", **dots),
            entry("fitted", **line),
            entry(
                f"midpoint {curve.midpoint_bytes / _MIB:.1f} MiB",
                color=GREY,
                linewidth=0.7,
                linestyle="--",
            ),
        ]
        legend_below(figure, handles)
        return figure
