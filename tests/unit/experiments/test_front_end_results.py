"""What a job behind a front end writes: times of the users, those of the engines beside them."""

from typing import Any

import numpy as np
import pytest

from experiments.composing import compose_config
from experiments.deployment import build_deployment
from experiments.job import JobRun, simulate_job
from experiments.results.tables import request_table
from experiments.schema.front_end import CONSTANTS, DEFAULT_FRONT_END
from experiments.schema.job import read_job
from experiments.summary import deployment_lines, figures, ttft_line
from sim.errors import ConfigError
from sim.front_end import FrontEnd
from sim.front_end_records import user_view
from sim.vllm_v1 import VllmV1
from tests.conftest import TINY

ON = "frontend.enabled=true"


def simulated(*overrides: str) -> JobRun:
    return simulate_job(*compose_config([*TINY, *overrides]))


def flag_of(run: JobRun, name: str) -> dict[str, Any] | None:
    flags: list[dict[str, Any]] = run.document["flags"]
    return next((flag for flag in flags if flag["flag"] == name), None)


def test_the_columns_of_users_and_engines() -> None:
    run = simulated(ON)
    rows = request_table(run.result).to_pylist()
    for row in rows:
        assert row["arrival_s"] < row["engine_arrival_s"] <= row["admitted_s"]
        assert row["engine_first_token_s"] < row["first_token_s"] <= row["finish_s"]
        assert row["engine_finish_s"] < row["finish_s"]
    ttft_s = np.array([row["first_token_s"] - row["arrival_s"] for row in rows])
    assert run.metrics["ttft_mean_s"] == pytest.approx(ttft_s.mean())
    gaps_s = run.replications[0].gaps_s
    steps_s = user_view(run.result).instances[0].step_end_s
    assert set(np.diff(steps_s)) & set(gaps_s)


def test_the_parts_of_the_time_to_first_token_sum_to_it() -> None:
    metrics: Any = simulated(ON, "replications=2").metrics
    parts = ("frontend_in", "queue", "prefill", "frontend_out")
    assert sum(metrics[f"{part}_mean_s"] for part in parts) == pytest.approx(metrics["ttft_mean_s"])
    for part in parts:
        assert metrics[f"{part}_p50_s"] <= metrics[f"{part}_p90_s"] <= metrics[f"{part}_p99_s"]


def test_off_writes_nothing_of_it_and_zeros_change_nothing_else() -> None:
    off = simulated()
    free = simulated(ON, *(f"frontend.{name}=0" for name in CONSTANTS))
    assert off.deployment.spec.front_end is None
    assert off.metrics.items() <= free.metrics.items()
    names = request_table(off.result).column_names
    assert not [name for name in names if name.startswith("engine_")]
    free_table = request_table(free.result)
    assert free_table.select(names).equals(request_table(off.result))
    assert off.document["config"]["frontend"] == {
        "enabled": False,
        **dict.fromkeys(CONSTANTS),
    }


def test_constants_left_out_appear_as_what_they_became() -> None:
    run = simulated(ON, "frontend.token_s=0.002")
    shown = run.document["config"]["frontend"]
    assert shown == {
        "enabled": True,
        **{name: getattr(DEFAULT_FRONT_END, name) for name in CONSTANTS},
        "token_s": 0.002,
    }
    assert run.deployment.spec.front_end == FrontEnd(
        **{name: shown[name] for name in CONSTANTS},
    )


def test_nothing_is_hashed_without_a_prefix_cache() -> None:
    config, _ = compose_config([ON, "engine.prefix_caching=false"])
    front_end = build_deployment(read_job(config)).spec.front_end
    assert front_end is not None
    assert (front_end.hash_block_s, front_end.token_s) == (0.0, DEFAULT_FRONT_END.token_s)


@pytest.mark.parametrize("name", CONSTANTS)
def test_a_constant_of_a_stage_that_is_off_is_refused(name: str) -> None:
    config, _ = compose_config([f"frontend.{name}=0.0"])
    with pytest.raises(ConfigError, match=rf"frontend\.{name}=0 has no effect when frontend"):
        read_job(config)


def test_a_constant_for_hashing_without_a_prefix_cache_is_refused() -> None:
    config, _ = compose_config([ON, "engine.prefix_caching=false", "frontend.hash_block_s=1e-6"])
    with pytest.raises(ConfigError, match=r"has no effect when engine\.prefix_caching=false"):
        read_job(config)


def test_an_engine_may_say_that_it_hashes_no_prompts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(VllmV1, "hashes_prompts", False, raising=False)
    front_end = build_deployment(read_job(compose_config([ON])[0])).spec.front_end
    assert front_end is not None
    assert front_end.hash_block_s == 0.0
    config, _ = compose_config([ON, "frontend.hash_block_s=1e-6"])
    with pytest.raises(ConfigError, match="has no effect with VllmV1, which hashes no prompts"):
        read_job(config)


@pytest.mark.parametrize("bad", ["-1", "1001", "'x'", "true"])
@pytest.mark.parametrize("name", CONSTANTS)
def test_a_constant_is_a_number_of_seconds(name: str, bad: str) -> None:
    config, _ = compose_config([ON, f"frontend.{name}={bad}"])
    with pytest.raises(ConfigError, match=rf"^frontend\.{name}=.*must be .*, or null$"):
        read_job(config)


def test_a_saturated_way_in_is_flagged_and_the_regime_tells_too() -> None:
    run = simulated(ON, "trace.num_requests=400", "trace.rate_per_s=100", "frontend.request_s=0.02")
    flag = flag_of(run, "frontend_saturated")
    assert flag is not None
    assert flag["offered_in_ratio"] == pytest.approx(2.0, rel=0.15)
    assert "the front end is saturated" in flag["text"]
    assert run.document["regime"] == "overloaded"
    assert run.metrics["frontend_in_busy_ratio"] == pytest.approx(1.0, abs=0.05)


def test_a_saturated_way_out_and_a_flood_are_flagged() -> None:
    slow = simulated(ON, "frontend.output_token_s=0.02")
    assert flag_of(slow, "frontend_saturated") is not None
    flood = flag_of(simulated(ON, "trace.flood=true"), "frontend_saturated")
    assert flood is not None
    assert flood["offered_in_ratio"] is None
    assert "all requests at once" in flood["text"]


def test_an_easy_load_is_not_flagged() -> None:
    assert flag_of(simulated(ON), "frontend_saturated") is None
    assert flag_of(simulated(), "frontend_saturated") is None


def test_the_summary_shows_the_parts_and_the_constants() -> None:
    run = simulated(ON, "frontend.request_s=0.25")
    assert ttft_line(run.metrics).startswith("TTFT = front end in ")
    lines = deployment_lines(run.deployment, 1)
    assert lines[-1].startswith("  front end: 15.6 ms + 250 ms per request, 1.00 us per prompt")
    shown = dict(figures(run))
    assert shown["front end in"].endswith("% busy")
    assert "front end in" not in dict(figures(simulated()))


def test_a_closed_loop_passes_the_front_end_at_every_turn() -> None:
    users = "trace.arrivals={kind: closed_loop, concurrency: 8}"
    run = simulated(ON, users, "check=true")
    rows = request_table(run.result).to_pylist()
    ends = {row["finish_s"] for row in rows}
    assert all(row["arrival_s"] in ends for row in rows[8:])
