"""Rate over time, lengths, reuse against cache size and sharing depth of one or two traces."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from experiments.figures.style import GREY, PAGE_IN, head, new_figure, styled
from experiments.trace_cli.drawing import Drawn
from experiments.trace_cli.tables import size_of
from sim.workload import IntArray
from traces.analysis.arrivals import rate_over_time
from traces.analysis.sharing import SharingDepth

COLOURS = ("#0072B2", "#D55E00")
"""Blue and vermilion. Source: Okabe and Ito, "Color Universal Design" (2008)."""

SHORTEST = 10
"""Least depth of sharing that is drawn, tokens."""

_TIME_UNITS = ((2 * 86400.0, 86400.0, "days"), (2 * 3600.0, 3600.0, "hours"), (120.0, 60.0, "min"))


def trace_figure(traces: Sequence[Drawn]) -> Figure:
    """Four panels; each trace has a colour of its own."""
    with styled():
        figure = new_figure(PAGE_IN, 4.8)
        if len(traces) == 1:
            name, _, facts = traces[0]
            head(figure, f"{Path(name).name}: {size_of(facts)}")
        else:
            handles = [
                Line2D([], [], color=colour, label=name)
                for (name, _, _), colour in zip(traces, COLOURS, strict=False)
            ]
            figure.legend(handles=handles, loc="outside upper left", ncols=len(handles))
        panels = figure.subplots(2, 2).ravel().tolist()
        for axes, draw in zip(panels, (_rate, _lengths, _reuse, _depth), strict=True):
            draw(axes, traces)
        return figure


def _rate(axes: Axes, traces: Sequence[Drawn]) -> None:
    longest_s = max(facts.first_arrival_s + facts.span_s for _, _, facts in traces)
    unit_s, unit = next(((s, u) for least, s, u in _TIME_UNITS if longest_s >= least), (1.0, "s"))
    bins = []
    for (_, workload, _), colour in zip(traces, COLOURS, strict=False):
        rate = rate_over_time(workload)
        edges = np.append(rate.start_s, rate.start_s[-1] + rate.bin_s) / unit_s
        axes.stairs(rate.requests_per_s, edges, baseline=None, color=colour, linewidth=0.9)
        bins.append(f"{rate.bin_s:g}")
    is_nominal = any(facts.is_closed_loop for _, _, facts in traces)
    in_bins = " and ".join(dict.fromkeys(bins))
    axes.set_xlabel(f"{'nominal time' if is_nominal else 'time'} ({unit}, bins of {in_bins} s)")
    axes.set_ylabel("arrivals (requests/s)")
    axes.set_ylim(bottom=0)
    axes.set_xlim(left=0)


def _lengths(axes: Axes, traces: Sequence[Drawn]) -> None:
    for (_, workload, _), colour in zip(traces, COLOURS, strict=False):
        for tokens, style in ((workload.prompt_tokens, "-"), (workload.output_tokens, "--")):
            axes.step(*_cumulative(tokens), style, where="post", color=colour)
    _tokens_axis(axes, "length (tokens)")
    axes.set_ylabel("requests at most so long (%)")
    axes.set_ylim(0, 100)
    colour = COLOURS[0] if len(traces) == 1 else GREY
    styles: tuple[tuple[Any, str], ...] = (("-", "prompt"), ("--", "output"))
    handles = [Line2D([], [], linestyle=style, color=colour, label=what) for style, what in styles]
    axes.legend(handles=handles, loc="upper left")


def _reuse(axes: Axes, traces: Sequence[Drawn]) -> None:
    for (_, _, facts), colour in zip(traces, COLOURS, strict=False):
        curve = facts.curve
        found = 100 * curve.reuse_ratio
        axes.plot(curve.cache_tokens, found, color=colour)
        if curve.standard_error.any():
            error = 200 * curve.standard_error
            low, high = np.maximum(found - error, 0), np.minimum(found + error, 100)
            axes.fill_between(curve.cache_tokens, low, high, color=colour, alpha=0.2, linewidth=0)
        axes.axhline(found[-1], color=colour, linewidth=0.6, linestyle=":")
        place = (curve.cache_tokens[0], found[-1])
        text = f"unlimited: {found[-1]:.1f} %"
        axes.annotate(text, place, xytext=(2, 2), textcoords="offset points", color=colour)
    _tokens_axis(axes, "size of the prefix cache (tokens)")
    axes.set_ylabel("prompt tokens found (%)")
    axes.set_ylim(0, max(10.0, *(115 * float(f.curve.reuse_ratio[-1]) for _, _, f in traces)))


def _depth(axes: Axes, traces: Sequence[Drawn]) -> None:
    for (_, workload, _), colour in zip(traces, COLOURS, strict=False):
        shared = np.sort(SharingDepth.of(workload).shared_tokens)
        values, first = np.unique(shared[shared > 0], return_index=True)
        left = 100 * (np.count_nonzero(shared > 0) - first) / len(shared)
        if len(values):
            steps = np.append(min(SHORTEST, values[0]), values), np.append(left, 0.0)
            axes.step(*steps, where="post", color=colour)
        else:
            axes.plot([SHORTEST, 10 * SHORTEST], [0, 0], color=colour)
    _tokens_axis(axes, "x: tokens shared with another prompt")
    axes.set_ylabel("prompts that share > x (%)")
    axes.set_xlim(left=SHORTEST)
    axes.set_ylim(0, 100)


def _cumulative(tokens: IntArray) -> tuple[IntArray, np.ndarray]:
    """Lengths and the share of requests up to each, from none at the shortest; for steps."""
    values, counts = np.unique(tokens, return_counts=True)
    return np.append(values[0], values), 100 * np.append(0, np.cumsum(counts)) / len(tokens)


def _tokens_axis(axes: Axes, label: str) -> None:
    axes.set_xlabel(label)
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(numticks=8))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _short(value)))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.tick_params(axis="x", which="minor", size=1.5)


def _short(value: float) -> str:
    """A number of tokens with a decimal prefix."""
    for size, prefix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g} {prefix}"
    return f"{value:g}"
