"""The figures of three tiny jobs, byte for byte; `pytest tests/golden --regen` rewrites them."""

import json
from pathlib import Path

import pytest

from experiments.composing import compose_config
from experiments.job import simulate_job
from experiments.results.json_text import json_text
from tests.golden.workloads import overrides

FOLDER = Path(__file__).parent


@pytest.mark.parametrize("name", ["mooncake", "prefix_groups", "sglang"])
def test_the_figures_of_a_job_do_not_change(name: str, tmp_path: Path, is_regen: bool) -> None:
    run = simulate_job(*compose_config(overrides(name, tmp_path)))
    text = json_text({"regime": run.document["regime"], "metrics": run.metrics})
    golden = FOLDER / f"{name}.json"
    if is_regen:
        golden.write_text(text)
    found, kept = (json.loads(one)["metrics"] for one in (text, golden.read_text()))
    assert json.loads(text)["regime"] == json.loads(golden.read_text())["regime"]
    assert list(found) == list(kept), "rerun with --regen if the change is meant"
    for key, value in kept.items():
        # Shares of the GPU's time are quotients of long sums, which NumPy's versions group apart.
        is_sum = key.startswith(("gpu_", "output_token_gpu")) and value is not None
        expected = pytest.approx(value, rel=1e-12) if is_sum else value
        assert found[key] == expected, f"{key}: rerun with --regen if the change is meant"


@pytest.mark.parametrize("name", ["prefix_groups", "sglang"])
def test_the_golden_jobs_exercise_preemption_and_prefix_hits(name: str, tmp_path: Path) -> None:
    metrics = simulate_job(*compose_config(overrides(name, tmp_path))).metrics
    assert metrics["num_preemptions"]
    assert metrics["prefix_hit_ratio"]
