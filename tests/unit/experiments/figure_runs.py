"""Runs written by hand for the tests of figures: small tables whose figures one can compute."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from experiments.results.load import Run, load_run
from tests.job_directories import write_job

TPOT_S = 0.01
"""Of every request of a table."""

Metrics = dict[str, float | int | None]


def requests_table(
    arrivals_s: ArrayLike, ttfts_s: ArrayLike, tokens: ArrayLike, **columns: Any
) -> pd.DataFrame:
    """requests.parquet: half of the wait for the first token is queueing; instances alternate."""
    arrival, ttft = np.asarray(arrivals_s, dtype=float), np.asarray(ttfts_s, dtype=float)
    output = np.asarray(tokens, dtype=np.int64)
    table = pd.DataFrame(
        {
            "request_id": np.arange(len(arrival)),
            "arrival_s": arrival,
            "admitted_s": arrival + ttft / 2,
            "first_token_s": arrival + ttft,
            "finish_s": arrival + ttft + TPOT_S * (output - 1),
            "instance": np.arange(len(arrival)) % 2,
            "prompt_tokens": 100,
            "output_tokens": output,
            "cached_tokens": 0,
            "num_preemptions": 0,
            "status": "finished",
        }
    )
    return table.assign(**columns)


def latency_metrics(base_s: float) -> Metrics:
    """Metrics in which every latency is a simple multiple of one number."""
    metrics: Metrics = {"makespan_s": 10.0, "num_gpu_blocks": 101}
    for name, factor in {"ttft": 1.0, "tpot": 0.1, "itl": 0.1, "e2e": 10.0, "queue": 0.5}.items():
        for statistic, stretch in {"mean": 1.0, "p50": 0.8, "p90": 2.0, "p99": 4.0}.items():
            metrics[f"{name}_{statistic}_s"] = base_s * factor * stretch
    return {
        **metrics,
        "output_tokens_per_s": 200 / base_s,
        "goodput_per_s": 2 / base_s,
        "slo_attainment_ratio": max(0.0, 1 - base_s),
    }


def write_run(
    directory: Path,
    *overrides: str,
    steps: pd.DataFrame | None = None,
    distributions: pd.DataFrame | None = None,
    document: Mapping[str, Any] | None = None,
    **job: Any,
) -> Run:
    """Write the files of one job on two instances (see `write_job`) and read it back.

    `document` is added to result.json.
    """
    config = {"cluster": {"num_instances": 2}, **job.pop("config", {})}
    write_job(directory, *overrides, config=config, **job)
    for name, table in {"steps": steps, "distributions": distributions}.items():
        if table is not None:
            table.to_parquet(directory / f"{name}.parquet")
    if document is not None:
        path = directory / "result.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **document}))
    return load_run(directory)


def steps_table(is_late: bool = False) -> pd.DataFrame:
    """steps.parquet: instance 0 busy from 0 to 2 s and from 3 to 4 s, instance 1 from 0 to 4 s."""
    return pd.DataFrame(
        {
            "instance": [0, 0, 1],
            "start_s": [0.0, 3.0, 0.0],
            "end_s": [2.0, 4.0, 4.0],
            "num_decodes": [3, 1, 2],
            "num_prefills": [1, 0, 0],
            "num_waiting": [2, 0, 1 + is_late],
            "used_blocks": [40, 10, 20],
            "gemm_s": [1.0, 0.5, 2.0],
            "attention_decode_s": [0.5, 0.25, 1.0],
            "attention_prefill_s": [0.25, 0.0, 0.0],
            "launch_s": [0.25, 0.25, 1.0],
        }
    )


def instances(*counts: int) -> list[Metrics]:
    """`instances` of result.json: so many requests on each, a hit of 10 % per request."""
    return [
        {
            "instance": place,
            "num_requests": count,
            "request_share_ratio": count / sum(counts),
            "prefix_hit_ratio": 0.1 * count if count else None,
            "mean_requests": count / 2,
        }
        for place, count in enumerate(counts)
    ]


def study_runs(directory: Path, routings: Sequence[str] = ("round_robin", "jsq")) -> list[Run]:
    """Two rates x two seeds of every policy, the last rate overloaded for the first policy."""
    runs: list[Run] = []
    for place, routing in enumerate(routings):
        for rate_scale in (1.0, 2.0):
            for seed in (0, 1):
                base_s = rate_scale * (0.2 + 0.01 * place) * (1 + 0.1 * seed)
                arrivals = np.arange(9) / rate_scale
                ttfts = base_s * (1 + np.arange(9) % 3)
                tokens = 2 + np.arange(9) % 4
                labels = np.where(np.arange(9) % 2, "chat", "batch")
                is_shaky = not place and rate_scale == 2.0 and seed == 1
                runs.append(
                    write_run(
                        directory / f"{len(runs)}",
                        f"routing={routing}",
                        f"trace.rate_scale={rate_scale}",
                        seed=seed,
                        metrics=latency_metrics(base_s),
                        requests=requests_table(arrivals, ttfts, tokens, tenant=labels),
                        steps=steps_table(),
                        distributions=gaps_table(base_s / 10),
                        regime="overloaded" if is_shaky else "stable",
                        document={"instances": instances(5 - place, 4 + place)},
                    )
                )
    return runs


def gaps_table(longest_s: float) -> pd.DataFrame:
    """distributions.parquet: gaps spread evenly between 0 and the longest."""
    quantile = np.arange(1001) / 1000
    return pd.DataFrame({"quantile": quantile, "itl_s": quantile * longest_s})
