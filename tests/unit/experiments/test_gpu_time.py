"""Where the time of the instances went, as metrics."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from experiments.composing import compose_config
from experiments.figures import breakdown
from experiments.job import JobRun, run_job, simulate_job
from experiments.results.gpu_time import TITLES, gpu_metrics, told_shares, with_gpu_metrics
from experiments.results.load import load_run
from sim.cost_totals import COST_COLUMNS, CostTotals
from tests.conftest import TINY

COSTS = CostTotals(
    gemm_s=3.0, attention_decode_s=1.5, attention_prefill_s=0.5, launch_s=1.0, hbm_bytes=4000
)


def simulated(*overrides: str) -> JobRun:
    return simulate_job(*compose_config([*TINY, *overrides]))


def test_every_cost_term_in_seconds_has_a_share() -> None:
    found = gpu_metrics(COSTS, gpu_time_s=8.0, num_output_tokens=4)
    terms = {f"gpu_{name.removesuffix('_s')}_ratio" for name in COST_COLUMNS if name[-2:] == "_s"}
    assert terms | {"gpu_idle_ratio"} == set(TITLES) <= set(found)


def test_shares_are_of_all_instances_and_idle_is_the_rest() -> None:
    found = gpu_metrics(COSTS, gpu_time_s=8.0, num_output_tokens=4)
    assert found == {
        "gpu_time_s": 8.0,
        "gpu_gemm_ratio": 0.375,
        "gpu_attention_decode_ratio": 0.1875,
        "gpu_attention_prefill_ratio": 0.0625,
        "gpu_collective_ratio": 0.0,
        "gpu_small_ops_ratio": 0.0,
        "gpu_launch_ratio": 0.125,
        "gpu_scheduler_ratio": None,
        "gpu_transfer_ratio": None,
        "gpu_idle_ratio": 0.25,
        "output_token_gpu_s": 1.5,
        "output_token_hbm_bytes": 1000.0,
    }


def test_terms_that_a_cost_model_fills_are_no_longer_null() -> None:
    found = gpu_metrics(replace(COSTS, scheduler_s=2.0), gpu_time_s=8.0, num_output_tokens=4)
    assert (found["gpu_scheduler_ratio"], found["gpu_idle_ratio"]) == (0.25, 0.0)


@pytest.mark.parametrize("gpu_time_s", [None, float("nan"), 0.0])
def test_a_run_without_an_end_has_no_shares(gpu_time_s: float | None) -> None:
    found = gpu_metrics(COSTS, gpu_time_s=gpu_time_s, num_output_tokens=4)
    assert set(found.values()) == {None}
    assert list(found) == list(gpu_metrics(COSTS, gpu_time_s=1.0, num_output_tokens=1))


@pytest.mark.parametrize("fidelity", ["roofline", "calibrated_l2"])
def test_shares_of_a_run_add_up_to_one(fidelity: str) -> None:
    run = simulated(f"hardware.fidelity={fidelity}")
    shares = [run.metrics[name] or 0.0 for name in TITLES]
    assert sum(shares) == pytest.approx(1.0)
    assert 0.0 < shares[-1] < 1.0
    instances, makespan_s = run.deployment.spec.num_instances, run.metrics["makespan_s"]
    assert makespan_s is not None
    assert run.metrics["gpu_time_s"] == pytest.approx(instances * makespan_s)


def test_the_figure_shows_the_same_idle_time(tmp_path: Path) -> None:
    run_job(*compose_config([*TINY, "trace.warmup_requests=5"]), [], tmp_path)
    run = load_run(tmp_path)
    idle_s = breakdown.times_of(run)["idle_s"]  # type: ignore[index]
    assert idle_s / run.metrics["gpu_time_s"] == pytest.approx(  # type: ignore[operator]
        run.metrics["gpu_idle_ratio"]
    )


def test_bytes_per_token_count_the_tokens_that_were_made() -> None:
    for overrides in ((), ("engine.max_model_len=128", "trace.output=100")):
        metrics: Any = simulated(*overrides).metrics
        tokens = metrics["output_tokens_per_s"] * metrics["makespan_s"]
        assert metrics["output_token_hbm_bytes"] == pytest.approx(metrics["hbm_bytes"] / tokens)


def test_the_warm_up_is_part_of_the_time() -> None:
    whole, warm = simulated(), simulated("trace.warmup_requests=20")
    assert warm.metrics["makespan_s"] != whole.metrics["makespan_s"]
    for name in ("gpu_time_s", "gpu_idle_ratio", "output_token_hbm_bytes"):
        assert warm.metrics[name] == whole.metrics[name]


def test_an_interrupted_run_has_none() -> None:
    run = simulated()
    cut = replace(run.replications[0], is_interrupted=True)
    spec: Any = SimpleNamespace(num_instances=4, max_model_len=None, scheduler=None, cost=None)
    assert with_gpu_metrics(cut, spec).metrics["gpu_time_s"] is None


def test_replications_have_shares_of_their_own(tmp_path: Path) -> None:
    run_job(*compose_config([*TINY, "replications=2"]), [], tmp_path)
    document = json.loads((tmp_path / "result.json").read_text())
    shares = [one["metrics"]["gpu_gemm_ratio"] for one in document["replications"]]
    assert shares[0] != shares[1]
    assert document["metrics"]["gpu_gemm_ratio"] == pytest.approx(sum(shares) / 2)


def test_shares_are_told_largest_first_without_those_that_round_to_nothing() -> None:
    metrics = {"gpu_gemm_ratio": 0.2, "gpu_launch_ratio": 0.0004, "gpu_scheduler_ratio": None}
    told = told_shares({**metrics, "gpu_idle_ratio": 0.7996})
    assert told == "idle 80.0 %; GEMM 20.0 %"
    assert told_shares({"gpu_gemm_ratio": None}) == ""
