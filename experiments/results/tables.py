"""Tables of a job as parquet files: units in the column names, null where nothing happened."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from experiments.deployment import Deployment
from experiments.results.atomic import write_atomically
from experiments.results.executor_metrics import executor_columns
from experiments.results.handover import handover_columns
from sim.cost_totals import COST_COLUMNS
from sim.front_end_records import user_view
from sim.inter_token import FloatArray, IntArray, weighted_percentiles
from sim.recorder import RUN_COLUMNS
from sim.records import InstanceRecords, SimulationResult
from sim.workload import Labels

STATUS_NAMES = ("unfinished", "finished", "rejected")
REJECT_NAMES = (None, "over_kv_capacity", "refused_at_admission", "over_max_model_len")

NUM_QUANTILES = 1000
"""Equal parts into which distributions are cut."""


def write_requests(path: Path, tables: Sequence[Any]) -> None:
    """Write requests.parquet.

    Args:
        path: the file.
        tables: `request_table` of each replication, in order; if there are several, a column
            `replication` tells them apart.
    """
    write_atomically(path, lambda temporary: _write(_stacked(tables), temporary))


def write_steps(path: Path, tables: Sequence[Any]) -> None:
    """Write steps.parquet from the `step_table` of each replication, as `write_requests`."""
    write_atomically(path, lambda temporary: _write(_stacked(tables), temporary))


def write_decisions(path: Path, tables: Sequence[Any]) -> None:
    """Write decisions.parquet from the `decision_table` of each replication, likewise."""
    write_atomically(path, lambda temporary: _write(_stacked(tables), temporary))


def write_distributions(path: Path, gaps_s: FloatArray, gap_counts: IntArray) -> None:
    """Percentiles of the inter-token gaps, a row per 0.1 %; null where no request has two tokens.

    Args:
        path: the file.
        gaps_s: lengths of gaps, seconds. Shape (k,).
        gap_counts: how many gaps have each length. Shape (k,).
    """
    quantile = np.arange(NUM_QUANTILES + 1) / NUM_QUANTILES
    itl_s = np.full(len(quantile), np.nan)
    if len(gaps_s):
        itl_s[:] = weighted_percentiles(gaps_s, gap_counts, (100 * quantile).tolist())
    columns = {"quantile": column(quantile), "itl_s": column(itl_s, np.isnan(itl_s))}
    write_atomically(path, lambda temporary: _write(table_of(columns), temporary))


def request_table(result: SimulationResult) -> Any:
    """Table of the requests, with times as their users see them (`pyarrow.Table`)."""
    workload, records = result.workload, user_view(result).requests
    columns: dict[str, Any] = {
        "request_id": column(np.arange(workload.num_requests)),
        "arrival_s": column(records.arrival_s, np.isnan(records.arrival_s)),
        "admitted_s": column(records.admitted_s, np.isnan(records.admitted_s)),
        "first_token_s": column(records.first_token_s, np.isnan(records.first_token_s)),
        "finish_s": column(records.finish_s, np.isnan(records.finish_s)),
        "instance": column(records.instance, records.instance < 0),
        "prompt_tokens": column(workload.prompt_tokens),
        "output_tokens": column(workload.output_tokens),
        "cached_tokens": column(records.cached_tokens, records.cached_tokens < 0),
        "num_preemptions": column(records.num_preemptions),
        "status": name_column(records.status, STATUS_NAMES),
        "reject_reason": name_column(records.reject_reason, REJECT_NAMES),
    }
    if result.front_end is not None:
        of_engine = {
            "engine_arrival_s": result.front_end.engine_arrival_s,
            "engine_first_token_s": result.requests.first_token_s,
            "engine_finish_s": result.requests.finish_s,
        }
        for name, times_s in of_engine.items():
            columns[name] = column(times_s, np.isnan(times_s))
    for name, (of_handover, is_null) in handover_columns(result).items():
        columns[name] = column(of_handover, is_null)
    if result.tiers is not None:
        tiers = result.tiers
        columns["host_hit_tokens"] = column(tiers.host_hit_tokens, records.cached_tokens < 0)
        columns["remote_hit_tokens"] = column(tiers.remote_hit_tokens, records.cached_tokens < 0)
        columns["load_wait_s"] = column(tiers.load_wait_s, np.isnan(tiers.load_wait_s))
    for name in ("session_id", "turn", "parent_id"):
        values = getattr(workload, name)
        if values is not None:
            columns[name] = column(values, values < 0)
    for name in ("tenant", "slo_class"):
        labels: Labels | None = getattr(workload, name)
        if labels is not None:
            columns[name] = name_column(labels.codes, labels.names)
    if workload.priority is not None:
        columns["priority"] = column(workload.priority)
    if workload.is_closed_loop:
        columns["nominal_arrival_s"] = column(workload.arrival_s)
        if workload.after is not None:
            columns["after"] = column(workload.after, workload.after < 0)
    return table_of(columns)


def step_table(result: SimulationResult, deployment: Deployment) -> Any:
    """Table of the runs of steps, with the cost terms of one GPU each (`pyarrow.Table`)."""
    parts = [
        {
            "instance": np.full(len(runs["start_s"]), index),
            **runs,
            **executor_columns(result, deployment, index),
        }
        for index, runs in enumerate(map(run_columns, result.instances))
    ]
    return table_of(
        {name: column(np.concatenate([part[name] for part in parts])) for name in parts[0]}
    )


def run_columns(instance: InstanceRecords) -> dict[str, npt.NDArray[Any]]:
    """Start and end time and the recorded columns of every run of steps that ended."""
    last_step = instance.run_column("first_step") + instance.run_column("num_steps") - 1
    is_done = last_step < len(instance.step_end_s)
    columns: dict[str, npt.NDArray[Any]] = {
        name: instance.run_column(name)[is_done] for name in RUN_COLUMNS
    }
    if instance.run_costs is not None:
        columns.update(zip(COST_COLUMNS, instance.run_costs[is_done].T, strict=True))
    start_s = instance.step_start_s[columns["first_step"]]
    return {"start_s": start_s, "end_s": instance.step_end_s[last_step[is_done]], **columns}


def column(values: npt.NDArray[Any], is_null: npt.NDArray[np.bool_] | None = None) -> Any:
    """A column of 64-bit integers or floats, null where `is_null` (`pyarrow.Array`).

    Built from buffers because `pyarrow.array()` would import pandas.
    """
    import pyarrow as pa

    kind, dtype = (pa.float64(), np.float64) if values.dtype.kind == "f" else (pa.int64(), np.int64)
    valid = None
    if is_null is not None and is_null.any():
        valid = pa.py_buffer(np.packbits(~is_null, bitorder="little").tobytes())
    data = np.ascontiguousarray(values, dtype=dtype)
    return pa.Array.from_buffers(kind, len(data), [valid, pa.py_buffer(data)])


def name_column(codes: npt.NDArray[Any], names: Sequence[str | None]) -> Any:
    """Codes as a dictionary column; negative codes and codes without a name are null."""
    import pyarrow as pa

    has_name = np.array([name is not None for name in names] or [False])
    is_null = (codes < 0) | ~has_name[codes.clip(0)]
    indices = column(np.where(is_null, 0, codes), is_null)
    return pa.DictionaryArray.from_arrays(indices, _texts([name or "" for name in names] or [""]))


def _texts(texts: Sequence[str]) -> Any:
    import pyarrow as pa

    encoded = [text.encode() for text in texts]
    offsets = np.append(0, np.cumsum([len(text) for text in encoded])).astype(np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(encoded))]
    return pa.Array.from_buffers(pa.string(), len(encoded), buffers)


def _stacked(tables: Sequence[Any]) -> Any:
    """One table of all, numbered by a first column where there are several."""
    import pyarrow as pa

    if len(tables) == 1:
        return tables[0]
    numbered = [
        table.add_column(0, "replication", column(np.full(table.num_rows, number)))
        for number, table in enumerate(tables)
    ]
    return pa.concat_tables(numbered, promote_options="default").unify_dictionaries()


def table_of(columns: Mapping[str, Any]) -> Any:
    """A table of named columns (`pyarrow.Table`)."""
    import pyarrow as pa

    return pa.Table.from_arrays(list(columns.values()), names=list(columns))


def _write(table: Any, path: Path) -> None:
    from pyarrow import parquet

    parquet.write_table(table, path)
