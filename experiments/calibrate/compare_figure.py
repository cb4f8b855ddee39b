"""Two profiles: ratios of kernel times, and the reference step by term."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from experiments.calibrate.compared import STEP, TIME, Pair
from experiments.calibrate.reference_grid import STEP_TEXT
from experiments.figures.style import (
    GREY,
    PAGE_IN,
    head,
    legend_below,
    log_axis,
    new_figure,
    styled,
)

TERMS = {
    "gemm_s": ("GEMM", "#0072B2"),
    "attention_s": ("attention", "#F0E442"),
    "small_ops_s": ("small operations", "#56B4E9"),
    "host_s": ("host", "#D55E00"),
}
"""Terms of the reference step: title and colour, those of the figure breakdown."""

_ROW_IN = 0.135
_MS_PER_S = 1e3
_SLOWER, _FASTER = "#D55E00", "#009E73"


def compare_figure(first: str, second: str, pairs: Sequence[Pair]) -> Figure:
    """Left: each kernel time of the second profile over that of the first; right: both steps."""
    times = [pair for pair in pairs if pair.kind == TIME and pair.ratio is not None]
    with styled():
        figure = new_figure(PAGE_IN, 0.9 + _ROW_IN * max(len(times), 10))
        head(figure, f"{second} against {first}")
        left, right = figure.subplots(1, 2, width_ratios=(3, 2))
        _ratios(left, first, second, times)
        _steps(right, first, second, {pair.name: pair for pair in pairs if pair.kind == STEP})
        handles = [Patch(facecolor=colour, label=title) for title, colour in TERMS.values()]
        legend_below(figure, handles)
        return figure


def _ratios(axes: Axes, first: str, second: str, times: Sequence[Pair]) -> None:
    labels = []
    for place, pair in enumerate(times):
        ratio = pair.ratio or 1.0
        colour = _SLOWER if ratio > 1 else _FASTER
        axes.plot([1.0, ratio], [place, place], color=colour, linewidth=1.0)
        axes.plot([ratio], [place], color=colour, marker="o", markersize=3.0)
        is_first = place == 0 or times[place - 1].kernel != pair.kernel
        labels.append(f"{pair.kernel}: {pair.name}" if is_first else pair.name)
    axes.axvline(1.0, color=GREY, linewidth=0.7)
    log_axis(axes, "x")
    axes.set_ylim(len(times) - 0.4, -0.6)
    axes.set_yticks(range(len(labels)), labels, fontsize=5.5)
    axes.set_xlabel(f"time of {second} / time of {first}")


def _steps(axes: Axes, first: str, second: str, terms: dict[str, Pair]) -> None:
    for place, is_second in enumerate((False, True)):
        bottom = 0.0
        for name, (_, colour) in TERMS.items():
            pair = terms[name]
            value = ((pair.second if is_second else pair.first) or 0.0) * _MS_PER_S
            axes.bar(place, value, 0.6, bottom=bottom, color=colour, edgecolor="white")
            bottom += value
        axes.text(place, bottom, f"{bottom:.1f}", ha="center", va="bottom")
    axes.set_xticks((0, 1), (first, second))
    axes.set_xlim(-0.6, 1.6)
    axes.set_ylabel("time (ms)")
    axes.set_title(STEP_TEXT.replace(", ", ",\n", 1))
