"""Merging traces: order, links, disjoint ids, labels, and the sharing inside each."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sim.errors import ConfigError
from sim.workload import Labels, Workload
from traces.merge import PartLabels, merge
from traces.merge_runs import MAX_OWN_ID
from traces.prefix_compress import compress
from traces.schema import PromptRuns, TraceTable
from traces.synthetic.sessions import SessionsTrace


def ints(*values: int) -> Any:
    return np.array(values, dtype=np.int64)


def table(*arrival_s: float, **columns: Any) -> TraceTable:
    n = len(arrival_s)
    lengths = {"prompt_tokens": ints(*range(10, 10 + n)), "output_tokens": ints(*range(1, 1 + n))}
    return TraceTable(arrival_s=np.array(arrival_s, dtype=np.float64), **{**lengths, **columns})


def blocks(tokens: int, *ids: list[int]) -> PromptRuns:
    counts = [len(own) for own in ids]
    joined = np.array([run for own in ids for run in own], dtype=np.int32)
    return PromptRuns(ids=joined, offsets=np.append(0, np.cumsum(counts)), block_tokens=tokens)


def conversations(seed: int, **options: Any) -> TraceTable:
    uniform = {"kind": "uniform", "low": 1, "high": 5}
    defaults = {"num_sessions": 20, "rate_per_s": 2.0, "system_prompt_tokens": 9}
    trace = SessionsTrace(turns=uniform, user=uniform, output=uniform, **{**defaults, **options})
    return trace.load(seed)


def test_rows_come_by_arrival_and_equal_times_in_the_order_of_the_tables() -> None:
    merged = merge([table(0.0, 2.0, 2.0), table(1.0, 2.0)])
    assert merged.arrival_s.tolist() == [0.0, 1.0, 2.0, 2.0, 2.0]
    assert merged.prompt_tokens.tolist() == [10, 10, 11, 12, 11]
    assert merged.output_tokens.tolist() == [1, 1, 2, 3, 2]
    for name in ("runs", "session_id", "turn", "parent_id", "after", "delay_s", "priority"):
        assert getattr(merged, name) is None
    assert merged.tenant is None
    assert merged.concurrency is None


def test_many_equal_times_stay_in_order() -> None:
    numbers = np.arange(1, 101)
    tables = [replace(table(*[5.0] * 100), prompt_tokens=first + numbers) for first in (0, 100)]
    merged = merge([*tables, table(4.0)])
    assert merged.prompt_tokens.tolist() == [10, *range(1, 201)]


def test_links_sessions_and_delays_follow_their_rows() -> None:
    chain = table(
        0.0,
        5.0,
        6.0,
        session_id=ints(0, 0, -1),
        turn=ints(0, 1, 0),
        parent_id=ints(-1, 0, -1),
        after=ints(-1, 0, 1),
        delay_s=np.array([0.0, 1.5, 2.5]),
    )
    merged = merge([chain, table(1.0, 7.0), chain])
    assert merged.arrival_s.tolist() == [0.0, 0.0, 1.0, 5.0, 5.0, 6.0, 6.0, 7.0]
    assert merged.session_id is not None
    assert merged.session_id.tolist() == [0, 1, -1, 0, 1, -1, -1, -1]
    assert merged.turn is not None
    assert merged.turn.tolist() == [0, 0, 0, 1, 1, 0, 0, 0]
    assert merged.parent_id is not None
    assert merged.parent_id.tolist() == [-1, -1, -1, 0, 1, -1, -1, -1]
    assert merged.after is not None
    assert merged.after.tolist() == [-1, -1, -1, 0, 1, 3, 4, -1]
    assert merged.delay_s is not None
    assert merged.delay_s.tolist() == [0.0, 0.0, 0.0, 1.5, 1.5, 2.5, 2.5, 0.0]
    compress(merged).validate()


def test_labels_are_joined_by_name_and_may_be_set_for_a_whole_table() -> None:
    first = table(0.0, 2.0, tenant=Labels(ints(1, -1), ("b", "a")), priority=ints(4, 5))
    second = table(1.0, 3.0, tenant=Labels(ints(0, 1), ("a", "c")))
    merged = merge([first, second, table(4.0)])
    assert merged.tenant is not None
    assert [merged.tenant.name_of(row) for row in range(5)] == ["a", "a", None, "c", None]
    assert len(set(merged.tenant.names)) == len(merged.tenant.names)
    assert merged.priority is not None
    assert merged.priority.tolist() == [4, 0, 5, 0, 0]
    labels = [PartLabels(tenant="x"), PartLabels(slo_class="fast", priority=-1), PartLabels()]
    merged = merge([first, second, table(4.0)], labels)
    assert merged.tenant is not None
    assert [merged.tenant.name_of(row) for row in range(5)] == ["x", "a", "x", "c", None]
    assert merged.slo_class is not None
    assert [merged.slo_class.name_of(row) for row in range(5)] == [None, "fast", None, "fast", None]
    assert merged.priority is not None
    assert merged.priority.tolist() == [4, -1, 5, -1, 0]


def test_blocks_of_one_size_stay_blocks_with_ids_apart() -> None:
    first = table(0.0, 2.0, runs=blocks(8, [0, 1], [0, 2]))
    second = table(1.0, 3.0, runs=blocks(8, [0, 1], [0]))
    merged = merge([first, second, table(2.5)])
    assert merged.runs is not None
    assert merged.runs.block_tokens == 8
    assert merged.runs.ids.dtype == np.int32
    assert merged.runs.ids.tolist() == [0, 1, 3, 4, 0, 2, 3]
    assert merged.runs.offsets.tolist() == [0, 2, 4, 6, 6, 7]


def test_blocks_of_different_sizes_become_runs_with_token_counts() -> None:
    """Prompts of 10 and 11 tokens: blocks of 8 are 8 + 2 and 8 + 3, those of 5 are 5 + 5 and 5."""
    first = table(0.0, 2.0, runs=blocks(8, [0, 1], [0, 2]))
    second = table(1.0, 3.0, runs=blocks(5, [0, 1], [0]))
    merged = merge([first, second])
    assert merged.runs is not None
    assert merged.runs.block_tokens is None
    assert merged.runs.tokens is not None
    assert merged.runs.ids.tolist() == [0, 1, 3, 4, 0, 2, 3]
    assert merged.runs.tokens.tolist() == [8, 2, 5, 5, 8, 3, 5]
    workload = compress(merged)
    workload.validate()
    assert workload.shared_tokens().tolist() == [8, 5, 8, 5]


def test_ids_too_large_to_add_up_are_renumbered() -> None:
    huge = np.array([2**62, 7, 2**62, 2**62 + 1], dtype=np.int64)
    runs = PromptRuns(ids=huge, offsets=ints(0, 2, 4), tokens=ints(4, 6, 4, 7))
    many = [table(0.0, 1.0, runs=runs, session_id=ints(2**62, -1)) for _ in range(3)]
    merged = merge(many)
    assert merged.runs is not None
    assert merged.runs.ids.tolist() == [1, 0, 4, 3, 7, 6, 1, 2, 4, 5, 7, 8]
    assert merged.session_id is not None
    assert merged.session_id.tolist() == [0, 1, 2, -1, -1, -1]
    assert merged.runs.ids.max() < MAX_OWN_ID
    assert compress(merged).shared_tokens().tolist() == [4] * 6


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_ids_that_add_up_to_more_than_32_bits_are_kept_in_64(dtype: Any) -> None:
    ids = ints(2**31 - 2, 5).astype(dtype)
    large = PromptRuns(ids=ids, offsets=ints(0, 1, 2), block_tokens=8)
    merged = merge([table(2.0 * i, 2.0 * i + 1, runs=large) for i in range(3)])
    assert merged.runs is not None
    above = 2**31 - 1
    assert merged.runs.ids.tolist() == [
        *(2**31 - 2, 5),
        *(above + 2**31 - 2, above + 5),
        *(2 * above + 2**31 - 2, 2 * above + 5),
    ]


def test_a_reused_output_needs_token_counts_even_where_only_blocks_are_left() -> None:
    empty = PromptRuns(ids=ints()[:0], offsets=ints(0, 0), tokens=ints()[:0])
    merged = merge([table(0.0, runs=empty, output_run=ints(-1)), table(1.0, runs=blocks(8, [3]))])
    assert merged.runs is not None
    assert merged.runs.tokens is not None
    assert merged.runs.tokens.tolist() == [8]
    compress(merged).validate()


def test_the_id_of_an_output_that_nobody_quotes_any_more_is_kept_apart_too() -> None:
    runs = PromptRuns(ids=ints(0), offsets=ints(0, 1), tokens=ints(10))
    merged = merge([table(0.0, runs=runs, output_run=ints(5)), table(1.0, runs=runs)])
    assert merged.output_run is not None
    assert merged.output_run.tolist() == [5, -1]
    assert merged.runs is not None
    assert merged.runs.ids.tolist() == [0, 6]


def rows_of(workload: Workload, rows: np.ndarray) -> list[tuple[int, ...]]:
    """Lengths, shared tokens and node lengths of some rows."""
    return [
        (
            int(workload.prompt_tokens[row]),
            int(workload.output_tokens[row]),
            *(int(workload.tree.num_tokens[node]) for node in workload.path(row)),
        )
        for row in rows.tolist()
    ]


@pytest.mark.parametrize("other", ["conversations", "blocks", "nothing shared", "huge ids"])
def test_every_table_keeps_its_own_sharing_and_shares_nothing_with_the_others(other: str) -> None:
    first = conversations(1)
    second = {
        "conversations": lambda: conversations(2),
        "blocks": lambda: table(0.5, 0.6, runs=blocks(8, [0, 1], [0, 2])),
        "nothing shared": lambda: table(0.5, 0.6),
        "huge ids": lambda: _with_huge_ids(conversations(2)),
    }[other]()
    merged = merge([first, second], [PartLabels(priority=0), PartLabels(priority=1)])
    workload = compress(merged)
    workload.validate()
    assert workload.priority is not None
    nodes = []
    for part, alone in enumerate((first, second)):
        rows = np.flatnonzero(workload.priority == part)
        expected = compress(alone)
        assert rows_of(workload, rows) == rows_of(expected, np.arange(alone.num_requests))
        nodes.append({node for row in rows.tolist() for node in workload.path(row)})
        if expected.output_node is not None:
            assert workload.output_node is not None
            own = workload.output_node[rows]
            assert (own >= 0).tolist() == (expected.output_node >= 0).tolist()
            nodes[-1].update(own[own >= 0].tolist())
    assert nodes[0]
    assert nodes[0].isdisjoint(nodes[1])


def _with_huge_ids(source: TraceTable) -> TraceTable:
    assert source.runs is not None
    assert source.output_run is not None
    runs = replace(source.runs, ids=source.runs.ids + 2**61)
    output_run = np.where(source.output_run < 0, -1, source.output_run + 2**61)
    return replace(source, runs=runs, output_run=output_run)


def test_one_table_is_itself() -> None:
    source = conversations(3, closed_loop=True)
    merged = merge([source])
    assert merged.runs is not None
    assert source.runs is not None
    assert merged.runs.ids.tolist() == source.runs.ids.tolist()
    assert merged.runs.tokens is not None
    assert source.runs.tokens is not None
    assert merged.runs.tokens.tolist() == source.runs.tokens.tolist()
    names = ("arrival_s", "prompt_tokens", "output_run", "session_id", "after", "delay_s")
    for name in names:
        assert getattr(merged, name).tolist() == getattr(source, name).tolist()


def test_a_table_without_rows_adds_nothing() -> None:
    source = conversations(3)
    merged = merge([source.slice(0, 0), source, table()])
    assert merged.num_requests == source.num_requests
    assert merged.runs is not None
    assert source.runs is not None
    assert merged.runs.ids.tolist() == source.runs.ids.tolist()


def test_provenance_lists_the_parts() -> None:
    first = table(0.0, provenance={"format": "a"})
    provenance = merge([first, table(1.0, 2.0, provenance={"format": "b"})]).provenance
    assert provenance == {
        "format": "merge",
        "sha256": None,
        "num_rows": 3,
        "options": {},
        "parts": [{"format": "a"}, {"format": "b"}],
    }


def test_users_of_one_table_cannot_be_merged() -> None:
    with pytest.raises(ConfigError) as caught:
        merge([table(0.0), table(0.0, concurrency=5)])
    assert str(caught.value).startswith("a trace with a fixed concurrency (5 users) cannot be")
    with pytest.raises(ValueError, match="nothing to merge"):
        merge([])
    with pytest.raises(ValueError, match="shorter"):
        merge([table(0.0), table(0.0)], [PartLabels()])
