"""`flocksim executor=...`: what is told of it, what is written, and what is refused in one line."""

import json

import pyarrow.parquet as pq
import pytest

from tests.conftest import Flocksim

TINY = (
    "trace=synthetic",
    "trace.num_requests=30",
    "trace.rate_per_s=40",
    "trace.prompt=20-6000",
    "trace.output=2-40",
    "cluster.num_instances=1",
)


def test_staging_is_told_flagged_and_written(flocksim: Flocksim) -> None:
    run = flocksim(*TINY, "executor=kv_rm", "output.steps=true", "check=true")
    assert (run.code, run.err) == (0, "")
    assert "executor 27.00" in run.out  # among the terms of the KV memory
    assert "executor: 27 slots; 27.00 GiB per GPU stand reserved beside the blocks" in run.out
    result = json.loads((run.directory / "result.json").read_text())
    flags = {flag["flag"]: flag for flag in result["flags"]}
    requests = pq.read_table(run.directory / "requests.parquet").to_pydict()
    longer = sum(
        prompt + output - 1 > 4096
        for prompt, output in zip(requests["prompt_tokens"], requests["output_tokens"], strict=True)
    )
    assert flags["context_beyond_near_window"]["num_requests"] == longer > 0
    assert "the 4,096 tokens that a decode reads" in run.out
    steps = pq.read_table(run.directory / "steps.parquet").to_pydict()
    assert set(steps["num_steps"]) == {1}
    block_bytes = 16 * 131_072
    for reserved, used in zip(steps["kv_reserved_bytes"], steps["used_blocks"], strict=True):
        assert reserved == 27 * 2**30 + used * block_bytes
    metrics = result["metrics"]
    groups, count = steps["transfer_groups"], len(steps["num_steps"])
    assert metrics["transfer_groups_mean"] == pytest.approx(sum(groups) / count)
    assert metrics["transfer_groups_max"] == max(groups)
    assert metrics["fragmentation_max_ratio"] == max(steps["fragmentation_ratio"])
    assert metrics["gpu_transfer_ratio"] == 0
    assert metrics["num_graph_switches"] is None


def test_slots_are_told_and_longer_requests_counted(flocksim: Flocksim) -> None:
    run = flocksim(*TINY, "executor=static_graph", "executor.max_context_tokens=2048", "check=true")
    assert (run.code, run.err) == (0, "")
    assert "executor: 218 slots; 54.50 GiB per GPU stand reserved\n" in run.out
    assert "more than the 2,048 tokens of a slot" in run.out
    result = json.loads((run.directory / "result.json").read_text())
    assert result["config"]["engine"]["prefix_caching"] is False
    assert result["config"]["engine"]["max_num_seqs"] == 218
    requests = pq.read_table(run.directory / "requests.parquet").to_pydict()
    refused = [reason for reason in requests["reject_reason"] if reason is not None]
    assert refused == ["over_kv_capacity"] * result["metrics"]["num_rejected"]
    longer = sum(
        prompt + output > 2048
        for prompt, output in zip(requests["prompt_tokens"], requests["output_tokens"], strict=True)
    )
    assert result["metrics"]["num_rejected"] == longer > 0
    assert result["metrics"]["kv_reserved_mean_bytes"] == 218 * 2048 * 131_072
    assert result["metrics"]["commit_time_ratio"] is None


def test_the_default_executor_takes_nothing_and_says_nothing(flocksim: Flocksim) -> None:
    run = flocksim(*TINY)
    assert "executor:" not in run.out
    result = json.loads((run.directory / "result.json").read_text())
    assert result["config"]["choices"]["executor"] == "as_measured"
    assert result["provenance"]["kv_capacity"]["executor_bytes"] == 0


@pytest.mark.parametrize(
    ("overrides", "line"),
    [
        (("executor=graph",), "executor=graph"),
        (("executor=eager", "executor.launch_s=fast"), "executor.launch_s='fast': must be"),
        (("executor=eager", "executor.launches=3"), "unknown key of executor: launches"),
        (("executor=cuda_graph", "executor.capture_sizes=[8,4]"), "capture_sizes=[8, 4]: must be"),
        (("executor=cuda_graph", "executor.capture_sizes=8"), "capture_sizes=8: must be"),
        (("executor=static_graph", "executor.num_slots=1.5"), "executor.num_slots=1.5: must be"),
        (("executor=static_graph", "executor.num_slots=99"), "99 slots of 8,192 tokens"),
        (("executor=kv_rm", "executor.allocator=best"), "executor.allocator=best: must be one of"),
        (("executor=kv_rm", "engine=sglang"), "choose engine=vllm_v1"),
    ],
)
def test_a_mistake_is_one_line(flocksim: Flocksim, overrides: tuple[str, ...], line: str) -> None:
    run = flocksim(*TINY, *overrides)
    assert run.code == 2
    assert len(run.err.splitlines()) == 1
    assert line in run.err
