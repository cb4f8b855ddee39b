"""What the studies of LMETRIC measure, run by run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from experiments.results.metrics_frame import by_replication
from experiments.studies.lmetric.setting import MAX_MODEL_LEN

if TYPE_CHECKING:
    import pandas as pd

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Measure:
    """A quantity.

    Attributes:
        key: column of a `RunTable` or name of a metric.
        title: in tables.
        unit: in tables.
        factor: from the value of a run to that unit.
        percentile: of the requests' values; None is their mean.
        is_metric: whether it is a metric of the run, not a value of each request.
    """

    key: str
    title: str
    unit: str
    factor: float = 1.0
    percentile: float | None = None
    is_metric: bool = False


TTFT = Measure("ttft_s", "TTFT mean", "ms", 1e3)
TTFT_P50 = Measure("ttft_s", "TTFT p50", "ms", 1e3, 50)
TTFT_P90 = Measure("ttft_s", "TTFT p90", "ms", 1e3, 90)
TTFT_P95 = Measure("ttft_s", "TTFT p95", "ms", 1e3, 95)
TPOT = Measure("tpot_s", "TPOT mean", "ms", 1e3)
TPOT_P99 = Measure("tpot_s", "TPOT p99", "ms", 1e3, 99)
HITS = Measure("prefix_hit_ratio", "prefix hits", "%", 100, is_metric=True)
IMBALANCE = Measure("load_imbalance_ratio", "max/mean requests", "x", is_metric=True)
GOODPUT = Measure("goodput_per_s", "goodput", "requests/s", is_metric=True)

SERVED = Measure("is_served", "served before the last arrival", "%", 100)
HOT_TTFT = Measure("hot_ttft_s", "TTFT mean, hot class", "ms", 1e3)
HOT_TPOT = Measure("hot_tpot_s", "TPOT mean, hot class", "ms", 1e3)
REST_TTFT = Measure("rest_ttft_s", "TTFT mean, others", "ms", 1e3)
REST_TPOT = Measure("rest_tpot_s", "TPOT mean, others", "ms", 1e3)

LATENCIES = (TTFT, TTFT_P50, TTFT_P90, TTFT_P95, TPOT, TPOT_P99)
PLAIN = (*LATENCIES, HITS, IMBALANCE, GOODPUT, SERVED)

_COLUMNS = [
    *("request_id", "arrival_s", "first_token_s", "finish_s", "instance"),
    *("prompt_tokens", "output_tokens", "cached_tokens", "replication", "tenant"),
]

HOT = "hot"
"""Tenant of the requests that share the long prefix."""


@dataclass(frozen=True, slots=True)
class RunTable:
    """Requests of a run, in the order of the trace; those of the warm-up are left out.

    Attributes:
        columns: one value per request, NaN where it did not get so far. Shape (n,) each: ttft_s,
            tpot_s (NaN for one-token outputs), arrival_s, finish_s, instance, prompt_tokens,
            cached_tokens, is_served (1 if it ended before the last arrival); with a hot class also
            is_hot and the latencies of either class (hot_ttft_s, rest_ttft_s, ...), NaN elsewhere.
    """

    columns: Mapping[str, FloatArray]

    def values(self, key: str) -> FloatArray:
        """A column."""
        return self.columns[key]


def read_runs(path: Path, num_warm: int) -> tuple[RunTable, ...]:
    """Runs of a job, in the order of the replications.

    Args:
        path: its requests.parquet.
        num_warm: requests of the warm-up.
    """
    import pandas as pd
    import pyarrow.parquet as pq

    known = pq.read_schema(path).names
    table = pd.read_parquet(path, columns=[name for name in _COLUMNS if name in known])
    return tuple(
        _run_table(rows.sort_values("request_id"), num_warm) for _, rows in by_replication(table)
    )


def samples_of(runs: Sequence[RunTable], key: str) -> list[FloatArray]:
    """A column of every run."""
    return [run.values(key) for run in runs]


def _run_table(rows: "pd.DataFrame", num_warm: int) -> RunTable:
    rows = rows[rows["request_id"] >= num_warm]
    columns = {
        name: rows[name].to_numpy(dtype=np.float64, na_value=np.nan)
        for name in rows.columns
        if name not in ("request_id", "replication", "tenant")
    }
    room = np.maximum(MAX_MODEL_LEN - columns["prompt_tokens"], 1)
    tokens = np.minimum(columns["output_tokens"], room)
    with np.errstate(invalid="ignore", divide="ignore"):
        tpot_s = (columns["finish_s"] - columns["first_token_s"]) / (tokens - 1)
    columns["tpot_s"] = np.where(tokens > 1, tpot_s, np.nan)
    columns["ttft_s"] = columns["first_token_s"] - columns["arrival_s"]
    columns["is_served"] = 1.0 * (columns["finish_s"] <= np.nanmax(columns["arrival_s"]))
    if "tenant" in rows and (rows["tenant"] == HOT).any():
        columns |= _by_class(columns, (rows["tenant"] == HOT).to_numpy(dtype=np.bool_))
    return RunTable(columns)


def _by_class(columns: Mapping[str, FloatArray], is_hot: BoolArray) -> dict[str, FloatArray]:
    found: dict[str, FloatArray] = {"is_hot": is_hot.astype(np.float64)}
    for key in ("ttft_s", "tpot_s"):
        found[f"hot_{key}"] = np.where(is_hot, columns[key], np.nan)
        found[f"rest_{key}"] = np.where(is_hot, np.nan, columns[key])
    return found
