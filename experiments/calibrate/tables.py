"""Comparisons on the terminal and as CSV."""

import csv
import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

from experiments.quantities import ABSENT, count
from hwmodels.fitting.validation import FITTED, Comparison
from hwmodels.kernels.models import KernelModels

if TYPE_CHECKING:
    from rich.table import Table

HEADER = (
    "kernel",
    "subset",
    "num_rows",
    "mape_ratio",
    "median_ratio",
    "p90_ratio",
    "bias_ratio",
    "heldout_mape_ratio",
    "worst_shape",
    "worst_shape_mape_ratio",
)
"""Columns of the CSV."""


def comparison_table(models: KernelModels, found: Sequence[Comparison]) -> "Table":
    """Errors per kernel and range of rows, in percent of the measured time."""
    from rich.table import Table

    title = f"{models.device} ({models.date}): predicted against measured, errors in %"
    table = Table(title=title, title_justify="left")
    for name in ("kernel", "rows"):
        table.add_column(name)
    for name in ("n", "MAPE", "median", "p90", "bias", "held out"):
        table.add_column(name, justify="right")
    for one in found:
        errors = one.errors
        numbers = (errors.mape, errors.median, errors.p90)
        table.add_row(
            one.kernel,
            one.subset,
            count(errors.num_rows),
            *(f"{100 * number:.1f}" for number in numbers),
            f"{100 * errors.bias:+.1f}",
            ABSENT if one.heldout_mape is None else f"{100 * one.heldout_mape:.1f}",
        )
    return table


def worst_lines(found: Sequence[Comparison]) -> list[str]:
    """The worst shapes of each kernel in the range of its fit, a line each."""
    return [
        f"{one.kernel}: worst "
        + "; ".join(f"{shape} ({100 * error:.0f} %)" for shape, error in one.worst_shapes)
        for one in found
        if one.subset == FITTED
    ]


def left_out_lines(found: Sequence[Comparison]) -> list[str]:
    """What the tables hold that was not compared, a line per kernel and reason."""
    lines = [
        f"{one.kernel}: {count(entry.num_rows)} rows left out: {entry.reason}"
        for one in found
        for entry in one.left_out
    ]
    return list(dict.fromkeys(lines))


def unfitted_lines(found: Sequence[Comparison]) -> list[str]:
    """Where more rows were compared than the fit used, a line per kernel."""
    return [
        f"{one.kernel}: {count(one.errors.num_rows)} rows compared, of which the fit used "
        f"{count(one.num_rows_fit)}: the others were too far off it"
        for one in found
        if one.num_rows_fit is not None
    ]


def csv_text(found: Sequence[Comparison]) -> str:
    """The table as CSV, errors as ratios; columns are `HEADER`."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(HEADER)
    for one in found:
        errors = one.errors
        numbers = (errors.mape, errors.median, errors.p90, errors.bias, one.heldout_mape)
        shape, error = one.worst_shapes[0]
        writer.writerow(
            [
                one.kernel,
                one.subset,
                errors.num_rows,
                *("" if number is None else f"{number:.6g}" for number in numbers),
                shape,
                f"{error:.6g}",
            ]
        )
    return text.getvalue()
