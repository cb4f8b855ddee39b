"""Runs on the public traces."""

import json
from pathlib import Path

import pytest

from tests.conftest import Flocksim
from tests.data_path import real_data_file

pytestmark = pytest.mark.real_data


def test_mooncake_conversation_finishes_twice_with_the_same_bytes(
    flocksim: Flocksim, tmp_path: Path
) -> None:
    path = real_data_file("traces/mooncake/conversation_trace.jsonl")
    overrides = ("trace=mooncake", f"trace.path={path}", "cluster.num_instances=8")
    runs = [flocksim(*overrides, "routing=round_robin", directory=tmp_path / name) for name in "ab"]
    texts = [(run.directory / "result.json").read_bytes() for run in runs]
    assert texts[0] == texts[1]
    result = json.loads(texts[0])
    assert result["metrics"]["num_finished"] == result["metrics"]["num_requests"] == 12_031
    flags = {flag["flag"]: flag for flag in result["flags"]}
    assert flags["max_model_len_not_enforced"]["share_ratio"] == pytest.approx(0.463, abs=0.001)
    assert result["provenance"]["trace"]["num_rows"] == 12_031


def test_azure_conversation_runs(flocksim: Flocksim) -> None:
    path = real_data_file("traces/azure_llm_2023/AzureLLMInferenceTrace_conv.csv")
    run = flocksim("trace=azure", f"trace.path={path}", "trace.limit=500")
    assert run.code == 0
    metrics = json.loads((run.directory / "result.json").read_text())["metrics"]
    assert (metrics["num_finished"], metrics["prefix_hit_ratio"]) == (500, 0)


def test_agent_sessions_hit_the_cache_of_their_earlier_calls(flocksim: Flocksim) -> None:
    path = real_data_file("traces/lmcache_agent/agent_calls_blk16approx.jsonl")
    overrides = ("trace=agent", f"trace.path={path}", "trace.closed_loop=false")
    run = flocksim(*overrides, "trace.limit=300", "cluster.num_instances=1")
    assert run.code == 0, run.err
    metrics = json.loads((run.directory / "result.json").read_text())["metrics"]
    assert metrics["num_finished"] == 300
    assert metrics["prefix_hit_ratio"] > 0.7
