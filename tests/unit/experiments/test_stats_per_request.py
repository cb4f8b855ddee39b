"""Figures recomputed from requests.parquet: they are those of result.json, and those of classes."""

from pathlib import Path
from typing import Any

import pytest

from experiments.composing import compose_config
from experiments.job import run_job
from experiments.results.load import Run, load_run, load_runs
from experiments.results.metrics_frame import by_replication
from experiments.stats.per_request import (
    NO_CLASS,
    class_frame,
    request_latencies,
    request_metrics,
)
from sim.errors import ConfigError
from tests.conftest import TINY
from tests.job_directories import request_table, write_job

CASES = {
    "prefix hits, waiting and missed SLOs": (
        "trace=sessions",
        "trace.num_requests=80",
        "trace.rate_scale=8",
        "slo.ttft_s=0.3",
        "slo.tpot_s=0.03",
    ),
    "one-token outputs": (*TINY, "trace.output=1-2"),
    "outputs cut at the context": (*TINY, "engine.max_model_len=200"),
    "requests rejected": (*TINY, "engine.num_gpu_blocks=12"),
    "refused at the door": (
        *TINY,
        "admission=token_bucket",
        "admission.rate_tokens_per_s=100",
        "admission.burst_tokens=1000",
    ),
}


def simulated(directory: Path, *overrides: str) -> Run:
    config, choices = compose_config(overrides)
    run_job(config, choices, list(overrides), directory)
    return load_run(directory)


def recomputed(run: Run) -> dict[str, float | None]:
    rows = request_latencies(run)
    assert rows is not None
    return request_metrics(rows, float(run.metrics["makespan_s"] or 0.0))


@pytest.mark.parametrize("name", CASES)
def test_figures_of_the_rows_are_those_of_the_result(name: str, tmp_path: Path) -> None:
    run = simulated(tmp_path, *CASES[name])
    found = recomputed(run)
    assert len(found) == 24
    for metric, value in found.items():
        assert value == pytest.approx(run.metrics[metric], rel=1e-12), metric
    assert run.metrics["slo_attainment_ratio"] != 1 or "one-token" in name or "cut" in name


def test_the_makespan_of_a_run_is_from_the_first_arrival_to_the_last_finish(tmp_path: Path) -> None:
    run = simulated(tmp_path, *TINY)
    rows = request_latencies(run)
    assert rows is not None
    span_s = rows["finish_s"].max() - rows["arrival_s"].min()
    assert span_s == pytest.approx(run.metrics["makespan_s"], rel=1e-12)


TENANTS: dict[str, list[Any]] = {
    "arrival_s": [0.0, 1.0, 2.0, 3.0, 4.0],
    "admitted_s": [0.5, 1.0, 2.0, 3.0, None],
    "first_token_s": [1.0, 1.5, 5.0, 3.5, None],
    "finish_s": [2.0, 1.5, 7.0, 4.5, None],
    "output_tokens": [11, 1, 21, 101, 5],
    "prompt_tokens": [100, 100, 50, 10, 10],
    "cached_tokens": [50.0, 0.0, 25.0, 0.0, None],
    "status": ["finished"] * 4 + ["rejected"],
    "tenant": ["a", "a", "b", None, "a"],
}


def tenants(directory: Path, *overrides: str) -> Run:
    table = request_table(**TENANTS)
    metrics = {"makespan_s": 10.0}
    return load_run(write_job(directory, *overrides, metrics=metrics, requests=table))


def test_each_tenant_has_its_own_figures_by_hand(tmp_path: Path) -> None:
    """a: two finished (TTFT 1.0 and 0.5; TPOT 0.1 and none), one rejected; b: TTFT 3 misses 2 s."""
    frame = class_frame([tenants(tmp_path)], "tenant").set_index("tenant")
    assert list(frame.index) == [NO_CLASS, "a", "b"]
    a, b = frame.loc["a"], frame.loc["b"]
    assert (a["num_requests"], a["num_finished"], a["num_rejected"]) == (3, 2, 1)
    assert a["ttft_mean_s"] == 0.75
    assert a["ttft_p90_s"] == pytest.approx(0.95)
    assert a["tpot_mean_s"] == pytest.approx(0.1)
    assert a["queue_mean_s"] == pytest.approx(0.25)
    assert a["e2e_p50_s"] == pytest.approx(1.25)
    assert a["goodput_per_s"] == pytest.approx(0.2)
    assert a["slo_attainment_ratio"] == pytest.approx(2 / 3)
    assert a["prefix_hit_ratio"] == pytest.approx(0.25)
    assert a["offered_rate_per_s"] == pytest.approx(3 / 4)
    assert b["slo_attainment_ratio"] == 0.0
    assert b["tpot_mean_s"] == pytest.approx(0.1)


def test_only_a_finished_request_is_good(tmp_path: Path) -> None:
    table = request_table(
        status=["finished", "unfinished", "rejected"],
        first_token_s=[1.0, 1.0, None],
        finish_s=[2.0, None, None],
    )
    rows = request_latencies(load_run(write_job(tmp_path, requests=table)))
    assert rows is not None
    assert rows["is_good"].tolist() == [True, False, False]


def test_goodputs_of_the_classes_add_up_to_that_of_the_run(tmp_path: Path) -> None:
    run = tenants(tmp_path)
    frame = class_frame([run], "tenant")
    assert frame["goodput_per_s"].sum() == pytest.approx(recomputed(run)["goodput_per_s"])
    assert frame["num_requests"].sum() == 5


def test_the_class_is_a_setting(tmp_path: Path) -> None:
    assert class_frame([tenants(tmp_path)], "tenant").attrs["settings"] == ["tenant"]


def test_the_warm_up_does_not_count(tmp_path: Path) -> None:
    late = request_latencies(tenants(tmp_path / "s", "trace.warmup_s=1"))
    assert late is not None
    assert late["request_id"].tolist() == [1, 2, 3, 4]
    later = request_latencies(tenants(tmp_path / "n", "trace.warmup_requests=3"))
    assert later is not None
    assert later["request_id"].tolist() == [3, 4]


def test_classes_of_replications_are_apart(tmp_path: Path) -> None:
    table = request_table(tenant=["a", "a", "b"], arrival_s=[0.0, 0.5, 0.0], replication=[0, 1, 1])
    parts = [
        {"replication": k, "seed": k, "regime": "stable", "metrics": {"makespan_s": 2.0}}
        for k in range(2)
    ]
    run = load_run(write_job(tmp_path, requests=table, replications=parts))
    frame = class_frame([run], "tenant")
    assert frame[["replication", "tenant"]].values.tolist() == [[0, "a"], [1, "a"], [1, "b"]]
    assert [number for number, _ in by_replication(table)] == [0, 1]


def test_a_run_without_the_column_has_no_classes(tmp_path: Path) -> None:
    write_job(tmp_path / "0", requests=request_table(arrival_s=[0.0]))
    with pytest.raises(ConfigError, match="no run has a tenant"):
        class_frame(load_runs(tmp_path), "tenant")
    with pytest.raises(ConfigError, match="unknown class 'user': must be one of tenant, slo_class"):
        class_frame(load_runs(tmp_path), "user")
