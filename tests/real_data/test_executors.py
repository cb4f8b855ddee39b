"""Every executor serves real traces with all invariants checked, the pager's among them."""

import pytest

from experiments.composing import compose_config
from experiments.job import simulate_job
from tests.contract.options import options_in
from tests.data_path import real_data_file

TRACES = {
    "mooncake": "traces/mooncake/conversation_trace.jsonl",
    "azure": "traces/azure_llm_2023/AzureLLMInferenceTrace_code.csv",
}


@pytest.mark.real_data
@pytest.mark.parametrize("trace", TRACES)
@pytest.mark.parametrize("executor", options_in("executor"))
def test_an_executor_serves_a_real_trace(executor: str, trace: str) -> None:
    path = real_data_file(TRACES[trace])
    run = simulate_job(
        *compose_config(
            [
                *(f"trace={trace}", f"trace.path='{path}'", "trace.limit=150"),
                *(f"executor={executor}", "check=true", "cluster.num_instances=2"),
            ]
        )
    )
    metrics = run.metrics
    assert metrics["num_unfinished"] == 0
    assert metrics["num_finished"] + metrics["num_rejected"] == 150  # type: ignore[operator]
    has_pager = executor == "kv_rm"
    assert (metrics["transfer_groups_mean"] is not None) == has_pager
    assert (metrics["fragmentation_mean_ratio"] is not None) == has_pager
