"""Where the time of the instances went: cost terms and idle time, absolute and as shares."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from experiments.figures.errors import FigureError
from experiments.figures.looks import Look
from experiments.figures.study import Study
from experiments.figures.style import PAGE_IN, legend_below, new_figure
from experiments.figures.units import load_text
from experiments.results.load import Run

TERMS = {
    "gemm_s": ("GEMM", "#0072B2", ""),
    "attention_prefill_s": ("attention, prefill", "#E69F00", "////"),
    "attention_decode_s": ("attention, decode", "#F0E442", ".."),
    "collective_s": ("collectives", "#CC79A7", "xxxx"),
    "small_ops_s": ("small operations", "#56B4E9", "\\\\\\\\"),
    "launch_s": ("launch", "#009E73", "----"),
    "scheduler_s": ("scheduler", "#D55E00", "||||"),
    "transfer_s": ("transfer", "#882255", "++"),
    "idle_s": ("idle", "#FFFFFF", ""),
}
"""Terms of `sim.cost_totals` in seconds, and what is left of instances x makespan: title, colour,
hatch. Hatches tell them apart in grey print."""

BAR_IN = 0.17
MAX_BARS = 24
"""More bars than this are cut to one rate."""


def data(study: Study, *, rate: float | None = None) -> pd.DataFrame:
    """Times by term, means over seeds and replications.

    Args:
        study: the runs.
        rate: offered rate, requests/s: only the nearest one is drawn. None draws all, or the
            default one of the figure cdf if these are more than MAX_BARS bars.

    Returns:
        `series`, `setting`, `offered_rate_per_s`, `users`, `term` (those that some run has),
        `seconds` (summed over instances), `share_ratio`.
    """
    settings = study.settings
    if rate is not None or len(settings) * len(study.series) > MAX_BARS:
        settings = [study.pick(rate)]
    rows: list[dict[str, object]] = []
    for setting in settings:
        for series in study.series:
            times = [found for run in study.runs_of(series, setting) if (found := times_of(run))]
            if not times:
                continue
            means = {term: float(np.mean([one[term] for one in times])) for term in TERMS}
            whole = sum(means.values())
            rows += [
                {
                    "series": series,
                    "setting": setting,
                    "offered_rate_per_s": study.offered_rate(setting),
                    "users": study.users(setting),
                    "term": term,
                    "seconds": seconds,
                    "share_ratio": seconds / whole if whole > 0 else np.nan,
                }
                for term, seconds in means.items()
            ]
    if not rows:
        raise FigureError("no run has cost_totals in result.json, nor steps.parquet")
    table = pd.DataFrame(rows)
    used = table.groupby("term")["seconds"].sum()
    table = table[table["term"].map(used) > 0].reset_index(drop=True)
    cut = len(settings) < len(study.settings) and rate is None
    table.attrs = {"notes": ["one rate of several is drawn: option rate"] if cut else []}
    return table


def times_of(run: Run) -> dict[str, float] | None:
    """Seconds by term, summed over the instances of a run; None if it does not hold them.

    Idle is what the terms leave of instances x (first arrival to last finish).
    """
    busy = [term for term in TERMS if term != "idle_s"]
    requests = run.read_table("requests.parquet", ["arrival_s", "finish_s", "replication"])
    num_replications = 1
    totals = run.document.get("cost_totals")
    if totals is None:
        steps = run.read_table("steps.parquet", [*busy, "replication"])
        if steps is None:
            return None
        num_replications = steps["replication"].nunique() if "replication" in steps else 1
        totals = steps.sum()
    times = {term: float(totals.get(term, 0.0)) / num_replications for term in busy}
    whole = num_instances(run) * (_span_s(requests) if requests is not None else 0.0)
    return {**times, "idle_s": max(0.0, whole - sum(times.values()))}


def num_instances(run: Run) -> int:
    """Instances of the cluster, of all roles."""
    cluster = run.config.get("cluster", {})
    names: Sequence[str] = ("num_instances", "num_prefill", "num_decode")
    return sum(int(cluster.get(name) or 0) for name in names) or 1


def _span_s(requests: pd.DataFrame) -> float:
    """From the first arrival to the last finish, seconds; the mean over replications."""
    if "replication" in requests:
        return float(
            np.mean(
                [
                    _span_s(rows.drop(columns="replication"))
                    for _, rows in requests.groupby("replication")
                ]
            )
        )
    return float(requests["finish_s"].max() - requests["arrival_s"].min())


def draw(data: pd.DataFrame, looks: Mapping[str, Look]) -> Figure:
    """Bars of seconds left, of shares right; grouped by rate."""
    rows = _rows(data, looks)
    figure = new_figure(PAGE_IN, 0.5 + BAR_IN * 1.15 * len(rows))
    left, right = figure.subplots(1, 2, sharey=True)
    terms = [term for term in TERMS if (data["term"] == term).any()]
    largest = data.groupby(["series", "setting"])["seconds"].sum().max()
    _draw_bars(left, data, rows, "seconds", terms, 1.0)
    _draw_bars(right, data, rows, "share_ratio", terms, 100.0)
    left.set_xlabel("Time, summed over instances (s)")
    right.set_xlabel("Share of instances × makespan (%)")
    left.set_xlim(0, largest * 1.02)
    right.set_xlim(0, 100.4)
    left.set_yticks(range(len(rows)), [label for label, _ in rows])
    for tick, (_, key) in zip(left.get_yticklabels(), rows, strict=True):
        tick.set_fontweight("normal" if key else "bold")
    left.set_ylim(len(rows) - 0.4, -0.6)
    for axes in (left, right):
        axes.grid(visible=False, axis="y")
        axes.tick_params(axis="y", length=0)
    legend_below(figure, [_patch(term) for term in terms])
    return figure


def _rows(
    data: pd.DataFrame, looks: Mapping[str, Look]
) -> list[tuple[str, tuple[str, int] | None]]:
    """Labels from top to bottom with the bar of each; a load is a label without a bar."""
    loads = data.drop_duplicates("setting")[["setting", "offered_rate_per_s", "users"]]
    present = set(zip(data["series"], data["setting"], strict=True))
    rows: list[tuple[str, tuple[str, int] | None]] = []
    for number, rate_per_s, users in loads.itertuples(index=False):
        label = load_text(rate_per_s, users)
        if label:
            rows.append((label, None))
        rows += [(name, (name, number)) for name in looks if (name, number) in present]
    return rows


def _draw_bars(
    axes: Axes,
    data: pd.DataFrame,
    rows: Sequence[tuple[str, tuple[str, int] | None]],
    column: str,
    terms: Sequence[str],
    factor: float,
) -> None:
    values = data.set_index(["series", "setting", "term"])[column] * factor
    places = [(place, key) for place, (_, key) in enumerate(rows) if key is not None]
    at = [place for place, _ in places]
    left = np.zeros(len(places))
    for term in terms:
        width = np.array([values.get((*key, term), 0.0) for _, key in places])
        _, colour, hatch = TERMS[term]
        axes.barh(at, width, 0.78, left=left, **_paint(colour, hatch))
        left += width


def _paint(colour: str, hatch: str) -> dict[str, Any]:
    return {"facecolor": colour, "hatch": hatch, "edgecolor": "#333333", "linewidth": 0.4}


def _patch(term: str) -> Patch:
    title, colour, hatch = TERMS[term]
    return Patch(label=title, **_paint(colour, hatch))
