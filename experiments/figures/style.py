"""Size, fonts and common parts of all figures; Matplotlib's object interface, no global state."""

import io
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import matplotlib
import numpy as np
import numpy.typing as npt
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator
from matplotlib.transforms import ScaledTranslation, Transform

COLUMN_IN, PAGE_IN = 3.3, 7.0
"""Width of one column and of the whole page of a two-column paper, inches."""

FONT_PT = 8
LEGEND_ROW_IN = 0.165
DPI = 200
LOG_FROM_RATIO = 12.0
"""Largest / smallest value of a panel from which its axis is logarithmic."""

GREY, PALE = "#555555", "#DDDDDD"

_RC: Any = {
    "font.family": "DejaVu Sans",  # comes with Matplotlib: the same everywhere
    "font.size": FONT_PT,
    "axes.titlesize": FONT_PT,
    "axes.labelsize": FONT_PT,
    "xtick.labelsize": FONT_PT - 1,
    "ytick.labelsize": FONT_PT - 1,
    "legend.fontsize": FONT_PT - 0.5,
    "figure.titlesize": FONT_PT,
    "figure.dpi": 150,
    "axes.linewidth": 0.6,
    "axes.edgecolor": GREY,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": PALE,
    "grid.linewidth": 0.5,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "xtick.labelcolor": "black",
    "ytick.labelcolor": "black",
    "lines.linewidth": 1.2,
    "lines.markersize": 4.0,
    "hatch.linewidth": 0.5,
    "legend.frameon": False,
    "legend.handlelength": 2.6,
    "legend.columnspacing": 1.4,
    "text.parse_math": False,  # a name may hold dollar signs
    "pdf.fonttype": 42,
    "svg.hashsalt": "flocksim",
}


@contextmanager
def styled() -> Iterator[None]:
    """Our look inside the block, whatever the user's settings; they are restored after it."""
    with matplotlib.rc_context(), warnings.catch_warnings():
        # A character that the font lacks becomes a box; the text is complete in the tables.
        warnings.filterwarnings("ignore", message="Glyph", category=UserWarning)
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_RC)
        yield


class Picture(Figure):
    """A figure that a notebook shows without pyplot."""

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        with styled():
            self.savefig(buffer, format="png", dpi=DPI)
        return buffer.getvalue()


def new_figure(width_in: float, height_in: float) -> Figure:
    """An empty figure whose parts keep clear of one another."""
    figure = Picture(figsize=(width_in, height_in), layout="constrained")
    engine = figure.get_layout_engine()
    assert engine is not None
    engine.set(w_pad=0.03, h_pad=0.04, wspace=0.03, hspace=0.03)  # type: ignore[call-arg]
    return figure


def width_of(columns: int) -> float:
    """Width of so many panels side by side, inches: one fits a column, more take the page."""
    return COLUMN_IN if columns == 1 else PAGE_IN


def head(figure: Figure, text: str) -> None:
    """One line above the panels that says under which conditions they hold."""
    if text:
        figure.suptitle(text, x=0.01, ha="left", color=GREY)


def legend_below(figure: Figure, handles: Sequence[Artist]) -> None:
    """A legend under the panels, in as many columns as the width has room for.

    The figure grows by its height.
    """
    if not handles:
        return
    widths = [0.52 + 0.056 * len(str(handle.get_label())) for handle in handles]
    columns = next(
        (
            count
            for count in range(len(handles), 1, -1)
            if sum(max(widths[k::count]) for k in range(count)) <= figure.get_figwidth()
        ),
        1,
    )
    rows = -(-len(handles) // columns)
    columns = -(-len(handles) // rows)
    figure.set_figheight(figure.get_figheight() + 0.06 + LEGEND_ROW_IN * rows)
    # Matplotlib fills column by column; entries read row by row.
    in_rows = [handle for k in range(columns) for handle in handles[k::columns]]
    figure.legend(handles=in_rows, loc="outside lower center", ncols=columns)


def entry(label: str, **style: Any) -> Line2D:
    """A legend entry that stands for no data of its own."""
    return Line2D([], [], label=label, **style)


def aside(axes: Axes, place: int, number: int) -> Transform:
    """Data coordinates, moved sideways so that bars of several lines at one x stand side by side.

    Args:
        axes: where the lines are.
        place: of the line, from 0.
        number: of lines.
    """
    step_pt = min(1.8, 9 / number)
    shift_in = (place - (number - 1) / 2) * step_pt / 72
    return axes.transData + ScaledTranslation(shift_in, 0, axes.figure.dpi_scale_trans)


def log_axis(axes: Axes, which: Literal["x", "y"]) -> None:
    """A logarithmic axis with plain numbers at 1, 2, 5; at round ones where it is short."""
    (axes.set_xscale if which == "x" else axes.set_yscale)("log", nonpositive="clip")
    axis = axes.xaxis if which == "x" else axes.yaxis
    low, high = axis.get_view_interval()
    ratio = high / low if low > 0 else 1e3
    subs = (1.0, 2.0, 5.0) if ratio < 200 else (1.0,)
    is_short = ratio < 8
    axis.set_major_locator(MaxNLocator(4) if is_short else LogLocator(subs=subs, numticks=12))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_locator(NullLocator())
    axis.set_minor_formatter(NullFormatter())


def rate_axis(axes: Axes, label: str) -> None:
    """An abscissa from 0, with room for markers at its end; without a unit it counts something."""
    axes.set_xlabel(label)
    if "(" not in label:
        axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True))
    axes.set_xlim(0, axes.get_xlim()[1] * 1.02)


def value_axis(axes: Axes, which: Literal["x", "y"], values: npt.ArrayLike) -> None:
    """An axis from 0, or a logarithmic one where positive values span more than LOG_FROM_RATIO."""
    sizes = np.asarray(values, dtype=np.float64)
    sizes = sizes[sizes > 0]
    if len(sizes) and sizes.max() / sizes.min() > LOG_FROM_RATIO:
        log_axis(axes, which)
    elif which == "y":
        axes.set_ylim(bottom=0)
    else:
        axes.set_xlim(left=0)
