"""`trace.load` and `trace.flood`: the same rate for every policy, remembered, recorded."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments.capacity import flood_cache
from experiments.capacity.flood import Flood, flood_of
from experiments.capacity.flood_cache import cache_directory
from experiments.capacity.steady import steady_rate
from experiments.composing import compose_config
from experiments.job import JobRun, simulate_job
from experiments.results.json_text import json_text
from experiments.sweep.reuse import key_of
from sim.errors import ConfigError
from tests.conftest import TINY


@pytest.fixture(autouse=True)
def _no_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(flood_cache, "_known", {})


def simulated(*overrides: str) -> JobRun:
    return simulate_job(*compose_config([*TINY, *overrides]))


def count_floods(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    seen: list[int] = []

    def counted(job: Any, deployment: Any, show_progress: Any) -> Flood:
        seen.append(1)
        return flood_of(job, deployment, show_progress)

    monkeypatch.setattr("experiments.capacity.offered_load.flood_of", counted)
    return seen


def test_every_policy_gets_the_same_rate_and_one_flood(monkeypatch: pytest.MonkeyPatch) -> None:
    floods = count_floods(monkeypatch)
    runs = [
        simulated("trace.load=0.7", *more)
        for more in (["routing=jsq"], ["routing=random"], ["slo.ttft_s=1"], ["replications=2"])
    ]
    loads = [run.document["offered_load"] for run in runs]
    assert loads[0] == loads[1] == loads[2] == loads[3]
    assert len(floods) == 1
    assert loads[0]["load"] == 0.7
    arrivals = [run.result.workload.arrival_s for run in runs]
    assert np.array_equal(arrivals[0], arrivals[1])


def test_a_load_is_the_rate_of_the_trace_scaled() -> None:
    run = simulated("trace.load=0.7")
    factor = run.document["offered_load"]["rate_scale"]
    scaled = simulated(f"trace.rate_scale={factor!r}")
    assert run.metrics == scaled.metrics
    first_s, last_s = run.result.requests.arrival_span_s
    offered_per_s = run.document["offered_load"]["offered_rate_per_s"]
    assert 40 / (last_s - first_s) == pytest.approx(offered_per_s)
    assert run.document["config"]["trace"]["load"] == 0.7
    assert run.document["config"]["trace"]["rate_scale"] == 1.0
    assert {flag["flag"] for flag in run.document["flags"]} >= {"trace_rate_scaled"}


def test_the_flood_is_that_of_a_job_with_all_requests_at_once() -> None:
    flood = simulated("trace.flood=true", "routing=least_requests")
    assert not flood.result.workload.arrival_s.any()
    offered = simulated("trace.load=0.5", "routing=jsq").document["offered_load"]
    assert offered["flood_rate_per_s"] == flood.metrics["request_rate_per_s"]
    assert offered["does_drain_dominate"] is True


def test_the_flood_throughput_is_that_while_requests_wait() -> None:
    few = "engine.max_num_seqs=2"
    flood = simulated("trace.flood=true", "routing=least_requests", few)
    requests = flood.result.requests
    offered = simulated("trace.load=0.5", few).document["offered_load"]
    steady = steady_rate(requests.admitted_s, requests.finish_s)
    assert offered["does_drain_dominate"] is False
    assert offered["flood_rate_per_s"] == steady.rate_per_s
    assert offered["offered_rate_per_s"] == 0.5 * offered["flood_rate_per_s"]
    assert offered["flood_rate_per_s"] != flood.metrics["request_rate_per_s"]


def test_a_flood_asks_nobody_to_wait() -> None:
    job = ["trace=sessions", "trace.num_requests=60", "trace.closed_loop=true", "trace.flood=true"]
    run = simulate_job(*compose_config(job))
    assert not run.result.workload.is_closed_loop
    assert not run.result.requests.arrival_s.any()


def test_the_flood_is_read_from_the_disk_and_a_broken_file_is_ignored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    floods = count_floods(monkeypatch)
    first = simulated("trace.load=0.7").document
    (stored,) = cache_directory().glob("flood-*.json")
    flood_cache._known.clear()
    assert json_text(simulated("trace.load=0.7").document) == json_text(first)
    assert len(floods) == 1
    whole = json.loads(stored.read_text())
    for number, broken in enumerate(
        [
            {**whole, "flood_rate_per_s": -1.0},
            {**whole, "does_drain_dominate": "no"},
            {"flood_rate_per_s": 1.0, "trace_rate_per_s": 2.0},
        ]
    ):
        stored.write_text(json.dumps(broken))
        flood_cache._known.clear()
        assert simulated("trace.load=0.7").document == first
        assert len(floods) == 2 + number


def test_a_cache_that_cannot_be_written_costs_nothing_but_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = simulated("trace.load=0.7").document
    flood_cache._known.clear()
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert simulated("trace.load=0.7").document == first


def test_the_key_does_not_depend_on_where_the_flood_was_kept() -> None:
    composed = compose_config([*TINY, "trace.load=0.7"])
    before = key_of(*composed)
    assert simulate_job(*composed).document["job_key"] == before
    assert key_of(*composed) == before
    assert before != key_of(*compose_config([*TINY, "trace.load=0.6"]))


@pytest.mark.parametrize(
    ("overrides", "told"),
    [
        (["trace.load=0"], "trace.load=0: must be a finite number > 0, or null"),
        (["trace.load=much"], "trace.load='much': must be a finite number"),
        (["trace.flood=1"], "trace.flood=1: must be true or false"),
        (
            ["trace.load=0.7", "trace.rate_scale=2"],
            "together with trace.rate_scale=2",
        ),
        (["trace.load=0.7", "trace.flood=true"], "together with trace.flood=true"),
        (["trace.flood=true", "trace.replay_concurrency=2"], "with trace.replay_concurrency=2"),
        (["trace.load=0.7", "trace.arrivals=all_at_once"], "has no rate that could be scaled"),
        (["trace.load=1e12"], "trace.load=1e+12: the rate of this trace would be scaled by"),
        (["trace.load=0.7", "engine.num_gpu_blocks=2"], "not one request fits into this cluster"),
    ],
)
def test_what_cannot_be_is_refused(overrides: list[str], told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        simulated(*overrides)
    assert told in str(caught.value)
