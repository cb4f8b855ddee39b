"""The public traces with prefill and decode apart, every invariant checked."""

import pytest

from experiments.composing import compose_config
from experiments.job import simulate_job
from tests.data_path import real_data_file

pytestmark = pytest.mark.real_data

TRACES = {
    "mooncake": "traces/mooncake/conversation_trace.jsonl",
    "azure": "traces/azure_llm_2023/AzureLLMInferenceTrace_conv.csv",
    "agent": "traces/lmcache_agent/agent_calls_blk16approx.jsonl",
}


@pytest.mark.parametrize("cluster", ["distserve", "splitwise", "aligned_serve"])
@pytest.mark.parametrize("trace", TRACES)
def test_a_trace_is_served(trace: str, cluster: str) -> None:
    overrides = [
        f"cluster={cluster}",
        f"trace={trace}",
        f"trace.path={real_data_file(TRACES[trace])}",
        "trace.limit=300",
        "model=llama3_1_8b",
        "check=true",
    ]
    metrics = simulate_job(*compose_config(overrides)).metrics
    assert metrics["num_finished"] == 300
    assert 0 < (metrics["num_handed_over"] or 0) <= 300
    ready, first = metrics["ttft_decode_ready_mean_s"], metrics["ttft_mean_s"]
    assert ready is not None and first is not None and ready > first
