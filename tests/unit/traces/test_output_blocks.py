"""Quoted outputs told in small prompts of 10-token blocks."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from sim.prefix_tree import NO_NODE
from sim.workload import Workload
from traces.output_blocks import with_reused_outputs
from traces.prefix_compress import compress
from traces.schema import PromptRuns, TraceTable

Ask = tuple[int, int, list[int], int]
"""Prompt tokens, output tokens, block ids, parent."""


def with_outputs(asks: Sequence[Ask]) -> TraceTable:
    prompts, outputs, ids, parents = zip(*asks, strict=True)
    table = TraceTable(
        arrival_s=np.arange(len(asks), dtype=np.float64),
        prompt_tokens=np.array(prompts),
        output_tokens=np.array(outputs),
        runs=PromptRuns(
            ids=np.array([i for row in ids for i in row], dtype=np.int32),
            offsets=np.cumsum([0, *map(len, ids)]),
            block_tokens=10,
        ),
    )
    return with_reused_outputs(table, np.array(parents))


def runs_of(table: TraceTable) -> list[list[tuple[int, int]]]:
    """(id, tokens) of the runs of each prompt."""
    assert table.runs is not None
    assert table.runs.tokens is not None
    pairs = list(zip(table.runs.ids.tolist(), table.runs.tokens.tolist(), strict=True))
    bounds = table.runs.offsets.tolist()
    return [pairs[a:b] for a, b in pairwise(bounds)]


def workload_of(asks: Sequence[Ask]) -> Workload:
    workload = compress(with_outputs(asks))
    workload.validate()
    return workload


def cached_tokens(workload: Workload, left: int, asked: int) -> int:
    """Prompt tokens of `asked` that `left` leaves behind, prompt and output, in the tree."""
    assert workload.output_node is not None
    output = int(workload.output_node[left])
    whole = workload.path(left) if output == NO_NODE else (*workload.path(left), output)
    common = [a for a, b in zip(whole, workload.path(asked), strict=False) if a == b]
    return int(workload.tree.num_tokens[common].sum()) if common else 0


FIRST = (25, 17, [1, 2, 3], -1)
"""Its prompt ends 5 tokens into block 2, its output 2 tokens into block 4."""


def test_an_output_stands_between_the_end_of_its_prompt_and_the_rest_of_the_block() -> None:
    table = with_outputs([FIRST, (60, 1, [1, 2, 13, 14, 15, 16], 0)])
    output = 17
    assert table.output_run is not None
    assert table.output_run.tolist() == [output, -1]
    assert runs_of(table) == [
        [(1, 10), (2, 10), (3, 5)],
        [(1, 10), (2, 10), (3, 5), (output, 17), (15, 8), (16, 10)],
    ]


def test_a_prompt_may_end_where_the_output_ends_or_within_that_block() -> None:
    for length, rest in ((42, []), (47, [(15, 5)]), (50, [(15, 8)])):
        table = with_outputs([FIRST, (length, 1, [1, 2, 13, 14, 15], 0)])
        assert runs_of(table)[1] == [(1, 10), (2, 10), (3, 5), (16, 17), *rest]


def test_blocks_that_end_with_prompt_and_output_are_not_cut() -> None:
    table = with_outputs([(20, 20, [1, 2], -1), (60, 1, [1, 2, 13, 14, 15, 16], 0)])
    assert runs_of(table)[1] == [(1, 10), (2, 10), (17, 20), (15, 10), (16, 10)]


def test_two_turns_may_end_in_one_block() -> None:
    """Output 0 covers tokens 25 to 42, the next user says 3, output 1 covers 45 to 65."""
    asks = [
        FIRST,
        (45, 20, [1, 2, 13, 14, 5], 0),
        (70, 1, [1, 2, 13, 14, 25, 26, 27], 1),
    ]
    table = with_outputs(asks)
    assert table.output_run is not None
    first, second = table.output_run[:2].tolist()
    assert runs_of(table) == [
        [(1, 10), (2, 10), (3, 5)],
        [(1, 10), (2, 10), (3, 5), (first, 17), (5, 3)],
        [(1, 10), (2, 10), (3, 5), (first, 17), (5, 3), (second, 20), (27, 5)],
    ]
    assert cached_tokens(workload_of(asks), 1, 2) == 65


def test_a_turn_that_follows_at_once_leaves_no_run_between_two_outputs() -> None:
    asks = [FIRST, (42, 20, [1, 2, 13, 14, 5], 0), (62, 1, [1, 2, 13, 14, 25, 26, 27], 1)]
    table = with_outputs(asks)
    assert table.output_run is not None
    first, second = table.output_run[:2].tolist()
    assert runs_of(table)[2] == [(1, 10), (2, 10), (3, 5), (first, 17), (second, 20)]


def is_reused(parent: Ask, child: Ask) -> bool:
    return with_outputs([parent, child]).output_run is not None


def test_a_child_continues_its_parent_by_its_first_full_blocks_and_its_length() -> None:
    whole = [1, 2, 13, 14, 15]
    assert is_reused(FIRST, (42, 1, whole, 0))
    assert not is_reused(FIRST, (41, 1, whole, 0)), "shorter than prompt and output"
    assert not is_reused(FIRST, (42, 1, [1, 9, 13, 14, 15], 0)), "another block"
    assert not is_reused(FIRST, (42, 1, [2, 1, 13, 14, 15], 0)), "another order"
    assert not is_reused(FIRST, (42, 1, whole, -1)), "no child"
    assert is_reused((9, 2, [7], -1), (11, 1, [8, 9], 0)), "no full block to compare"


def test_an_output_that_fills_no_block_is_not_reused() -> None:
    assert not is_reused((25, 4, [1, 2, 3], -1), (60, 1, [1, 2, 13, 14, 15, 16], 0))
    assert is_reused((25, 5, [1, 2, 3], -1), (60, 1, [1, 2, 13, 14, 15, 16], 0))


def test_the_first_child_says_what_the_output_was() -> None:
    asks = [
        FIRST,
        (50, 1, [1, 2, 13, 14, 15], 0),
        (50, 1, [1, 2, 13, 94, 15], 0),
        (50, 1, [1, 2, 13, 14, 95], 0),
    ]
    workload = workload_of(asks)
    assert [cached_tokens(workload, 0, child) for child in (1, 2, 3)] == [42, 20, 42]


def test_a_prompt_without_a_parent_finds_what_another_ones_child_names() -> None:
    asks = [FIRST, (50, 1, [1, 2, 13, 14, 15], 0), (55, 1, [1, 2, 13, 14, 15, 16], -1)]
    workload = workload_of(asks)
    assert cached_tokens(workload, 0, 2) == 42
    assert cached_tokens(workload, 1, 2) == 50


def test_equal_prompts_with_equal_answers_leave_the_same_behind() -> None:
    asks = [
        FIRST,
        (25, 17, [1, 2, 33], -1),
        (50, 1, [1, 2, 13, 14, 15], 0),
        (50, 1, [1, 2, 13, 14, 15], 1),
        (25, 17, [1, 2, 3], -1),
    ]
    workload = workload_of(asks)
    assert workload.output_node is not None
    assert workload.output_node[0] == workload.output_node[1] != NO_NODE
    assert workload.output_node[4] == NO_NODE, "nobody goes on from it"
    assert cached_tokens(workload, 1, 2) == cached_tokens(workload, 0, 3) == 42


def test_of_equal_blocks_with_other_lengths_the_first_counts() -> None:
    asks = [
        FIRST,
        (26, 17, [1, 2, 33], -1),
        (50, 1, [1, 2, 13, 14, 15], 0),
        (50, 1, [1, 2, 13, 14, 15], 1),
    ]
    workload = workload_of(asks)
    assert [cached_tokens(workload, 0, child) for child in (2, 3)] == [42, 42]
    assert cached_tokens(workload, 1, 3) == 20
    output_run = with_outputs(asks).output_run
    assert output_run is not None
    assert output_run[1] == -1


def test_the_first_is_the_one_whose_child_comes_first() -> None:
    asks = [
        FIRST,
        (26, 17, [1, 2, 33], -1),
        (50, 1, [1, 2, 13, 14, 15], 1),
        (50, 1, [1, 2, 13, 14, 15], 0),
    ]
    workload = workload_of(asks)
    assert [cached_tokens(workload, 1, child) for child in (2, 3)] == [43, 43]
    assert cached_tokens(workload, 0, 3) == 20


def test_of_overlapping_outputs_the_one_that_ends_first_counts() -> None:
    """Output 0 covers tokens 25 to 42, output 1 would cover 35 to 60."""
    asks = [
        FIRST,
        (35, 25, [1, 2, 13, 4], -1),
        (60, 1, [1, 2, 13, 14, 15, 16], 0),
        (70, 1, [1, 2, 13, 14, 15, 16, 17], 1),
    ]
    workload = workload_of(asks)
    assert [cached_tokens(workload, 0, child) for child in (2, 3)] == [42, 42]
    assert cached_tokens(workload, 2, 3) == 60
    assert cached_tokens(workload, 1, 3) == 20


def test_an_output_that_begins_where_the_one_before_it_ends_does_not_overlap_it() -> None:
    """As above, and output 2 covers tokens 42 to 72."""
    asks = [
        FIRST,
        (35, 25, [1, 2, 13, 4], -1),
        (42, 30, [1, 2, 13, 14, 5], 0),
        (60, 1, [1, 2, 13, 14, 15, 16], 1),
        (80, 1, [1, 2, 13, 14, 15, 16, 17, 18], 2),
    ]
    workload = workload_of(asks)
    assert cached_tokens(workload, 2, 4) == 72


def test_ids_beyond_32_bits_leave_room_for_those_of_outputs() -> None:
    table = with_outputs([(25, 17, [1, 2, 2**31 - 1], -1), (60, 1, [1, 2, 13, 14, 15, 16], 0)])
    assert runs_of(table)[1][2:4] == [(2**31 - 1, 5), (2**31, 17)]


def test_a_window_keeps_what_is_in_it() -> None:
    asks = [FIRST, (50, 1, [1, 2, 13, 14, 15], 0), (50, 1, [1, 2, 13, 14, 15], 0)]
    table = with_outputs(asks)
    without_child = compress(table.slice(0, 1))
    assert without_child.tree.num_nodes == 0
    without_parent = compress(table.slice(1, 3))
    assert without_parent.shared_tokens().tolist() == [50, 50]
