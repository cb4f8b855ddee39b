"""Figure of `validate_vllm_a100`: ITL measured against simulated, errors over the hit share."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from experiments.figures.looks import COLOURS, MARKERS, MEASURED_LOOK
from experiments.figures.style import GREY, PAGE_IN, entry, legend_below, new_figure, styled
from experiments.studies.findings import Row

_HEIGHT_IN = 2.6
_FIRST = 2
"""Place of the first colour and marker of the right panel: the left one has those before."""

_LINES = ("-", "-", "--", "--")


def errors_figure(constant: Sequence[Row], poisson: Sequence[Row], scan: Sequence[Row]) -> Figure:
    """Two panels.

    Args:
        constant: a row per point, evenly spaced arrivals.
        poisson: the same with Poisson arrivals.
        scan: rows per point over the hit share (`Row.at`).
    """
    with styled():
        figure = new_figure(PAGE_IN, _HEIGHT_IN)
        left, right = figure.subplots(1, 2)
        _draw_points(left, constant, poisson)
        labels = list(dict.fromkeys(row.setting for row in scan))
        for place, label in enumerate(labels):
            rows = [row for row in scan if row.setting == label]
            right.plot(
                [row.at for row in rows],
                [100 * (row.error_ratio or 0.0) for row in rows],
                color=COLOURS[_FIRST + place],
                linestyle=_LINES[place],
                marker=MARKERS[_FIRST + place],
                markersize=2.5,
            )
        right.axhline(0, color=GREY, linewidth=0.8)
        right.set_xlabel("Share of the prompt that is cached")
        right.set_ylabel("ITL, error (%)")
        right.set_xlim(0, 1)
        right.set_yscale("symlog", linthresh=10)
        right.set_yticks([-10, -5, 0, 5, 10, 100], ["-10", "-5", "0", "5", "10", "100"])
        legend_below(
            figure,
            [
                entry("measured", color="black", marker=MEASURED_LOOK.marker, linestyle=""),
                entry("constant arrivals", color=COLOURS[0], marker="o", linestyle=""),
                entry("Poisson arrivals", color=COLOURS[1], marker="s", linestyle=""),
                *(_line_entry(place, label) for place, label in enumerate(labels)),
            ],
        )
        return figure


def _line_entry(place: int, label: str) -> Line2D:
    colour, marker = COLOURS[_FIRST + place], MARKERS[_FIRST + place]
    return entry(label, color=colour, marker=marker, linestyle=_LINES[place])


def _draw_points(axes: Axes, constant: Sequence[Row], poisson: Sequence[Row]) -> None:
    for place, (even, bursty) in enumerate(zip(constant, poisson, strict=True)):
        assert even.claim is not None
        axes.plot(place, even.claim[0], "*", color="black", markersize=7, zorder=3)
        for row, shift, colour, marker in ((even, -0.2, 0, "o"), (bursty, 0.2, 1, "s")):
            reach = row.simulated.half_width
            axes.errorbar(
                place + shift,
                row.simulated.mean,
                yerr=None if reach != reach else reach,
                fmt=marker,
                color=COLOURS[colour],
                capsize=2,
            )
    axes.set_xticks(range(len(constant)), [row.setting for row in constant])
    axes.set_xlim(-0.5, len(constant) - 0.5)
    axes.set_ylabel("ITL, mean (ms)")
    axes.set_ylim(bottom=0)
