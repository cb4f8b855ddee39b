"""How far predicted times are from measured ones."""

from dataclasses import dataclass

import numpy as np

from hwmodels.fitting.parameter import FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorSummary:
    """Relative errors `predicted / measured - 1` of some rows, as ratios.

    Attributes:
        num_rows: rows compared; the other fields are nan without any.
        mape: mean of the absolute error.
        median: median of the absolute error.
        p90: 90th percentile of the absolute error.
        bias: mean of the signed error; positive: predicted too slow.
    """

    num_rows: int
    mape: float
    median: float
    p90: float
    bias: float


def summarise_errors(predicted_s: FloatArray, measured_s: FloatArray) -> ErrorSummary:
    """Errors of predictions against measurements, both of shape (rows,) in seconds."""
    if not measured_s.size:
        return ErrorSummary(num_rows=0, mape=np.nan, median=np.nan, p90=np.nan, bias=np.nan)
    error = predicted_s / measured_s - 1
    size = np.abs(error)
    return ErrorSummary(
        num_rows=int(error.size),
        mape=float(size.mean()),
        median=float(np.median(size)),
        p90=float(np.quantile(size, 0.9)),
        bias=float(error.mean()),
    )
