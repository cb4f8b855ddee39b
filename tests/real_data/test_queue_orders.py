"""Queue orders on public traces in tight memory, with scheduler time and the invariants checked."""

from typing import Any

import pytest

from experiments.composing import compose_config
from experiments.job import simulate_job
from tests.data_path import real_data_file

pytestmark = pytest.mark.real_data

TRACES = {
    "mooncake": (
        "traces/mooncake/conversation_trace.jsonl",
        ("trace=mooncake", "trace.limit=250"),
    ),
    "agent": (
        "traces/lmcache_agent/agent_calls_blk16approx.jsonl",
        ("trace=agent", "trace.limit=400", "trace.rate_scale=20"),
    ),
}


@pytest.mark.parametrize("engine", ["vllm_v1", "sglang"])
@pytest.mark.parametrize("name", TRACES)
@pytest.mark.parametrize("option", ["lpm", "dfs_weight", "lof", "random", "shortest_prefill"])
def test_an_order_serves_a_public_trace_and_pays_for_it(
    option: str, name: str, engine: str
) -> None:
    relative, chosen = TRACES[name]
    m: Any = simulate_job(
        *compose_config(
            [
                *chosen,
                f"trace.path={real_data_file(relative)}",
                f"batching={option}",
                f"engine={engine}",
                "cluster.num_instances=1",
                "engine.gpu_memory_utilization=0.5",
                "scheduler.enabled=true",
                "check=true",
            ]
        )
    ).metrics
    assert m["num_finished"] + m["num_rejected"] == m["num_requests"]
    assert m["queue_mean_s"] > 0.01
    assert m["prefix_hit_ratio"] > 0
    assert 0 < m["scheduler_cpu_ratio"] < 1
