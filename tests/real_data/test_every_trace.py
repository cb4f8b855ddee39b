"""Every public trace reads, validates and runs under the invariants, also after conversion."""

import json
from pathlib import Path

import pytest

from experiments.composing import compose_config
from experiments.job import JobRun, simulate_job
from experiments.trace_cli.command import run_command
from tests.data_path import real_data_dir

LIMIT = 1500

TRACES = {
    "mooncake conversation": ("mooncake", "traces/mooncake/conversation_trace.jsonl", ()),
    "mooncake synthetic": ("mooncake", "traces/mooncake/synthetic_trace.jsonl", ()),
    "azure code": ("azure", "traces/azure_llm_2023/AzureLLMInferenceTrace_code.csv", ()),
    "azure conversation": ("azure", "traces/azure_llm_2023/AzureLLMInferenceTrace_conv.csv", ()),
    "agent": ("agent", "traces/lmcache_agent/agent_calls_blk16approx.jsonl", ()),
    "servegen language": (
        "servegen",
        "traces/servegen/language/m-small",
        ("duration_s=1200", "missing_lengths=pool"),
    ),
    "servegen reason": ("servegen", "traces/servegen/reason/deepseek-r1", ("duration_s=1200",)),
}


def run(trace: str, *options: str) -> JobRun:
    given = [f"trace.{option}" for option in (*options, f"limit={LIMIT}")]
    config = compose_config([f"trace={trace}", *given, "check=true", "cluster.num_instances=8"])
    return simulate_job(*config)


@pytest.mark.real_data
@pytest.mark.parametrize("name", TRACES)
def test_it_validates_runs_and_converts_without_a_difference(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kind, relative, options = TRACES[name]
    path, stored = real_data_dir() / relative, tmp_path / "stored.parquet"
    if not path.exists():
        pytest.skip(f"real data not here: {path} (set FLOCKSIM_DATA)")
    chosen = ["--format", kind, *options]
    assert run_command(["validate", str(path), *chosen, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["num_faults"] == 0
    assert run_command(["convert", str(path), *chosen, "--out", str(stored)]) == 0
    assert run_command(["validate", str(stored)]) == 0
    original = run(kind, f"path={path}", *options)
    converted = run("parquet", f"path={stored}")
    assert original.metrics == converted.metrics
    assert original.metrics["num_finished"] == original.metrics["num_requests"]
    (one,), (other,) = original.replications, converted.replications
    assert one.requests.equals(other.requests)
