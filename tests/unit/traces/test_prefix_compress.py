"""Compression told in small trees worked out by hand."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sim.prefix_tree import NO_NODE
from sim.workload import Labels, Workload
from traces.prefix_compress import compress
from traces.schema import PromptRuns, TraceTable


def table(
    prompts: Sequence[int],
    ids: Sequence[Sequence[int]],
    *,
    block_tokens: int | None = None,
    tokens: Sequence[Sequence[int]] | None = None,
    **columns: Any,
) -> TraceTable:
    n = len(prompts)
    columns = {"output_tokens": np.ones(n, dtype=np.int64), **columns}
    return TraceTable(
        arrival_s=np.arange(n, dtype=np.float64),
        prompt_tokens=np.array(prompts),
        runs=PromptRuns(
            ids=np.array([i for row in ids for i in row], dtype=np.int64),
            offsets=np.cumsum([0, *map(len, ids)]),
            block_tokens=block_tokens,
            tokens=None if tokens is None else np.array([t for row in tokens for t in row]),
        ),
        **columns,
    )


def nodes(workload: Workload) -> list[tuple[int, int, int]]:
    """(parent, start, tokens) of every node."""
    tree = workload.tree
    columns = (tree.parent.tolist(), tree.start_tokens.tolist(), tree.num_tokens.tolist())
    return list(zip(*columns, strict=True))


def paths(workload: Workload) -> list[tuple[int, ...]]:
    return [workload.path(i) for i in range(workload.num_requests)]


def test_nodes_end_where_prompts_diverge_and_where_one_ends() -> None:
    workload = compress(
        table([40, 40, 20, 30], [[1, 2, 3, 4], [1, 2, 3, 5], [1, 2], [9, 8, 7]], block_tokens=10)
    )
    assert nodes(workload) == [(NO_NODE, 0, 20), (0, 20, 10)]
    assert paths(workload) == [(0, 1), (0, 1), (0,), ()]
    assert workload.shared_tokens().tolist() == [30, 30, 20, 0]
    workload.validate()


def test_equal_prompts_share_everything_in_one_node() -> None:
    workload = compress(table([25, 25], [[1, 2, 3], [1, 2, 3]], block_tokens=10))
    assert nodes(workload) == [(NO_NODE, 0, 25)]
    assert paths(workload) == [(0,), (0,)]


def test_a_partial_block_is_not_the_full_block_of_the_same_id() -> None:
    workload = compress(table([15, 20, 15, 12], [[1, 2], [1, 2], [1, 2], [1, 2]], block_tokens=10))
    assert nodes(workload) == [(NO_NODE, 0, 10), (0, 10, 5)]
    assert paths(workload) == [(0, 1), (0,), (0, 1), (0,)]


def test_an_id_counts_only_under_the_same_prefix() -> None:
    workload = compress(table([30, 30, 20], [[1, 2, 3], [4, 2, 3], [1, 3]], block_tokens=10))
    assert nodes(workload) == [(NO_NODE, 0, 10)]
    assert paths(workload) == [(0,), (), (0,)]


def test_a_repeated_id_inside_a_prompt_is_a_position_like_any_other() -> None:
    workload = compress(table([40, 30], [[5, 5, 5, 6], [5, 5, 6]], block_tokens=10))
    assert nodes(workload) == [(NO_NODE, 0, 20)]
    assert paths(workload) == [(0,), (0,)]


def test_ids_far_apart_and_beyond_32_bits_are_told_apart() -> None:
    high = 2**62
    workload = compress(
        table([20, 20, 20], [[high, 7], [high, 2**32 + 7], [high, 7]], block_tokens=10)
    )
    assert nodes(workload) == [(NO_NODE, 0, 10), (0, 10, 10)]
    assert paths(workload) == [(0, 1), (0,), (0, 1)]


def test_what_no_run_covers_is_private() -> None:
    workload = compress(table([50, 60, 70], [[1], [1], []], tokens=[[40], [40], []]))
    assert nodes(workload) == [(NO_NODE, 0, 40)]
    assert workload.shared_tokens().tolist() == [40, 40, 0]


def test_runs_of_one_id_with_other_lengths_are_other_runs() -> None:
    workload = compress(
        table([50, 50, 50], [[1, 2], [1, 2], [1, 2]], tokens=[[7, 9], [7, 9], [8, 9]])
    )
    assert nodes(workload) == [(NO_NODE, 0, 16)]
    assert paths(workload) == [(0,), (0,), ()]


def test_a_reused_output_is_a_node_of_its_own_and_leaves_no_private_prompt() -> None:
    workload = compress(
        table(
            [30, 42, 60],
            [[1], [1, 2, 3], [1, 2, 3, 4, 5]],
            tokens=[[30], [30, 5, 7], [30, 5, 7, 8, 10]],
            output_tokens=np.array([5, 8, 3]),
            output_run=np.array([2, 4, -1]),
        )
    )
    assert nodes(workload) == [(NO_NODE, 0, 30), (0, 30, 5), (1, 35, 7), (2, 42, 8)]
    assert paths(workload) == [(0,), (0, 1, 2), (0, 1, 2, 3)]
    assert workload.output_node is not None
    assert workload.output_node.tolist() == [1, 3, NO_NODE]
    workload.validate()


def test_an_output_with_an_id_beyond_32_bits_is_no_run_of_a_small_id() -> None:
    source = table(
        [30, 35],
        [[7], [7, 1]],
        tokens=[[30], [30, 5]],
        output_tokens=np.array([5, 8]),
        output_run=np.array([2**32 + 1, -1]),
    )
    assert source.runs is not None
    narrow = replace(source.runs, ids=source.runs.ids.astype(np.int32))
    workload = compress(replace(source, runs=narrow))
    assert nodes(workload) == [(NO_NODE, 0, 30)]


def test_an_output_that_nobody_continues_is_private() -> None:
    whole = table(
        [30, 42],
        [[1], [1, 2, 3]],
        tokens=[[30], [30, 5, 7]],
        output_tokens=np.array([5, 8]),
        output_run=np.array([2, -1]),
    )
    workload = compress(whole.slice(0, 1))
    assert workload.tree.num_nodes == 0
    assert paths(workload) == [()]
    assert workload.output_node is not None
    assert workload.output_node.tolist() == [NO_NODE]


def test_outputs_need_runs_with_token_counts_that_cover_the_prompt() -> None:
    outputs: dict[str, Any] = {"output_run": np.array([-1, 2])}
    with pytest.raises(ValueError, match="request 1: runs must cover the whole prompt"):
        compress(table([30, 31], [[1], [1]], tokens=[[30], [30]], **outputs))
    with pytest.raises(ValueError, match="not blocks"):
        compress(table([30, 30], [[1], [1]], block_tokens=30, **outputs))


def test_runs_have_one_kind_of_length() -> None:
    ids = np.array([1])
    with pytest.raises(ValueError, match="block_tokens or tokens"):
        PromptRuns(ids=ids, offsets=np.array([0, 1]))
    with pytest.raises(ValueError, match="block_tokens or tokens"):
        PromptRuns(ids=ids, offsets=np.array([0, 1]), block_tokens=1, tokens=ids)


def test_a_table_without_runs_shares_nothing_and_keeps_its_columns() -> None:
    one = np.array([1, 2])
    source = TraceTable(
        arrival_s=np.array([0.0, 1.0]),
        prompt_tokens=one * 10,
        output_tokens=one,
        session_id=one * 3,
        turn=one * 4,
        parent_id=np.array([-1, 0]),
        tenant=Labels(np.array([0, -1]), ("acme",)),
        slo_class=Labels(np.array([-1, 0]), ("batch",)),
        priority=one * 5,
        provenance={"format": "x"},
    )
    workload = compress(source)
    assert paths(workload) == [(), ()]
    assert workload.output_node is None
    for name in ("session_id", "turn", "parent_id", "tenant", "slo_class", "priority"):
        assert getattr(workload, name) is getattr(source, name)
    assert workload.provenance == {"format": "x"}


def test_no_request_and_no_run_are_fine() -> None:
    assert compress(table([], [], block_tokens=4)).num_requests == 0
    workload = compress(table([5, 5], [[], []], tokens=[[], []]))
    assert paths(workload) == [(), ()]
