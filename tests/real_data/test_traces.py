"""The public traces: row counts, infinite-cache hit ratios, path lengths.

Source of the ratios and path lengths: measured on the released files with an independent per-block
trie; path lengths count the private rest of a prompt as one node.
"""

import gzip
import hashlib
from pathlib import Path

import numpy as np
import pytest

from sim.workload import Workload
from tests.data_path import real_data_file
from traces.build import build_workload
from traces.prefix_compress import compress
from traces.readers.agent import AgentTrace
from traces.readers.azure import AzureTrace
from traces.readers.mooncake import MooncakeTrace
from traces.readers.reading import FaultFinding
from traces.schema import TraceTable

pytestmark = pytest.mark.real_data

KV_BLOCK_TOKENS = 16

MOONCAKE = {
    "conversation": (12_031, 0.373617, (3.1, 10, 24)),
    "synthetic": (3_993, 0.651214, (1.5, 2, 3)),
}


def mooncake(name: str) -> MooncakeTrace:
    return MooncakeTrace(real_data_file(f"traces/mooncake/{name}_trace.jsonl"))


def hit_ratio(matched_tokens: list[int], prompt_tokens: list[int]) -> float:
    """Share of prompt tokens found in an infinite cache of 16-token blocks."""
    blocks = sum(
        min(matched // KV_BLOCK_TOKENS, (prompt - 1) // KV_BLOCK_TOKENS)
        for matched, prompt in zip(matched_tokens, prompt_tokens, strict=True)
    )
    return blocks * KV_BLOCK_TOKENS / sum(prompt_tokens)


def matched_by_ids(table: TraceTable) -> list[int]:
    """Longest prefix of each prompt seen in an earlier one, from the raw ids."""
    assert table.runs is not None
    assert table.runs.block_tokens is not None
    ids, offsets, size = (
        table.runs.ids.tolist(),
        table.runs.offsets.tolist(),
        table.runs.block_tokens,
    )
    child: dict[tuple[int, int, int], int] = {}
    matched = []
    for row, prompt in enumerate(table.prompt_tokens.tolist()):
        node = found = 0
        is_known = True
        for block, block_id in enumerate(ids[offsets[row] : offsets[row + 1]]):
            num_tokens = min(size, prompt - size * block)
            key = (node, block_id, num_tokens)
            is_known = is_known and key in child
            found += num_tokens if is_known else 0
            node = child.setdefault(key, len(child) + 1)
        matched.append(found)
    return matched


def matched_by_paths(workload: Workload) -> list[int]:
    end_tokens = workload.tree.end_tokens.tolist()
    seen: set[int] = set()
    matched = []
    for row in range(workload.num_requests):
        path = workload.path(row)
        matched.append(max((end_tokens[node] for node in path if node in seen), default=0))
        seen.update(path)
    return matched


@pytest.mark.parametrize("name", MOONCAKE)
def test_mooncake_hit_ratio_is_the_published_one_from_ids_and_from_paths(name: str) -> None:
    num_rows, ratio, _ = MOONCAKE[name]
    table = mooncake(name).load(0)
    workload = compress(table)
    workload.validate()
    assert workload.num_requests == num_rows
    by_ids, by_paths = matched_by_ids(table), matched_by_paths(workload)
    assert by_ids == by_paths
    prompt_tokens = table.prompt_tokens.tolist()
    assert hit_ratio(by_paths, prompt_tokens) == pytest.approx(ratio, abs=5e-7)


def check_path_lengths(workload: Workload, mean: float, p99: int, longest: int) -> None:
    has_private = workload.shared_tokens() < workload.prompt_tokens
    nodes = np.diff(workload.path_offsets) + has_private
    assert nodes.mean() == pytest.approx(mean, abs=0.06)
    assert np.percentile(nodes, 99) == p99
    assert nodes.max() == longest


@pytest.mark.parametrize("name", MOONCAKE)
def test_mooncake_paths_have_the_measured_lengths(name: str) -> None:
    check_path_lengths(build_workload(mooncake(name), seed=0), *MOONCAKE[name][2])


def test_mooncake_conversation_has_3_second_buckets_over_an_hour() -> None:
    table = mooncake("conversation").load(0)
    assert table.arrival_s[-1] == pytest.approx(3537, abs=1)
    assert len(np.unique(table.arrival_s)) == 1180
    path = real_data_file("traces/mooncake/conversation_trace.jsonl")
    assert table.provenance["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize(
    ("name", "num_rows", "prompt_mean", "output_mean"),
    [("code", 8_819, 2047.848, 27.8825), ("conv", 19_366, 1154.697, 211.1259)],
)
def test_azure_rows_and_means(
    name: str, num_rows: int, prompt_mean: float, output_mean: float
) -> None:
    path = real_data_file(f"traces/azure_llm_2023/AzureLLMInferenceTrace_{name}.csv")
    workload = build_workload(AzureTrace(path), seed=0)
    assert workload.num_requests == num_rows
    assert workload.prompt_tokens.mean() == pytest.approx(prompt_mean, abs=1e-3)
    assert workload.output_tokens.mean() == pytest.approx(output_mean, abs=1e-4)
    assert workload.arrival_s[0] == 0.0
    assert 3400 < workload.arrival_s[-1] < 3600
    assert workload.tree.num_nodes == 0


def test_azure_code_arrivals_are_bursty_to_the_published_degree() -> None:
    path = real_data_file("traces/azure_llm_2023/AzureLLMInferenceTrace_code.csv")
    gaps_s = np.diff(AzureTrace(path).load(0).arrival_s)
    assert gaps_s.std() / gaps_s.mean() == pytest.approx(13, abs=0.5)


AGENT_FILE = "traces/lmcache_agent/agent_calls_blk16approx.jsonl"


def test_agent_calls_sessions_and_reusable_tokens() -> None:
    """In the order of the file, one session after the other, 90 % of tokens have been seen."""
    path = real_data_file(AGENT_FILE)
    table = AgentTrace(path=path, concurrency=1, service_s_per_token=0.0).load(0)
    workload = compress(table)
    workload.validate()
    check_path_lengths(workload, 6.1, 27, 30)
    assert table.session_id is not None
    assert table.tenant is not None
    assert table.turn is not None
    assert (table.num_requests, len(np.unique(table.session_id))) == (1_566, 69)
    assert sorted(table.tenant.names) == ["magagent", "miniswe", "taubench"]
    assert int((table.turn == 0).sum()) == 69
    assert (np.diff(table.session_id) >= 0).all()
    by_ids, by_paths = matched_by_ids(table), matched_by_paths(workload)
    assert by_ids == by_paths
    assert hit_ratio(by_paths, table.prompt_tokens.tolist()) == pytest.approx(0.9, abs=0.01)


def test_agent_gaps_hold_about_7_ms_of_service_per_output_token() -> None:
    """59 gaps are shorter than that, the option's default."""
    table = AgentTrace(path=real_data_file(AGENT_FILE), session_rate_per_s=0.1).load(0)
    assert table.after is not None
    assert table.delay_s is not None
    follows = table.after >= 0
    assert int(follows.sum()) == 1_497
    assert int((table.delay_s[follows] == 0.0).sum()) == 59


def test_a_packed_trace_is_the_same_trace(tmp_path: Path) -> None:
    path = real_data_file(AGENT_FILE)
    packed = tmp_path / "packed.gz"
    packed.write_bytes(gzip.compress(path.read_bytes(), compresslevel=1))
    plain, unpacked = (AgentTrace(path=p, concurrency=2).load(0) for p in (path, packed))
    assert plain.provenance == unpacked.provenance
    assert plain.runs is not None
    assert unpacked.runs is not None
    assert plain.runs.ids.tobytes() == unpacked.runs.ids.tobytes()


def test_nothing_is_at_fault_in_the_public_files() -> None:
    names = ("mooncake/conversation_trace.jsonl", "azure_llm_2023/AzureLLMInferenceTrace_conv.csv")
    for name, source in zip(names, (MooncakeTrace, AzureTrace), strict=True):
        path = real_data_file(f"traces/{name}")
        finding = FaultFinding(path)
        source(path).read(finding)
        assert finding.faults == []
