"""Job directories written by hand: what a test needs to know of a job, no simulation."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from experiments.results.documents import SCHEMA_VERSION

GROUPS = ("trace", "model", "hardware", "cluster", "engine", "batching", "routing", "eviction")


def write_job(
    directory: Path,
    *overrides: str,
    metrics: Mapping[str, float | None] | None = None,
    status: str = "ok",
    regime: str | None = "stable",
    seed: int = 0,
    config: Mapping[str, Any] | None = None,
    requests: pd.DataFrame | None = None,
    replications: Sequence[Mapping[str, Any]] | None = None,
    flags: Sequence[Mapping[str, Any]] = (),
    provenance: Mapping[str, Any] | None = None,
    versions: Mapping[str, str] | None = None,
    error: str | None = None,
) -> Path:
    """Write result.json, run.json and (if given) requests.parquet.

    An override of a group (``"routing=jsq"``) becomes a choice, any other a value of the
    configuration, whose sections `config` adds to. The metric `ttft_mean_s` alone is there unless
    others are given; jobs that could not run have none.
    """
    shown: dict[str, Any] = {"seed": seed, "slo": {"ttft_s": 2.0, "tpot_s": 0.1}, "trace": {}}
    shown |= {"engine": {"max_model_len": None}, "routing": {}}
    choices = {"routing": "round_robin", "batching": "fcfs", "trace": "demo"}
    for item in overrides:
        key, _, text = item.partition("=")
        if key in GROUPS or "@" in key:
            choices[key] = text
        else:
            section, _, name = key.partition(".")
            shown.setdefault(section, {})[name] = _number(text)
    for section, values in (config or {}).items():
        shown[section] = {**shown.get(section, {}), **values}
    has_run = status in ("ok", "interrupted")
    trace = {"format": "demo", "sha256": None, "seed": seed, "options": shown["trace"]}
    document = {
        "schema_version": SCHEMA_VERSION,
        "status": status,
        "regime": regime,
        "config": {"choices": choices, **shown},
        "job_key": f"{sorted(choices.items())} {shown}" if has_run else None,
        "seed": seed,
        "versions": versions or {"flocksim": "0.1.0"},
        "provenance": {"trace": trace, "sources_sha256": "a" * 64, **(provenance or {})},
        "flags": list(flags),
        "metrics": dict(metrics or {"ttft_mean_s": 0.1}) if has_run else None,
    }
    if replications is not None:
        document["replications"] = list(replications)
    if error is not None:
        document["error"] = error
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "result.json").write_text(json.dumps(document))
    run = {"schema_version": SCHEMA_VERSION, "overrides": [*overrides, f"seed={seed}"]}
    (directory / "run.json").write_text(json.dumps(run))
    if requests is not None:
        requests.to_parquet(directory / "requests.parquet")
    return directory


def request_table(**columns: Sequence[Any]) -> pd.DataFrame:
    """Rows of requests.parquet that all finished, unless the columns given say otherwise."""
    count = len(next(iter(columns.values())))
    usual: dict[str, Any] = {
        "request_id": list(range(count)),
        "arrival_s": [0.0] * count,
        "admitted_s": [0.0] * count,
        "first_token_s": [1.0] * count,
        "finish_s": [2.0] * count,
        "prompt_tokens": [10] * count,
        "output_tokens": [11] * count,
        "cached_tokens": [0] * count,
        "status": ["finished"] * count,
    }
    return pd.DataFrame({**usual, **columns})


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text
