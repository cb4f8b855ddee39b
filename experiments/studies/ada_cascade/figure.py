"""Figure of `validate_ada_cascade`: measured ranges, simulated values, what hangs on what."""

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.figures.looks import COLOURS
from experiments.figures.style import PAGE_IN, entry, legend_below, new_figure, styled
from experiments.studies.findings import Row

_HEIGHT_IN = 2.4
_HALF_WIDTH = 0.3
_SHADE: Any = {"color": "black", "alpha": 0.25, "linewidth": 0}


def anchor_figure(rows: Sequence[Row], varied: Sequence[Row]) -> Figure:
    """Two panels.

    Args:
        rows: the measured rows, each with its claim.
        varied: the row without cascade under variations of the model, named by their roles.
    """
    with styled():
        figure = new_figure(PAGE_IN, _HEIGHT_IN)
        left, right = figure.subplots(1, 2)
        _draw_rows(left, rows)
        _draw_varied(right, [rows[0], *varied])
        legend_below(
            figure,
            [
                entry("measured range", color="black", alpha=0.25, linewidth=5),
                entry("simulated", color=COLOURS[0], marker="o", linestyle=""),
            ],
        )
        return figure


def _draw_rows(axes: Axes, rows: Sequence[Row]) -> None:
    for place, row in enumerate(rows):
        assert row.claim is not None
        axes.fill_between([place - _HALF_WIDTH, place + _HALF_WIDTH], *row.claim, **_SHADE)
        axes.plot(place, row.simulated.mean, "o", color=COLOURS[0])
    axes.set_xticks(range(len(rows)), [row.setting.replace(", ", "\n") for row in rows])
    axes.set_xlim(-0.5, len(rows) - 0.5)
    axes.set_ylabel("TPOT, mean (ms)")
    axes.set_ylim(bottom=0)


def _draw_varied(axes: Axes, rows: Sequence[Row]) -> None:
    claim = rows[0].claim
    assert claim is not None
    axes.axvspan(*claim, **_SHADE)
    for place, row in enumerate(rows):
        axes.plot(row.simulated.mean, place, "o", color=COLOURS[0])
    labels = ["as it is", *(row.role for row in rows[1:])]
    axes.set_yticks(range(len(rows)), labels)
    axes.invert_yaxis()
    axes.set_xlim(left=0)
    axes.set_xlabel("TPOT, cascade off, 100 users (ms)")
