"""Predicted against measured times, one panel per kernel."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.figures.style import GREY, PAGE_IN, head, log_axis, new_figure, styled
from hwmodels.fitting.validation import FITTED, Comparison

FITTED_COLOUR, OTHER_COLOUR = "#0072B2", "#E69F00"
"""Blue and orange. Source: Okabe and Ito, "Color Universal Design" (2008)."""

_PANELS_A_ROW = 3
_MS_PER_S = 1e3
_LARGEST_NUM_POINTS = 4000
_MANY_POINTS = 500
_MARKER_PT, _FEW_MARKER_PT = 1.5, 4.0


def comparison_figure(device: str, found: Sequence[Comparison]) -> Figure:
    """Log-log panels: measured on x, predicted on y, the diagonal and 20 % about it.

    Rows of the range of the fit are blue, others orange. At most 4,000 rows of each are drawn,
    every k-th in the order of the table.
    """
    kernels = list(dict.fromkeys(one.kernel for one in found))
    num_rows = -(-len(kernels) // _PANELS_A_ROW)
    with styled():
        figure = new_figure(PAGE_IN, 0.3 + 2.35 * num_rows)
        head(figure, f"{device}: blue, rows of the fit; orange, other rows; dashed, 20 % off")
        panels = figure.subplots(num_rows, _PANELS_A_ROW, squeeze=False).ravel().tolist()
        for axes, kernel in zip(panels, kernels, strict=False):
            _panel(axes, [one for one in found if one.kernel == kernel])
        for axes in panels[len(kernels) :]:
            axes.remove()
        return figure


def _panel(axes: Axes, found: Sequence[Comparison]) -> None:
    is_time = found[0].unit == "s"
    factor = _MS_PER_S if is_time else 1.0
    unit = "time (ms)" if is_time else "time ratio to packed"
    others = [one for one in found if one.subset != FITTED]
    fitted = [one for one in found if one.subset == FITTED]
    for one in others + fitted:
        step = -(-one.measured.size // _LARGEST_NUM_POINTS)
        axes.plot(
            one.measured[::step] * factor,
            one.predicted[::step] * factor,
            linestyle="none",
            marker=".",
            markersize=_MARKER_PT if one.measured.size > _MANY_POINTS else _FEW_MARKER_PT,
            markeredgewidth=0,
            color=FITTED_COLOUR if one.subset == FITTED else OTHER_COLOUR,
            rasterized=True,
        )
    values = np.concatenate([np.concatenate([one.measured, one.predicted]) for one in found])
    ends = np.array([values.min() / 1.3, values.max() * 1.3]) * factor
    axes.plot(ends, ends, color=GREY, linewidth=0.7)
    for ratio in (0.8, 1.2):
        axes.plot(ends, ends * ratio, color=GREY, linewidth=0.5, linestyle="--")
    axes.set_xlim(*ends)
    axes.set_ylim(*ends)
    log_axis(axes, "x")
    log_axis(axes, "y")
    axes.set_xlabel(f"measured {unit}")
    axes.set_ylabel(f"predicted {unit}")
    errors = fitted[0].errors if fitted else found[0].errors
    axes.set_title(f"{found[0].kernel}: MAPE {100 * errors.mape:.1f} %")
