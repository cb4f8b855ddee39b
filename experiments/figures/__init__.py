"""Figures of runs: what is drawn as a table, the picture, and files for a paper.

Every figure is a module of this package with its name: `data()` makes the table, `draw()` the
picture. Nothing heavy is imported before the first call.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from experiments.figures.measured import MeasuredFiles
    from experiments.results.load import Run

__all__ = ["FORMATS", "NAMES", "figure", "plotted_data", "save_all"]

NAMES: tuple[str, ...] = (
    "latency_vs_rate",
    "goodput_vs_rate",
    "frontier",
    "heatmap",
    "cdf",
    "differences",
    "breakdown",
    "classes",
    "timeline",
    "instances",
)
"""Names of all figures, overview first."""

FORMATS: tuple[str, ...] = ("png", "svg", "pdf")
"""Formats of files, by suffix."""


def figure(name: str, runs: "Sequence[Run]", **options: Any) -> "Figure":
    """A picture, ready to show in a notebook or to save.

    Args:
        name: one of `NAMES`.
        runs: jobs as `experiments.results.load.load_runs` returns them.
        **options: those of the figure's module (`data()`), and `policy_keys`: keys such as
            ``"engine.max_num_seqs"`` that make different policies instead of different settings,
            `unit_keys`: such as ``"trace.window_s"`` whose values are repeats of one setting.

    Raises:
        FigureError: an unknown name or option, or the runs do not hold the data.
        MeasuredError: a measured file is missing or damaged.
    """
    from experiments.figures.catalogue import draw_figure

    return draw_figure(name, runs, options)


def plotted_data(name: str, runs: "Sequence[Run]", **options: Any) -> "pd.DataFrame":
    """Exactly what `figure` draws: one row per point, in SI base units.

    `attrs["notes"]` says what was left out.

    Raises:
        FigureError: an unknown name or option, or the runs do not hold the data.
        MeasuredError: a measured file is missing or damaged.
    """
    from experiments.figures.catalogue import figure_data

    return figure_data(name, runs, options)


def save_all(
    runs: "Sequence[Run]",
    directory: str | Path,
    formats: Sequence[str] = ("png",),
    measured: "MeasuredFiles | None" = None,
    say: Callable[[str], object] | None = None,
    *,
    baseline: str | None = None,
    policy_keys: Sequence[str] = (),
    unit_keys: Sequence[str] = (),
) -> list[Path]:
    """Write every figure for which the runs hold the data; the same runs give the same bytes.

    Args:
        runs: jobs as `experiments.results.load.load_runs` returns them.
        directory: where to write; created if need be.
        formats: any of `FORMATS`.
        measured: result files of `vllm bench serve`, drawn over the simulated points.
        say: is told, a line each, which figures and what of them were left out and why; None
            writes the lines to standard error.
        baseline: policy that the figure `differences` compares with; None takes the first.
        policy_keys: keys such as ``"engine.max_num_seqs"`` that make different policies.
        unit_keys: keys such as ``"trace.window_s"`` whose values are repeats of one setting.

    Returns:
        The files written, in the order of `NAMES`.

    Raises:
        FigureError: an unknown format.
        MeasuredError: a measured file is missing or damaged.
        OutputError: the directory cannot be written.
    """
    from experiments.figures.save import save_figures

    options = {"measured": measured, "baseline": baseline}
    return save_figures(runs, Path(directory), formats, options, say, policy_keys, unit_keys)
