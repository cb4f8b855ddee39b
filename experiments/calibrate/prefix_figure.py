"""Shared prefixes: measured over predicted time by members and length of a prefix."""

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.colors import TwoSlopeNorm
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from experiments.figures.style import PAGE_IN, head, new_figure, styled
from hwmodels.fitting.rows_file import is_choice
from hwmodels.fitting.validation import Comparison

FloatArray = npt.NDArray[np.float64]

_LOW, _HIGH = 0.7, 1.4
"""Ends of the colours, ratios."""
_LOW_TEXT, _HIGH_TEXT = 0.8, 1.27
"""Between them cells are pale enough for black text."""


def prefix_figure(device: str, rows: Comparison) -> Figure:
    """A panel per order of the members; each cell the median ratio over groups and heads."""
    ratio = rows.measured / rows.predicted
    orders = [
        order
        for order in ("contiguous", "interleaved")
        if is_choice(rows.columns, "member_order", order).any()
    ]
    members = np.unique(rows.columns["members"])
    prefixes = np.unique(rows.columns["prefix_tokens"])
    with styled():
        figure = new_figure(PAGE_IN, 0.8 + 0.26 * len(members))
        head(figure, f"{device}: measured over predicted time, shared-prefix decode")
        panels = figure.subplots(1, len(orders), squeeze=False).ravel().tolist()
        norm = TwoSlopeNorm(1.0, _LOW, _HIGH)
        for axes, order in zip(panels, orders, strict=True):
            cells = _cells(rows, ratio, is_choice(rows.columns, "member_order", order))
            image = _panel(axes, cells, norm)
            axes.set_title(order)
            axes.set_xticks(range(len(prefixes)), [f"{number:.0f}" for number in prefixes])
            axes.set_yticks(range(len(members)), [f"{number:.0f}" for number in members])
            axes.set_xlabel("prefix (tokens)")
            axes.set_ylabel("members of a group")
        figure.colorbar(image, ax=panels, extend="both", label="measured / predicted")
        return figure


def _cells(rows: Comparison, ratio: FloatArray, chosen: npt.NDArray[np.bool_]) -> FloatArray:
    """Median ratio by members and prefix, nan where nothing was measured."""
    members, prefix = rows.columns["members"], rows.columns["prefix_tokens"]
    places = [
        [chosen & (members == m) & (prefix == p) for p in np.unique(prefix)]
        for m in np.unique(members)
    ]
    return np.array(
        [[np.median(ratio[at]) if at.any() else np.nan for at in line] for line in places]
    )


def _panel(axes: Axes, cells: FloatArray, norm: TwoSlopeNorm) -> AxesImage:
    image = axes.imshow(cells, cmap="RdBu_r", norm=norm, aspect="auto", origin="lower")
    axes.grid(visible=False)
    for (row, column), value in np.ndenumerate(cells):
        if np.isfinite(value):
            is_dark = not _LOW_TEXT < value < _HIGH_TEXT
            colour = "white" if is_dark else "black"
            text = f"{value:.2f}"
            axes.text(column, row, text, ha="center", va="center", fontsize=6, color=colour)
    return image
