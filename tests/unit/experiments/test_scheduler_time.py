"""The section `scheduler` of a configuration, and what comes of it."""

from typing import Any

import pytest

from experiments.composing import compose_config
from experiments.deployment import build_deployment
from experiments.job import simulate_job
from experiments.schema.job import read_job
from experiments.schema.scheduler import DEFAULT_SCHEDULER, SCHEDULER_CONSTANTS
from sim.errors import ConfigError
from sim.scheduler_cost import SchedulerCost

GROUPS = (
    "trace=prefix_groups",
    "trace.num_groups=6",
    "trace.num_requests=150",
    "trace.rate_per_s=60",
    "trace.output=5-60",
    "cluster.num_instances=1",
    "engine.gpu_memory_utilization=0.35",
    "check=true",
)


def scheduler_with(*overrides: str) -> SchedulerCost | None:
    return build_deployment(read_job(compose_config(overrides)[0])).spec.scheduler


def metrics_of(*overrides: str) -> Any:
    return simulate_job(*compose_config([*GROUPS, *overrides])).metrics


def test_scheduler_time_is_off_by_default() -> None:
    assert scheduler_with() is None


def test_a_constant_that_is_left_out_is_the_measured_one() -> None:
    assert scheduler_with("scheduler.enabled=true") == DEFAULT_SCHEDULER
    found = scheduler_with("scheduler.enabled=true", "scheduler.heap_operation_s=0")
    assert found is not None
    assert found.heap_operation_s == 0.0
    assert found.node_visit_s == DEFAULT_SCHEDULER.node_visit_s


@pytest.mark.parametrize("name", SCHEDULER_CONSTANTS)
def test_a_constant_while_it_is_off_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=f"scheduler.{name}=0.5 has no effect when scheduler.en"):
        scheduler_with(f"scheduler.{name}=0.5")


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("scheduler.language_factor=0", "scheduler.language_factor=0"),
        ("scheduler.node_visit_s=-1", "scheduler.node_visit_s=-1"),
        ("scheduler.node_visit_s=2", "scheduler.node_visit_s=2"),
        ("scheduler.enabled=maybe", "scheduler.enabled"),
        ("+scheduler.cache_line_s=1", "unknown key of scheduler: cache_line_s"),
    ],
)
def test_an_impossible_value_is_refused(override: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        scheduler_with("scheduler.enabled=true", override)


@pytest.mark.parametrize("engine", ["vllm_v1", "sglang"])
@pytest.mark.parametrize("option", ["lpm", "dfs_weight", "lof", "random", "shortest_prefill"])
def test_an_order_serves_prefix_groups_under_the_invariants(option: str, engine: str) -> None:
    chosen = (f"batching={option}", f"engine={engine}", "scheduler.enabled=true")
    m = metrics_of(*chosen)
    assert m["num_finished"] == 150
    assert m["queue_mean_s"] > 0.001
    assert 0 < m["scheduler_cpu_ratio"] < 0.5
    assert 0 < m["gpu_scheduler_ratio"] < 0.5


def test_a_compiled_scheduler_takes_a_twentieth_of_the_time() -> None:
    chosen = ("batching=lpm", "scheduler.enabled=true")
    slow, fast = metrics_of(*chosen), metrics_of(*chosen, "scheduler.language_factor=20")
    ratio = slow["scheduler_cpu_ratio"] / fast["scheduler_cpu_ratio"]
    assert ratio == pytest.approx(20, rel=0.2)  # the queue differs a little
    assert fast["makespan_s"] <= slow["makespan_s"]


def test_an_asynchronous_engine_hides_scheduler_time() -> None:
    chosen = ("batching=lpm", "scheduler.enabled=true", "scheduler.request_s=1e-5")
    serial, hidden = (
        metrics_of(*chosen, f"engine.async_scheduling={on}") for on in ("false", "true")
    )
    assert hidden["gpu_scheduler_ratio"] < 0.2 * serial["gpu_scheduler_ratio"]
    assert hidden["scheduler_cpu_ratio"] > 0.5 * serial["scheduler_cpu_ratio"]
