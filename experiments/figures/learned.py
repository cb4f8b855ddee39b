"""What Feather's learner came to do: how often it adds, by state and over time.

`flocksim-study feather_learned` draws it; of the files that `batching.state_out` writes:

    write_picture(draw(*tables(read_learner_state(path, "path"))), Path("learned.png"))

This figure is of a policy's own state and not of runs, so `flocksim-compare` does not draw it.
"""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from experiments.figures.errors import FigureError
from experiments.figures.heatmap import SHADES
from experiments.figures.style import GREY, PAGE_IN, new_figure, styled
from policies.batching.feather.history import COLUMNS
from policies.batching.feather.learner import (
    ADD,
    MAX_LOSS,
    REQUESTS_PER_BIN,
    SIZE_BINS,
    TABLE_SHAPE,
)
from policies.batching.feather.learner_state import LearnerState

HEIGHT_IN = 3.9


def tables(*states: LearnerState) -> tuple[pd.DataFrame, pd.DataFrame]:
    """What is drawn.

    Args:
        states: of one run, or of several that differ by seed.

    Returns:
        `num_running` (first of its bin), `loss_chunks`, `num_decisions` and `add_ratio`, the share
        of ADD among rewarded decisions of all numbers of sharing requests and all runs, a row per
        pair that occurred; and `run` (place of the state), `time_s`, `num_decisions`, `num_adds`,
        `regret` (running totals of the last run), `add_ratio` of all decisions so far.

    Raises:
        FigureError: nothing was learned.
    """
    counts = np.array([state.counts for state in states]).sum(axis=0)
    counts = counts.reshape(TABLE_SHAPE).sum(axis=2)
    totals = counts.sum(axis=-1)
    sizes, losses = np.nonzero(totals)
    if not len(sizes):
        raise FigureError("no decision was rewarded, so there is nothing to draw")
    cells = pd.DataFrame(
        {
            "num_running": sizes * REQUESTS_PER_BIN,
            "loss_chunks": losses - MAX_LOSS,
            "num_decisions": totals[sizes, losses],
            "add_ratio": counts[sizes, losses, ADD] / totals[sizes, losses],
        }
    )
    curve = pd.concat(
        [
            pd.DataFrame(state.points, columns=list(COLUMNS)).assign(run=place)
            for place, state in enumerate(states)
        ],
        ignore_index=True,
    )
    curve["add_ratio"] = curve["num_adds"] / curve["num_decisions"]
    return cells, curve


def draw(cells: pd.DataFrame, curve: pd.DataFrame) -> Figure:
    """Share of ADD by batch size and prefix loss; and over time, with the regret, line by run."""
    with styled():
        figure = new_figure(PAGE_IN, HEIGHT_IN)
        panels = figure.subplot_mosaic("aaaa;bbcc", height_ratios=(1.3, 1))
        left, middle, right = panels["a"], panels["b"], panels["c"]
        grid = cells.pivot(index="loss_chunks", columns="num_running", values="add_ratio")
        grid = grid.reindex(range(int(cells["loss_chunks"].max()) + 1)).sort_index(ascending=False)
        values = np.ma.masked_invalid(100 * grid.to_numpy(dtype=float))
        image = left.imshow(values, cmap=SHADES, vmin=0, vmax=100, aspect="auto")
        for (row, column), value in np.ndenumerate(grid.to_numpy(dtype=float)):
            if np.isfinite(value):
                colour = "w" if SHADES(value)[0] < 0.55 else "k"
                left.text(column, row, f"{100 * value:.0f}", ha="center", va="center", color=colour)
        left.set_xticks(range(grid.shape[1]), [_bin(int(size)) for size in grid.columns])
        left.set_yticks(range(grid.shape[0]), [_loss(int(loss)) for loss in grid.index])
        left.set_xlabel("batch size (requests)")
        left.set_ylabel("prefix loss (chunks)")
        left.grid(visible=False)
        left.tick_params(length=0)
        left.spines[:].set_visible(False)
        bar = figure.colorbar(image, ax=left, pad=0.02, aspect=12)
        bar.set_label("share of ADD (%)")
        bar.outline.set_visible(False)
        width = 1.2 if curve["run"].nunique() == 1 else 0.6
        for _, run in curve.groupby("run"):
            middle.plot(run["time_s"], 100 * run["add_ratio"], color=GREY, linewidth=width)
            right.plot(run["time_s"], run["regret"] / 1e3, color=GREY, linewidth=width)
        middle.set_ylim(0, 102)
        middle.set_ylabel("share of ADD so far (%)")
        right.set_ylim(bottom=0)
        right.set_ylabel("regret (1,000 requests/s)")
        for axes in (middle, right):
            axes.set_xlabel("time (s)")
            axes.set_xlim(left=0)
    return figure


def _bin(first: int) -> str:
    is_last = first == (SIZE_BINS - 1) * REQUESTS_PER_BIN
    return f"{first}+" if is_last else f"{first}-{first + REQUESTS_PER_BIN - 1}"


def _loss(loss: int) -> str:
    return f"{loss}+" if loss == MAX_LOSS else f"{loss}"
