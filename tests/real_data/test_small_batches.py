"""Feather and its relatives on the public conversations: every invariant, in both engines."""

import pytest

from experiments.composing import compose_config
from experiments.job import simulate_job
from tests.data_path import real_data_file

pytestmark = pytest.mark.real_data

OPTIONS = (
    "feather",
    "feather_heuristic",
    "hash_tree",
    "radix_cost",
    "oracle",
    "dynamic_batching",
)


@pytest.mark.parametrize("engine", ["vllm_v1", "sglang"])
@pytest.mark.parametrize("option", OPTIONS)
def test_all_conversations_are_served_and_hit_the_cache(option: str, engine: str) -> None:
    path = real_data_file("traces/mooncake/conversation_trace.jsonl")
    overrides = (
        "trace=mooncake",
        f"trace.path={path}",
        "trace.limit=400",
        "trace.max_output_tokens=40",
        "trace.flood=true",
        "hardware.fidelity=roofline",
        f"batching={option}",
        f"engine={engine}",
        "cluster.num_instances=2",
        "check=true",
    )
    metrics = simulate_job(*compose_config(overrides)).metrics
    assert metrics["num_finished"] == 400
    assert metrics["prefix_hit_ratio"]
