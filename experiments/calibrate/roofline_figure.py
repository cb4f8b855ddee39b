"""Measured kernels under the roofs of a profile: FLOP/s against FLOPs per byte."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from experiments.figures.style import (
    GREY,
    PAGE_IN,
    entry,
    head,
    legend_below,
    log_axis,
    new_figure,
    styled,
)
from hwmodels.fitting.recipe import Columns
from hwmodels.fitting.validation import Comparison
from hwmodels.kernels.models import KernelModels

FloatArray = npt.NDArray[np.float64]
Work = tuple[FloatArray, FloatArray]
"""FLOPs and bytes of rows, each of shape (rows,)."""

_HEAD_DIM = 128
_ELEMENT_BYTES = 2
_TFLOPS = 1e12
_LARGEST_NUM_POINTS = 2000
_INTENSITIES = np.geomspace(0.3, 2e4, 200)


def roofline_figure(models: KernelModels, rows: Sequence[Comparison]) -> Figure:
    """Points are measured kernels, bytes counted once; lines are fitted rates.

    Points above the memory's roof found part of their bytes in L2.
    """
    assert models.gemm is not None and models.l2 is not None
    top = models.gemm.flops_per_s
    handles: list[Line2D] = []
    with styled():
        figure = new_figure(PAGE_IN, 3.2)
        head(figure, f"{models.device}: measured kernels, bytes counted once")
        axes = figure.subplots()
        for one in rows:
            if one.kernel in _WORK:
                handles.append(_points(axes, one))
        roofs = (("memory", models.l2.hbm_bytes_per_s, "-"), ("L2", models.l2.l2_bytes_per_s, "--"))
        for name, rate, style in roofs:
            roof = np.minimum(_INTENSITIES * rate, top) / _TFLOPS
            look: dict[str, Any] = {"color": GREY, "linewidth": 0.9, "linestyle": style}
            axes.plot(_INTENSITIES, roof, **look)
            handles.append(entry(f"{name} {rate / 1e9:,.0f} GB/s", **look))
        log_axis(axes, "x")
        log_axis(axes, "y")
        axes.set_xlim(_INTENSITIES[0], _INTENSITIES[-1])
        axes.set_xlabel("intensity (FLOPs per byte)")
        axes.set_ylabel("rate (TFLOP/s)")
        axes.text(_INTENSITIES[-1], top / _TFLOPS, f"{top / _TFLOPS:.0f}", ha="right", va="bottom")
        legend_below(figure, handles)
        return figure


def _points(axes: Axes, rows: Comparison) -> Line2D:
    work, colour, marker = _WORK[rows.kernel]
    flops, num_bytes = work(rows.columns)
    step = -(-flops.size // _LARGEST_NUM_POINTS)
    look: dict[str, Any] = {
        "color": colour,
        "marker": marker,
        "linestyle": "none",
        "markersize": 3.0,
    }
    axes.plot(
        (flops / num_bytes)[::step], (flops / rows.measured / _TFLOPS)[::step], **look, alpha=0.7
    )
    return entry(rows.kernel, **look)


def _gemm(columns: Columns) -> Work:
    m, n, k = columns["m"], columns["n"], columns["k"]
    return 2.0 * m * n * k, _ELEMENT_BYTES * (m * k + k * n + m * n)


def _decode(columns: Columns) -> Work:
    batch = columns["batch"] if "batch" in columns else columns["batch_size"]
    total = columns.get("context_sum")
    if total is None:
        total = batch * columns["context_tokens"]
    return _attention(columns, total, total, batch)


def _prefill(columns: Columns) -> Work:
    batch = columns["batch"] if "batch" in columns else columns["batch_size"]
    chunk, prefix = columns["chunk_tokens"], columns["prefix_tokens"]
    pairs = batch * (chunk * prefix + chunk * (chunk + 1.0) / 2.0)
    return _attention(columns, pairs, batch * (prefix + chunk), batch * chunk)


def _packed(columns: Columns) -> Work:
    batch = columns["groups"] * columns["members"]
    pairs = batch * (columns["prefix_tokens"] + columns["suffix_tokens"])
    stored = columns["groups"] * columns["prefix_tokens"] + batch * columns["suffix_tokens"]
    return _attention(columns, pairs, stored, batch)


def _attention(
    columns: Columns, pairs: FloatArray, stored: FloatArray, queries: FloatArray
) -> Work:
    heads, kv_heads = columns["num_heads"], columns["num_kv_heads"]
    elements = 2.0 * (kv_heads * stored + heads * queries)
    return 4.0 * _HEAD_DIM * heads * pairs, _ELEMENT_BYTES * _HEAD_DIM * elements


_WORK: dict[str, tuple[Callable[[Columns], Work], str, str]] = {
    "gemm": (_gemm, "#0072B2", "o"),
    "prefill_attention": (_prefill, "#E69F00", "s"),
    "decode_attention": (_decode, "#009E73", "^"),
    "packed": (_packed, "#CC79A7", "D"),
}
"""Work, colour and marker of the kernels drawn. Source of the colours: Okabe and Ito (2008)."""
