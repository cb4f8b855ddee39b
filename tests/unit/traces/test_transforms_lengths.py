"""Scaled and capped lengths, computed by hand."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sim.errors import ConfigError
from tests.unit.traces.token_oracle import runs_of
from traces.prefix_compress import compress
from traces.schema import PromptRuns, TraceTable
from traces.transforms import transform


def conversation() -> TraceTable:
    """Two turns: 10 tokens, answered by 4 that return in the second prompt, then 6 more."""
    return TraceTable(
        arrival_s=np.array([0.0, 1.0]),
        prompt_tokens=np.array([10, 20]),
        output_tokens=np.array([4, 5]),
        runs=PromptRuns(
            ids=np.array([1, 1, 2, 3]),
            offsets=np.array([0, 1, 4]),
            tokens=np.array([10, 10, 4, 6]),
        ),
        output_run=np.array([2, -1]),
        session_id=np.array([0, 0]),
        parent_id=np.array([-1, 0]),
        provenance={"format": "x"},
    )


def two_prompts() -> TraceTable:
    """Runs of 10 and 5 tokens and 3 private ones; the same 10 and 2 private ones."""
    runs = PromptRuns(
        ids=np.array([1, 2, 1]),
        offsets=np.array([0, 2, 3]),
        tokens=np.array([10, 5, 10]),
    )
    return TraceTable(
        arrival_s=np.array([0.0, 1.0]),
        prompt_tokens=np.array([18, 12]),
        output_tokens=np.array([3, 8]),
        runs=runs,
    )


def lengths(table: TraceTable) -> tuple[list[int], list[int]]:
    return table.prompt_tokens.tolist(), table.output_tokens.tolist()


def shared(table: TraceTable) -> list[int]:
    workload = compress(table)
    workload.validate()
    tokens: list[int] = workload.shared_tokens().tolist()
    return tokens


def test_run_ends_are_rounded_and_the_private_rest_follows() -> None:
    half = transform(two_prompts(), scale_prompt=0.5)
    # 10, 15, 18 tokens end at 5, 7.5 -> 8 (to even), 9; 10 and 12 at 5 and 6
    assert [[tokens for _, tokens in runs_of(half, row)] for row in (0, 1)] == [[5, 3], [5]]
    assert lengths(half) == ([9, 6], [3, 8])
    assert shared(half) == [5, 5]
    assert half.provenance["transforms"] == {"scale_prompt": 0.5}


@pytest.mark.parametrize("chunk", [1, 2, 3, 100])
def test_rows_scaled_in_pieces_are_those_scaled_at_once(
    chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = transform(conversation(), scale_prompt=1.7, scale_output=0.6)
    monkeypatch.setattr("traces.transforms.scaling.CHUNK_RUNS", chunk)
    pieces = transform(conversation(), scale_prompt=1.7, scale_output=0.6)
    assert lengths(pieces) == lengths(whole)
    assert [runs_of(pieces, row) for row in (0, 1)] == [runs_of(whole, row) for row in (0, 1)]


def test_no_run_vanishes() -> None:
    tiny = transform(two_prompts(), scale_prompt=0.01)
    assert [[tokens for _, tokens in runs_of(tiny, row)] for row in (0, 1)] == [[1, 1], [1]]
    assert lengths(tiny) == ([2, 1], [3, 8])


def test_outputs_alone_leave_prompts_as_they_are() -> None:
    table = two_prompts()
    more = transform(table, scale_output=0.5)
    assert lengths(more) == ([18, 12], [2, 4])  # 1.5 rounds to even
    assert more.runs is table.runs


@pytest.mark.parametrize(
    ("scale_prompt", "scale_output", "prompts", "outputs"),
    [
        (1, 2, [10, 10 + 8 + 6], [8, 10]),
        (2, 1, [20, 20 + 4 + 12], [4, 5]),
        (2, 0.5, [20, 20 + 2 + 12], [2, 2]),
        (0.5, 0.5, [5, 10], [2, 2]),
    ],
)
def test_an_output_scales_alike_where_it_is_made_and_where_it_returns(
    scale_prompt: float, scale_output: float, prompts: list[int], outputs: list[int]
) -> None:
    table = transform(conversation(), scale_prompt=scale_prompt, scale_output=scale_output)
    assert lengths(table) == (prompts, outputs)
    workload = compress(table)
    workload.validate()
    assert workload.output_node is not None
    assert workload.output_node.tolist()[1] == -1
    assert workload.output_node.tolist()[0] in workload.path(1)
    assert workload.tree.num_tokens[workload.output_node[0]] == outputs[0]


def test_counts_that_become_equal_do_not_make_prompts_equal() -> None:
    table = TraceTable(
        arrival_s=np.zeros(2),
        prompt_tokens=np.array([100, 101]),
        output_tokens=np.ones(2, dtype=np.int64),
        runs=PromptRuns(
            ids=np.array([1, 1]), offsets=np.array([0, 1, 2]), tokens=np.array([100, 101])
        ),
    )
    assert shared(table) == [0, 0]
    assert shared(transform(table, scale_prompt=0.1)) == [0, 0]
    assert shared(transform(table, max_prompt_tokens=50)) == [0, 0]


def test_blocks_scale_into_runs() -> None:
    runs = PromptRuns(
        ids=np.array([1, 2, 1, 3], dtype=np.int32), offsets=np.array([0, 2, 4]), block_tokens=8
    )
    table = replace(two_prompts(), runs=runs, prompt_tokens=np.array([16, 9]))
    half = transform(table, scale_prompt=0.25)
    assert [[tokens for _, tokens in runs_of(half, row)] for row in (0, 1)] == [[2, 2], [2, 1]]
    assert lengths(half)[0] == [4, 3]
    assert shared(half) == [2, 2]


def test_a_scaled_length_must_stay_possible() -> None:
    with pytest.raises(ConfigError) as caught:
        transform(two_prompts(), scale_output=2e6)
    assert str(caught.value) == (
        "trace.scale_output=2e+06: the longest output would have 16,000,000 tokens, allowed: "
        "10,000,000"
    )


def test_a_cut_output_is_cut_where_it_returns() -> None:
    table = transform(conversation(), max_output_tokens=3)
    assert lengths(table) == ([10, 19], [3, 3])
    assert shared(table) == [10, 13]
    done = table.provenance["transforms"]
    assert done == {"max_output_tokens": 3, "num_outputs_cut": 2}


@pytest.mark.parametrize(
    ("cap", "prompts", "shares", "parent", "lost"),
    [
        (20, [10, 20], [10, 14], 0, None),
        (19, [10, 19], [10, 14], 0, None),
        (14, [10, 14], [10, 14], 0, None),
        (12, [10, 12], [10, 10], -1, 1),
        (10, [10, 10], [10, 10], -1, None),
        (3, [3, 3], [3, 3], -1, None),
    ],
)
def test_a_cut_prompt_keeps_its_beginning(
    cap: int, prompts: list[int], shares: list[int], parent: int, lost: int | None
) -> None:
    table = transform(conversation(), max_prompt_tokens=cap)
    assert table.prompt_tokens.tolist() == prompts
    assert shared(table) == shares
    assert table.parent_id is not None
    assert table.parent_id.tolist() == [-1, parent]
    num_cut = sum(tokens > cap for tokens in (10, 20))
    expected: dict[str, Any] = {"max_prompt_tokens": cap, "num_prompts_cut": num_cut}
    if lost is not None:
        expected["num_outputs_not_reused"] = lost
    assert table.provenance["transforms"] == expected


def test_cut_blocks_stay_blocks() -> None:
    runs = PromptRuns(
        ids=np.array([1, 2, 3, 1, 2], dtype=np.int32), offsets=np.array([0, 3, 5]), block_tokens=8
    )
    table = replace(two_prompts(), runs=runs, prompt_tokens=np.array([20, 16]))
    cut = transform(table, max_prompt_tokens=11)
    assert cut.runs is not None
    assert cut.runs.block_tokens == 8
    assert cut.runs.offsets.tolist() == [0, 2, 4]
    assert shared(cut) == [11, 11]


def test_lengths_are_scaled_before_they_are_capped() -> None:
    table = transform(
        two_prompts(), max_output_tokens=5, max_prompt_tokens=20, scale_prompt=2, scale_output=2
    )
    assert lengths(table) == ([20, 20], [5, 5])
    assert list(table.provenance["transforms"])[:2] == ["scale_prompt", "scale_output"]
