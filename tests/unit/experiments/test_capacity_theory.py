"""Capacity and flood throughput of a queue that theory knows: one server, fixed service, M/D/1."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
from scipy.optimize import brentq

from experiments.capacity.cli import run_command
from experiments.composing import compose_config
from experiments.job import simulate_job

ONE_AT_A_TIME = (
    "trace=synthetic",
    "trace.prompt=512",
    "trace.output=6",
    "cluster.num_instances=1",
    "engine.max_num_seqs=1",
)
"""A server that takes one request after the other, each of the same length."""

ATTAINMENT = 0.9
TOLERANCE = 0.05
SAMPLING_TOLERANCE = 0.04
"""Two standard deviations of the capacity found from 4 x 3,000 arrivals at load 0.5 to 0.65 (of 200
seeds, by Lindley's recursion)."""


def service_s() -> tuple[float, float]:
    """Service time of a request, and the part of it until its first token."""
    metrics = simulate_job(*compose_config([*ONE_AT_A_TIME, "trace.num_requests=1"])).metrics
    assert metrics["e2e_mean_s"] is not None
    assert metrics["ttft_mean_s"] is not None
    return float(metrics["e2e_mean_s"]), float(metrics["ttft_mean_s"])


def share_within(wait_s: float, load: float, service: float) -> float:
    """P(wait <= `wait_s`) in M/D/1 (Erlang 1909)."""
    rate_per_s = load / service
    total = 0.0
    for k in range(int(wait_s / service) + 1):
        exponent = rate_per_s * (wait_s - k * service)
        total += (-exponent) ** k / math.factorial(k) * math.exp(exponent)
    return (1 - load) * total


def answer(directory: Path, *arguments: str) -> dict[str, Any]:
    assert run_command([*ONE_AT_A_TIME, *arguments, "--workers", "1", "--dir", str(directory)]) == 0
    document: dict[str, Any] = json.loads((directory / "capacity.json").read_text())
    (policy,) = document["policies"]
    return dict(policy)


def test_the_formula_is_erlangs() -> None:
    # Nobody waits with probability 1 - load; within one service time (1 - load) * exp(load).
    assert share_within(0.0, 0.6, 2.0) == pytest.approx(0.4)
    assert share_within(1.999999, 0.6, 2.0) == pytest.approx(0.4 * math.exp(0.6), rel=1e-5)
    assert share_within(40.0, 0.6, 2.0) == pytest.approx(1.0, abs=1e-4)


def test_the_capacity_of_a_queue_is_that_of_theory(tmp_path: Path) -> None:
    service, first_s = service_s()
    wait_s = 2.5 * service
    load = float(brentq(lambda x: share_within(wait_s, x, service) - ATTAINMENT, 0.01, 0.99))
    found = answer(
        tmp_path,
        "trace.num_requests=3000",
        f"trace.rate_per_s={0.3 / service}",
        *("--slo-ttft", str(wait_s + first_s), "--slo-tpot", "1"),
        *("--attainment", str(ATTAINMENT), "--tolerance", str(TOLERANCE), "--seeds", "4"),
    )
    low, high = (found[end]["offered_rate_per_s"] * service for end in ("low", "high"))
    assert high / low < 1 + 1.1 * TOLERANCE
    assert low * (1 - SAMPLING_TOLERANCE) <= load <= high * (1 + SAMPLING_TOLERANCE)
    assert found["high"]["why_not"] == "SLO"


def test_the_flood_of_a_queue_is_one_request_per_service_time(tmp_path: Path) -> None:
    service, _ = service_s()
    found = answer(tmp_path, "trace.num_requests=50", "--flood")
    assert found["flood_rate_per_s"] == pytest.approx(1 / service, rel=1e-9)


def test_the_highest_stable_rate_of_a_queue_is_its_service_rate(tmp_path: Path) -> None:
    service, _ = service_s()
    found = answer(
        tmp_path,
        *("trace.num_requests=3000", "trace.arrivals=constant", "--max-rate"),
        *(f"trace.rate_per_s={0.8 / service}", "--tolerance", "0.01"),
    )
    low, high = (found[end]["offered_rate_per_s"] * service for end in ("low", "high"))
    # A regime needs a swelling queue: at load 1.1 it is there, at load 1 there is none.
    assert 0.99 <= low < high <= 1.15


def test_a_load_is_that_share_of_the_service_rate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    service, _ = service_s()
    job = [*ONE_AT_A_TIME, "trace.num_requests=4000", "trace.load=0.6"]
    run = simulate_job(*compose_config(job))
    offered = run.document["offered_load"]
    assert offered["flood_rate_per_s"] == pytest.approx(1 / service, rel=1e-9)
    assert offered["offered_rate_per_s"] == pytest.approx(0.6 / service)
    first_s, last_s = run.result.requests.arrival_span_s
    assert 4000 / (last_s - first_s) == pytest.approx(0.6 / service, rel=1e-9)
    # Pollaczek-Khinchine: mean wait = load * service / (2 (1 - load)); 15 % are two deviations.
    mean_wait_s = run.metrics["queue_mean_s"]
    assert mean_wait_s == pytest.approx(0.6 * service / (2 * 0.4), rel=0.15)
