"""Every key of every executor changes the figures of a run that it should change."""

import functools

import pytest

from experiments.composing import compose_config
from experiments.job import simulate_job
from experiments.results.json_text import json_text
from experiments.schema.job import read_job
from sim.errors import ConfigError
from tests.contract.options import composed, options_in

BASE = (
    "trace=synthetic",
    "trace.num_requests=40",
    "trace.rate_per_s=60",
    "trace.prompt=20-900",
    "trace.output=1-60",
    "cluster.num_instances=1",
    "hardware.fidelity=calibrated",
)

PARALLEL = ("cluster.tensor_parallel=2",)
SMALL = ("engine.max_num_seqs=16", "executor.launch_s=1e-3")
"""Few seats, so that steps with prefills exceed the largest captured size, and slow launches."""

ONE_BUFFER = ("executor.num_slots=8", "executor.has_double_buffer=false")
SCATTERED = (*ONE_BUFFER, "engine.num_gpu_blocks=300", "executor.near_window_tokens=900")

CHANGES: dict[tuple[str, str], tuple[tuple[str, ...], str]] = {
    ("eager", "launch_s"): ((), "1e-4"),
    ("eager", "launches_per_layer"): (("executor.launch_s=1e-4",), "12"),
    ("eager", "launches_per_layer_parallel"): ((*PARALLEL, "executor.launch_s=1e-4"), "3"),
    ("eager", "launches_per_step"): (("executor.launch_s=1e-4",), "11"),
    ("eager", "all_reduce"): (PARALLEL, "custom"),
    ("cuda_graph", "capture_sizes"): ((), "[1,64]"),
    ("cuda_graph", "replay_s"): ((), "1e-4"),
    ("cuda_graph", "piece_s"): ((), "1e-2"),
    ("cuda_graph", "launch_s"): (SMALL[:1], "1e-2"),
    ("cuda_graph", "launches_per_layer"): (SMALL, "12"),
    ("cuda_graph", "launches_per_layer_parallel"): ((*SMALL, *PARALLEL), "3"),
    ("cuda_graph", "launches_per_step"): (SMALL, "11"),
    ("cuda_graph", "graph_memory_bytes"): ((), "2000000000"),
    ("static_graph", "num_slots"): ((), "4"),
    ("static_graph", "max_context_tokens"): ((), "2000"),
    ("static_graph", "rebuckets"): ((), "false"),
    ("static_graph", "smallest_bucket_tokens"): ((), "100"),
    ("static_graph", "switch_s"): ((), "1e-2"),
    ("static_graph", "submit_s"): ((), "1e-3"),
    ("kv_rm", "num_slots"): ((), "4"),
    ("kv_rm", "staging_ratio"): ((), "0.25"),
    ("kv_rm", "near_window_tokens"): (("executor.num_slots=8",), "256"),
    ("kv_rm", "far_view_tokens"): (
        ("executor.num_slots=8", "executor.near_window_tokens=256"),
        "64",
    ),
    ("kv_rm", "gather"): (ONE_BUFFER, "full"),
    ("kv_rm", "has_double_buffer"): (("executor.num_slots=8",), "false"),
    ("kv_rm", "staged_layers"): (("executor.gather=full",), "one"),
    ("kv_rm", "allocator"): (SCATTERED, "oldest_first"),
    ("kv_rm", "merge_max_gap_blocks"): (SCATTERED, "2"),
    ("kv_rm", "group_s"): (ONE_BUFFER, "1e-4"),
    ("kv_rm", "hbm_ratio"): (ONE_BUFFER, "0.1"),
    ("kv_rm", "commit_s"): ((), "1e-3"),
    ("kv_rm", "submit_s"): ((), "1e-3"),
}
"""(executor, key) -> overrides beside it, and another value."""


@functools.cache
def figures(*overrides: str) -> str:
    return json_text(simulate_job(*compose_config([*BASE, *overrides])).metrics)


@pytest.mark.parametrize(("option", "key"), CHANGES)
def test_a_key_of_an_executor_changes_the_figures(option: str, key: str) -> None:
    beside, value = CHANGES[option, key]
    chosen = (f"executor={option}", *beside)
    assert figures(*chosen, f"executor.{key}={value}") != figures(*chosen)


@pytest.mark.parametrize("option", options_in("executor"))
def test_every_key_of_an_executor_is_covered(option: str) -> None:
    keys = set(composed("executor", option)["executor"]) - {"_target_"}
    assert keys == {key for name, key in CHANGES if name == option}


def test_every_executor_gives_figures_of_its_own() -> None:
    found = {figures(f"executor={option}") for option in options_in("executor")}
    assert len(found) == len(options_in("executor")) == 5


def test_the_default_is_as_measured() -> None:
    assert compose_config(BASE)[1]["executor"] == "as_measured"
    assert figures() == figures("executor=as_measured")


@pytest.mark.parametrize(
    ("overrides", "line"),
    [
        (("executor=kv_rm", "engine=sglang"), "executor KvRm follows the block tables"),
        (
            ("executor=static_graph", "engine.prefix_caching=true"),
            "engine.prefix_caching=true has no effect: executor StaticGraph shares nothing",
        ),
        (("executor=eager", "executor.all_reduce=nccl"), "cluster.tensor_parallel=1 reduces"),
        (
            (
                "executor=cuda_graph",
                "executor.graph_memory_bytes=5",
                "engine.num_gpu_blocks=900",
            ),
            "executor.graph_memory_bytes=5 has no effect",
        ),
    ],
)
def test_what_an_executor_does_not_go_with_is_one_line(
    overrides: tuple[str, ...], line: str
) -> None:
    with pytest.raises(ConfigError, match=line):
        simulate_job(*compose_config([*BASE, *overrides]))


@pytest.mark.parametrize("option", ["as_measured", "eager", "cuda_graph", "static_graph"])
def test_executors_without_block_tables_run_sglang(option: str) -> None:
    overrides = [*BASE, f"executor={option}", "engine=sglang", "check=true"]
    if option == "static_graph":
        overrides.append("engine.prefix_caching=false")
    run = simulate_job(*compose_config(overrides))
    assert run.metrics["num_finished"] == 40


def test_a_class_without_the_method_is_refused() -> None:
    config = composed("executor", "eager")
    config["executor"] = {"_target_": "sim.vllm_v1.VllmV1"}
    with pytest.raises(ConfigError, match=r"must have a method fit\(\)"):
        read_job(config)
