"""One job through the command: files, determinism, summary."""

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from sim.compiled import form_in_use
from tests.conftest import TINY, Flocksim

METRICS = [
    "num_requests",
    "num_finished",
    "num_rejected",
    "num_unfinished",
    "num_warmup_requests",
    "makespan_s",
    "request_rate_per_s",
    "output_tokens_per_s",
    "total_tokens_per_s",
    "ttft_mean_s",
    "ttft_p50_s",
    "ttft_p90_s",
    "ttft_p99_s",
    "tpot_mean_s",
    "tpot_p50_s",
    "tpot_p90_s",
    "tpot_p99_s",
    "itl_mean_s",
    "itl_p50_s",
    "itl_p90_s",
    "itl_p99_s",
    "e2e_mean_s",
    "e2e_p50_s",
    "e2e_p90_s",
    "e2e_p99_s",
    "queue_mean_s",
    "queue_p50_s",
    "queue_p90_s",
    "queue_p99_s",
    "goodput_per_s",
    "slo_attainment_ratio",
    "prefix_hit_ratio",
    "l2_hit_ratio",
    "hbm_bytes",
    "mean_batch_size",
    "kv_usage_mean_ratio",
    "num_gpu_blocks",
    "num_preemptions",
    "scheduler_cpu_ratio",
    "load_imbalance_ratio",
    "step_p50_s",
    "step_p99_s",
    "step_p999_s",
    "kv_reserved_mean_bytes",
    "commit_time_ratio",
    "transfer_groups_mean",
    "transfer_groups_max",
    "fragmentation_mean_ratio",
    "fragmentation_max_ratio",
    "num_graph_switches",
    "iteration_bubble_ratio",
    "iteration_bubble_split_kv_s",
    "iteration_bubble_per_head_s",
    "iteration_bubble_padded_s",
    "num_hotspot_alarms",
    "num_hotspot_filters",
    "num_hotspot_filtered_requests",
    "gpu_time_s",
    "gpu_gemm_ratio",
    "gpu_attention_decode_ratio",
    "gpu_attention_prefill_ratio",
    "gpu_collective_ratio",
    "gpu_small_ops_ratio",
    "gpu_launch_ratio",
    "gpu_scheduler_ratio",
    "gpu_transfer_ratio",
    "gpu_idle_ratio",
    "output_token_gpu_s",
    "output_token_hbm_bytes",
]


def test_a_run_writes_its_four_files_and_nothing_else(flocksim: Flocksim) -> None:
    run = flocksim(*TINY)
    assert run.code == 0
    assert run.err == ""
    names = sorted(path.name for path in run.directory.iterdir())
    assert names == ["distributions.parquet", "requests.parquet", "result.json", "run.json"]


def test_result_json_has_exactly_the_documented_keys(flocksim: Flocksim) -> None:
    result = json.loads((flocksim(*TINY).directory / "result.json").read_text())
    assert list(result) == [
        "schema_version",
        "status",
        "regime",
        "config",
        "job_key",
        "seed",
        "versions",
        "provenance",
        "flags",
        "metrics",
        "replications",
        "cost_totals",
        "offered_load",
        "instances",
        "routing",
    ]
    assert list(result["metrics"]) == METRICS
    assert (result["status"], result["seed"]) == ("ok", 0)
    assert result["metrics"]["num_finished"] == 40


def test_the_same_job_in_two_directories_gives_the_same_bytes(
    flocksim: Flocksim, mooncake_file: Path, tmp_path: Path
) -> None:
    moved = tmp_path / "elsewhere" / "other_name.jsonl"
    moved.parent.mkdir()
    moved.write_bytes(mooncake_file.read_bytes())
    first = flocksim("trace=mooncake", f"trace.path={mooncake_file}", directory=tmp_path / "a")
    again = flocksim("trace=mooncake", f"trace.path={moved}", directory=tmp_path / "b")
    for name in ("result.json", "requests.parquet"):
        assert (first.directory / name).read_bytes() == (again.directory / name).read_bytes()
    assert (first.code, again.code) == (0, 0)


def test_another_seed_gives_another_result(flocksim: Flocksim, tmp_path: Path) -> None:
    first, second = (
        json.loads((flocksim(*TINY, f"seed={seed}").directory / "result.json").read_text())
        for seed in (0, 1)
    )
    assert first["metrics"] != second["metrics"]
    assert first["job_key"] != second["job_key"]


def test_result_json_names_no_path_and_no_host(flocksim: Flocksim, mooncake_file: Path) -> None:
    run = flocksim("trace=mooncake", f"trace.path={mooncake_file}")
    text = (run.directory / "result.json").read_text()
    assert str(mooncake_file.parent) not in text
    assert mooncake_file.name not in text
    host = json.loads((run.directory / "run.json").read_text())["host"]
    assert f'"{host["name"]}"' not in text


def test_run_json_keeps_overrides_and_wall_times(flocksim: Flocksim) -> None:
    run = json.loads((flocksim(*TINY, "seed=3").directory / "run.json").read_text())
    assert run["overrides"] == [*TINY, "seed=3"]
    assert set(run["wall_s"]) == {"load", "simulate", "summarize", "write"}
    assert all(value >= 0 for value in run["wall_s"].values())
    assert run["engine"] == form_in_use()


def test_requests_parquet_has_a_row_per_request(flocksim: Flocksim, mooncake_file: Path) -> None:
    run = flocksim("trace=mooncake", f"trace.path={mooncake_file}", "cluster.num_instances=1")
    rows = pq.read_table(run.directory / "requests.parquet").to_pylist()
    assert [row["arrival_s"] for row in rows] == [0, 0.02, 0.02, 0.95, 1.0]
    assert [row["status"] for row in rows] == ["finished"] * 5
    assert [row["output_tokens"] for row in rows] == [8, 40, 1, 24, 60]
    assert rows[3]["cached_tokens"] == 1024
    for row in rows:
        assert row["arrival_s"] <= row["admitted_s"] < row["first_token_s"] <= row["finish_s"]


def test_steps_parquet_comes_on_request(flocksim: Flocksim) -> None:
    run = flocksim(*TINY, "output.steps=true", "cluster.num_instances=2")
    steps = pq.read_table(run.directory / "steps.parquet").to_pylist()
    assert {row["instance"] for row in steps} == {0, 1}
    assert all(row["start_s"] < row["end_s"] for row in steps)
    metrics = json.loads((run.directory / "result.json").read_text())["metrics"]
    last_s = max(row["end_s"] for row in steps)
    first_s = pq.read_table(run.directory / "requests.parquet")["arrival_s"][0].as_py()
    assert metrics["makespan_s"] == pytest.approx(last_s - first_s)


def test_optional_files_of_an_earlier_job_do_not_stay(flocksim: Flocksim) -> None:
    flocksim(*TINY, "output.steps=true", "output.timeline=true")
    names = {path.name for path in flocksim(*TINY).directory.iterdir()}
    assert names == {"distributions.parquet", "requests.parquet", "result.json", "run.json"}


def test_the_timeline_comes_on_request_and_matches_the_steps(flocksim: Flocksim) -> None:
    run = flocksim(*TINY, "output.steps=true", "output.timeline=true", "cluster.num_instances=2")
    steps = pq.read_table(run.directory / "steps.parquet").to_pylist()
    with gzip.open(run.directory / "timeline.json.gz", "rt") as file:
        events = json.load(file)["traceEvents"]
    slices = [event for event in events if event["ph"] == "X"]
    assert len(slices) == len(steps)
    assert [event["pid"] for event in slices] == [step["instance"] for step in steps]
    assert slices[0]["ts"] == steps[0]["start_s"] * 1e6
    assert {event["name"] for event in slices} == {"prefill", "decode", "mixed"}
    assert {event["name"] for event in events if event["ph"] == "C"} == {
        "waiting",
        "running",
        "KV blocks",
    }


def test_a_request_longer_than_the_kv_cache_is_rejected_and_the_run_goes_on(
    flocksim: Flocksim, mooncake_file: Path
) -> None:
    run = flocksim("trace=mooncake", f"trace.path={mooncake_file}", "engine.num_gpu_blocks=80")
    result = json.loads((run.directory / "result.json").read_text())
    assert run.code == 0
    assert result["metrics"]["num_rejected"] == 1
    assert result["metrics"]["num_finished"] == 4
    assert "over_kv_capacity" in {flag["flag"] for flag in result["flags"]}
    assert "1 request rejected: it needs more than the 1,264 tokens of KV cache" in run.out
    rows = pq.read_table(run.directory / "requests.parquet").to_pylist()
    assert rows[3]["reject_reason"] == "over_kv_capacity"
    assert rows[3]["instance"] is None


def test_the_summary_shows_blocks_regime_and_wall_times(flocksim: Flocksim) -> None:
    out = flocksim(*TINY).out
    assert "27,947 KV blocks per instance" in out
    assert "regime: stable" in out
    assert re.search(r"^GPU time: idle \d\d\.\d %; GEMM \d", out, re.MULTILINE)
    assert "wall time: load" in out
    for name in ("TTFT", "TPOT", "ITL", "E2E", "queue", "goodput", "prefix hits", "preemptions"):
        assert name in out


def test_an_overloaded_run_says_so(flocksim: Flocksim) -> None:
    run = flocksim(
        *("trace=synthetic", "trace.num_requests=600", "trace.rate_per_s=200"),
        *("trace.prompt=2000", "trace.output=200", "cluster.num_instances=1"),
    )
    assert json.loads((run.directory / "result.json").read_text())["regime"] == "overloaded"
    assert "arrivals exceed what the cluster can serve" in run.out


def test_a_full_disk_leaves_no_partial_file(
    flocksim: Flocksim, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("experiments.results.tables._write", refuse)
    run = flocksim(*TINY)
    assert run.code == 2
    assert "requests.parquet: cannot be written: No space left on device" in run.error_line
    assert list(run.directory.iterdir()) == []


def flags_of(result: dict[str, Any]) -> set[str]:
    return {flag["flag"] for flag in result["flags"]}


def test_more_blocks_than_fit_are_noted_and_the_run_goes_on(flocksim: Flocksim) -> None:
    run = flocksim(*TINY, "engine.num_gpu_blocks=100000")
    result = json.loads((run.directory / "result.json").read_text())
    assert (run.code, result["metrics"]["num_finished"]) == (0, 40)
    assert "more_kv_blocks_than_fit" in flags_of(result)
    assert "more KV blocks than fit: 31," in run.out
    fewer = flocksim(*TINY, "engine.num_gpu_blocks=30000")
    result = json.loads((fewer.directory / "result.json").read_text())
    assert "more_kv_blocks_than_fit" not in flags_of(result)


def test_without_a_finished_request_there_is_no_regime(flocksim: Flocksim) -> None:
    run = flocksim(*TINY, "engine.num_gpu_blocks=2")
    result = json.loads((run.directory / "result.json").read_text())
    assert (run.code, result["metrics"]["num_finished"], result["regime"]) == (0, 0, None)
    assert "no_request_finished" in flags_of(result)
    assert "note: no request finished" in run.out
    assert "regime:" not in run.out
    sweep = flocksim("-m", *TINY, "engine.num_gpu_blocks=2", directory=run.directory / "sweep")
    assert sweep.out.splitlines()[2].startswith("#0 ")
    assert ": no request finished, " in sweep.out


def test_a_short_run_that_drains_long_says_why_it_is_backlogged(flocksim: Flocksim) -> None:
    run = flocksim(*TINY, "trace.prompt=2000", "trace.rate_per_s=200", "cluster.num_instances=1")
    assert "regime: backlogged (draining the queue after the last arrival took over" in run.out
