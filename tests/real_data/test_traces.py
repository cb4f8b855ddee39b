"""The public traces: row counts, infinite-cache hit ratios, path lengths.

Source of the ratios and path lengths: measured on the released files with an independent per-block
trie; path lengths count the private rest of a prompt as one node.
"""

import hashlib

import numpy as np
import pytest

from sim.workload import Workload
from tests.data_path import real_data_file
from traces.build import build_workload
from traces.prefix_compress import compress
from traces.readers.azure import AzureTrace
from traces.readers.mooncake import MooncakeTrace
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
    ids, offsets = table.runs.ids.tolist(), table.runs.offsets.tolist()
    child: dict[tuple[int, int, int], int] = {}
    matched = []
    for row, prompt in enumerate(table.prompt_tokens.tolist()):
        node = found = 0
        is_known = True
        for block, block_id in enumerate(ids[offsets[row] : offsets[row + 1]]):
            num_tokens = min(512, prompt - 512 * block)
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


@pytest.mark.parametrize("name", MOONCAKE)
def test_mooncake_paths_have_the_measured_lengths(name: str) -> None:
    mean, p99, longest = MOONCAKE[name][2]
    workload = build_workload(mooncake(name), seed=0)
    has_private = workload.shared_tokens() < workload.prompt_tokens
    nodes = np.diff(workload.path_offsets) + has_private
    assert nodes.mean() == pytest.approx(mean, abs=0.06)
    assert np.percentile(nodes, 99) == p99
    assert nodes.max() == longest


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
