"""A toy device, and tables of points that lie off its forms by factors of choice."""

import itertools
from collections.abc import Callable, Sequence

import numpy as np

from hwmodels.tables.axes import TABLED_KERNELS, Columns
from hwmodels.tables.device_table import DeviceTable
from hwmodels.tables.points import HeldOutErrors, MeasuredPoints
from sim.interfaces import FloatArray
from tests.unit.hwmodels.kernels.parameter_sets import a100_kernels

MODELS = a100_kernels()


def grid(**axes: Sequence[float]) -> dict[str, FloatArray]:
    """Every combination, shape (points,) per axis."""
    rows = np.array(list(itertools.product(*axes.values())), dtype=np.float64)
    return dict(zip(axes, rows.T.copy(), strict=True))


GRIDS: dict[str, dict[str, FloatArray]] = {
    "gemm": grid(m=[1, 8, 64], n=[1024, 2048, 4096], k=[1024, 4096]),
    "decode_attention": grid(
        batch_size=[1, 4, 16], context_tokens=[128, 512, 2048], num_heads=[32], num_kv_heads=[8]
    ),
    "prefill_attention": grid(
        batch_size=[1],
        chunk_tokens=[128, 512, 2048],
        prefix_tokens=[0, 1000, 4000],
        num_heads=[32],
        num_kv_heads=[8],
    ),
    "moe": grid(
        num_tokens=[1, 64],
        hidden_size=[4096],
        intermediate_size=[14336],
        top_k=[2],
        num_experts=[8],
    ),
    "all_reduce": grid(num_bytes=[1024, 4096, 65536], num_gpus=[2, 4]),
}

BETTER = HeldOutErrors(num_shapes=9, num_rows=9, form_mape=0.1, table_mape=0.05)
WORSE = HeldOutErrors(num_shapes=9, num_rows=9, form_mape=0.05, table_mape=0.1)


def points(
    kernel: str,
    factor: Callable[[Columns], FloatArray | float],
    heldout: HeldOutErrors | None = None,
) -> MeasuredPoints:
    """Points of the grid of a kernel, `factor` times slower than its form."""
    columns = GRIDS[kernel]
    form_s = TABLED_KERNELS[kernel].form_s(getattr(MODELS, kernel), columns)
    return MeasuredPoints(
        kernel=kernel,
        columns=columns,
        time_s=form_s * factor(columns),
        source="toy",
        heldout=heldout,
    )


def table_of(*kernels: MeasuredPoints, device: str = MODELS.device) -> DeviceTable:
    """A table of some points."""
    return DeviceTable(
        device=device,
        date="2026-01-02",
        compared_with="2026-01-01",
        inputs={"toy.csv": "00"},
        kernels={one.kernel: one for one in kernels},
    )


def uneven(columns: Columns) -> FloatArray:
    """Factors from 0.8 to 1.25, another one at every point."""
    size = next(iter(columns.values())).size
    return np.exp(np.linspace(-0.22, 0.22, size)[np.argsort(np.sin(np.arange(size)))])
