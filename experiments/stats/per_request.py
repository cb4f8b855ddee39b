"""Figures recomputed from requests.parquet: of a whole run, and of each tenant or SLO class."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.results.metrics_frame import (
    by_replication,
    frame_of,
    is_closed_loop,
    replications_of,
)
from experiments.results.warmup import counted
from sim.errors import ConfigError
from sim.metrics import PERCENTILES

if TYPE_CHECKING:
    import pandas as pd

    from experiments.results.load import Run

CLASSES = ("tenant", "slo_class")
"""Columns of requests.parquet that a breakdown may go by."""

NO_CLASS = "(none)"

_LATENCIES = ("ttft", "tpot", "e2e", "queue")


def request_latencies(run: "Run") -> "pd.DataFrame | None":
    """Rows of requests.parquet that count (after the warm-up), with their latencies.

    Adds `ttft_s`, `tpot_s` (NaN for one-token outputs), `e2e_s`, `queue_s` (NaN where the request
    did not get so far) and `is_good` (finished and met both SLOs). None if the file is missing.
    """
    table = run.requests
    if table is None:
        return None
    rows = counted(table, run.config).copy()
    arrival_s, first_s = rows["arrival_s"], rows["first_token_s"]
    tokens = _output_tokens(rows, run)
    rows["ttft_s"] = first_s - arrival_s
    rows["tpot_s"] = ((rows["finish_s"] - first_s) / (tokens - 1)).where(tokens > 1)
    rows["e2e_s"] = rows["finish_s"] - arrival_s
    rows["queue_s"] = rows["admitted_s"] - rows.get("engine_arrival_s", arrival_s)
    slo_ttft_s, slo_tpot_s = run.slo
    is_slow = (rows["ttft_s"] > slo_ttft_s) | (rows["tpot_s"] > slo_tpot_s)
    rows["is_good"] = (rows["status"] == "finished") & ~is_slow
    return rows


def request_metrics(rows: "pd.DataFrame", makespan_s: float) -> dict[str, float | None]:
    """Metrics of requests under the names of result.json.

    Args:
        rows: as `request_latencies` returns them, of one replication.
        makespan_s: what rates are relative to, seconds.
    """
    done = rows[rows["status"] == "finished"]
    num_good = float(rows["is_good"].sum())
    metrics: dict[str, float | None] = {
        "num_requests": float(len(rows)),
        **{f"num_{status}": float((rows["status"] == status).sum()) for status in _STATUSES},
        "request_rate_per_s": _ratio(float(len(done)), makespan_s),
    }
    for name in _LATENCIES:
        metrics |= _spread(name, done[f"{name}_s"].dropna().to_numpy(dtype=float))
    admitted = rows[rows["cached_tokens"].notna()]
    metrics["goodput_per_s"] = _ratio(num_good, makespan_s)
    metrics["slo_attainment_ratio"] = _ratio(num_good, float(len(rows)))
    hits = float(admitted["cached_tokens"].sum())
    metrics["prefix_hit_ratio"] = _ratio(hits, float(admitted["prompt_tokens"].sum()))
    return metrics


def class_frame(
    runs: "Sequence[Run]",
    by: str,
    policy_keys: Sequence[str] = (),
    unit_keys: Sequence[str] = (),
) -> "pd.DataFrame":
    """Like `metrics_frame`, with one row per (run, replication, class); `by` is a setting.

    Rates (goodput included) are per second of the whole run's makespan, so that those of the
    classes add up to those of the run.

    Args:
        runs: the jobs.
        by: one of CLASSES.
        policy_keys: keys that make different policies instead of different settings.
        unit_keys: keys whose values are observations of one setting.

    Raises:
        ConfigError: `by` is no class, or no run has it.
    """
    if by not in CLASSES:
        raise ConfigError(f"unknown class {by!r}: must be one of {', '.join(CLASSES)}")
    observations = [_class_rows(run, by) for run in runs]
    if not any(observations):
        raise ConfigError(f"no run has a {by}: its trace must carry that column")
    return frame_of(runs, observations, policy_keys, extra_settings=[by], unit_keys=unit_keys)


_STATUSES = ("finished", "rejected", "unfinished")


def _class_rows(run: "Run", by: str) -> list[dict[str, Any]]:
    rows = request_latencies(run)
    if rows is None or by not in rows.columns:
        return []
    heads = {one["replication"]: one for one in replications_of(run)}
    is_closed = is_closed_loop(run)
    found: list[dict[str, Any]] = []
    for replication, table in by_replication(rows):
        head = heads[replication]
        makespan_s = float(head["metrics"].get("makespan_s") or 0.0)
        names = table[by].astype(object).where(table[by].notna(), NO_CLASS)
        for name in sorted(set(names)):
            part = table[names == name]
            span_s = 0.0 if is_closed else float(part["arrival_s"].max() - part["arrival_s"].min())
            found.append(
                {
                    **{key: head[key] for key in ("seed", "replication", "regime")},
                    by: name,
                    "offered_rate_per_s": _ratio(float(len(part)), span_s),
                    **request_metrics(part, makespan_s),
                }
            )
    return found


def _output_tokens(rows: "pd.DataFrame", run: "Run") -> "pd.Series[Any]":
    """Tokens that a finished request generated: all it asked for, less what the context cut."""
    tokens = rows["output_tokens"]
    limit = (run.config.get("engine") or {}).get("max_model_len")
    if limit is None:
        return tokens
    return tokens.clip(upper=(limit - rows["prompt_tokens"]).clip(lower=1))


def _spread(name: str, values: "np.ndarray[Any, np.dtype[np.float64]]") -> dict[str, float | None]:
    keys = [f"{name}_mean_s", *(f"{name}_p{p}_s" for p in PERCENTILES)]
    if not len(values):
        return dict.fromkeys(keys)
    found = [float(values.mean()), *map(float, np.percentile(values, PERCENTILES))]
    return dict(zip(keys, found, strict=True))


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole > 0 else None
