"""One run over time: batch, queue, KV usage, imbalance and load of instances, as time means."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from experiments.figures.breakdown import num_instances
from experiments.figures.step_functions import imbalance_means, spans_as_events, time_means
from experiments.results.load import Run

FloatArray = npt.NDArray[np.float64]

_REQUESTS = [
    "arrival_s",
    "engine_arrival_s",
    "admitted_s",
    "finish_s",
    "instance",
    "prefill_instance",
    "first_token_s",
    "decode_start_s",
    "status",
    "replication",
]
_STEPS = ["start_s", "end_s", "num_decodes", "num_prefills", "num_waiting", "used_blocks"]


@dataclass(frozen=True, slots=True)
class RunTables:
    """What one run (its first replication) left behind.

    Attributes:
        requests: of requests.parquet.
        steps: of steps.parquet; None if it was not written.
        num_instances: of the cluster.
        num_blocks: usable KV blocks of an instance; None where not known.
    """

    requests: pd.DataFrame
    steps: pd.DataFrame | None
    num_instances: int
    num_blocks: float | None


def tables_of(run: Run) -> RunTables | None:
    """The tables of a run; None where it has no requests."""
    requests = _first_replication(run.read_table("requests.parquet", _REQUESTS))
    if requests is None or requests.empty:
        return None
    steps = _first_replication(run.read_table("steps.parquet", [*_STEPS, "replication"]))
    blocks = run.metrics.get("num_gpu_blocks")
    return RunTables(requests, steps, num_instances(run), float(blocks) - 1 if blocks else None)


def _first_replication(table: pd.DataFrame | None) -> pd.DataFrame | None:
    if table is None or "replication" not in table:
        return table
    first: pd.DataFrame = table[table["replication"] == table["replication"].min()]
    return first


def edges_of(tables: Sequence[RunTables], num_bins: int) -> FloatArray:
    """Equal spans from the first arrival to the last finish of all the runs. Shape (num_bins + 1,).

    At least a second long in all, so that a run without a duration can be drawn.
    """
    first_s = min(float(one.requests["arrival_s"].min()) for one in tables)
    last_s = max(
        float(np.nanmax(one.requests[["arrival_s", "finish_s"]].to_numpy())) for one in tables
    )
    return np.linspace(first_s, last_s if last_s > first_s else first_s + 1.0, num_bins + 1)


def panels_of(tables: RunTables, edges: FloatArray) -> list[pd.DataFrame]:
    """Tables of all panels of one run: `panel`, `instance`, `start_s`, `end_s`, `value`."""
    is_served = tables.requests["instance"].notna() & (tables.requests["status"] != "rejected")
    served = tables.requests[is_served]
    found = _cluster_values(tables, served, edges)
    frames = [_frame(panel, -1, values, edges) for panel, values in found.items()]
    stays = _stays(served)
    if tables.num_instances > 1 and "decode_start_s" not in served:
        imbalance = imbalance_means(
            served["arrival_s"].to_numpy(),
            served["finish_s"].to_numpy(),
            served["instance"].to_numpy(dtype=np.int64),
            tables.num_instances,
            edges,
        )
        frames.append(_frame("imbalance_ratio", -1, imbalance, edges))
    for instance in range(tables.num_instances):
        mine = stays[stays["instance"] == instance]
        events = spans_as_events(mine["arrival_s"].to_numpy(), mine["finish_s"].to_numpy())
        load = time_means(*events, edges)
        frames.append(_frame("instance_requests", instance, load, edges))
    return frames


def _stays(served: pd.DataFrame) -> pd.DataFrame:
    """A row per request and instance it was on: two where it was handed over.

    It counts where it was prefilled until it joins the decode batch.
    """
    if "decode_start_s" not in served:
        return served
    is_moved = served["decode_start_s"].notna()
    moved, others = served[is_moved], served[~is_moved]
    before = moved.assign(instance=moved["prefill_instance"], finish_s=moved["decode_start_s"])
    after = moved.assign(arrival_s=moved["decode_start_s"])
    return pd.concat([others, before, after], ignore_index=True)


def _computing(admitted: pd.DataFrame) -> tuple[FloatArray, FloatArray]:
    """Spans in which requests are in a batch: not while their KV caches are handed over."""
    starts_s, ends_s = admitted["admitted_s"].to_numpy(), admitted["finish_s"].to_numpy()
    if "decode_start_s" not in admitted:
        return starts_s, ends_s
    joined_s = admitted["decode_start_s"].to_numpy()
    is_moved = ~np.isnan(joined_s)
    until_s = np.where(is_moved, admitted["first_token_s"].to_numpy(), ends_s)
    return (
        np.concatenate([starts_s, joined_s[is_moved]]),
        np.concatenate([until_s, ends_s[is_moved]]),
    )


def _cluster_values(
    tables: RunTables, served: pd.DataFrame, edges: FloatArray
) -> dict[str, FloatArray]:
    if tables.steps is None:
        admitted = served[served["admitted_s"].notna()]
        running = spans_as_events(*_computing(admitted))
        came_s = served.get("engine_arrival_s", served["arrival_s"])
        queued = spans_as_events(came_s.to_numpy(), served["admitted_s"].to_numpy())
        return {
            "batch_requests": time_means(*running, edges) / tables.num_instances,
            "queue_requests": time_means(*queued, edges),
        }
    steps = tables.steps
    spans = steps["start_s"].to_numpy(), steps["end_s"].to_numpy()

    def means(values: "pd.Series[int]") -> FloatArray:
        heights = np.asarray(values, dtype=np.float64)
        return time_means(*spans_as_events(*spans, heights), edges)

    found = {
        "batch_requests": means(steps["num_decodes"] + steps["num_prefills"])
        / tables.num_instances,
    }
    if tables.num_blocks:
        usable = tables.num_blocks * tables.num_instances
        found["kv_usage_ratio"] = means(steps["used_blocks"]) / usable
    found["queue_requests"] = means(steps["num_waiting"])
    return found


def _frame(panel: str, instance: int, values: FloatArray, edges: FloatArray) -> pd.DataFrame:
    # Sums of equal steps up and down leave dust instead of 0.
    clean = np.where(np.abs(values) < 1e-9, 0.0, values)
    return pd.DataFrame(
        {
            "panel": panel,
            "instance": instance,
            "start_s": edges[:-1],
            "end_s": edges[1:],
            "value": clean,
        }
    )
