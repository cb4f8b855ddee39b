"""Prompt runs of several traces as those of one: ids of different traces become disjoint."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sim.workload import IntArray
from traces.schema import IdArray, PromptRuns, TraceTable

MAX_OWN_ID = 2**48
"""Ids from here on are renumbered, so that those of many traces fit 64 bits."""


def small_ids(ids: IntArray | None) -> IntArray | None:
    """The ids, renumbered where the sum with others' might not fit 64 bits."""
    if ids is None or not len(ids) or int(ids.max()) < MAX_OWN_ID:
        return ids
    return np.where(ids < 0, -1, np.searchsorted(np.unique(ids[ids >= 0]), ids))


def first_ids(columns: Sequence[IdArray | None]) -> list[int]:
    """Where the ids of each table begin so that no two tables have the same."""
    first = [0]
    for ids in columns:
        first.append(first[-1] + (0 if ids is None or not len(ids) else int(ids.max()) + 1))
    return first


def joined_runs(tables: Sequence[TraceTable]) -> tuple[PromptRuns | None, IntArray | None]:
    """Runs of all tables with disjoint ids, and the column `output_run` in those ids."""
    if all(table.runs is None for table in tables):
        return None, None
    tables = [_with_small_ids(_with_runs(table)) for table in tables]
    first = first_ids([_ids_in_use(table) for table in tables])
    runs = [_runs_of(table) for table in tables]
    counts = np.concatenate([np.diff(own.offsets) for own in runs])
    output_run = _joined_outputs(tables, first)
    blocks = {own.block_tokens for own in runs if len(own.ids)}
    block_tokens = blocks.pop() if len(blocks) == 1 and output_run is None else None
    joined = PromptRuns(
        ids=_disjoint_ids(runs, first),
        offsets=np.append(0, np.cumsum(counts)),
        block_tokens=block_tokens,
        tokens=None if block_tokens else np.concatenate([_tokens_of_runs(t) for t in tables]),
    )
    return joined, output_run


def _joined_outputs(tables: Sequence[TraceTable], first: Sequence[int]) -> IntArray | None:
    if all(table.output_run is None for table in tables):
        return None
    columns = [table.output_run for table in tables]
    return np.concatenate(
        [
            np.full(table.num_requests, -1) if own is None else np.where(own < 0, -1, own + start)
            for table, own, start in zip(tables, columns, first, strict=False)
        ]
    )


def _disjoint_ids(runs: Sequence[PromptRuns], first: Sequence[int]) -> IdArray:
    num_before = np.cumsum([0, *(len(own.ids) for own in runs)]).tolist()
    num_ids, is_small = num_before[-1], first[-1] <= np.iinfo(np.int32).max
    ids: IdArray = np.empty(num_ids, np.int32) if is_small else np.empty(num_ids, np.int64)
    for i, own in enumerate(runs):
        own_part = ids[num_before[i] : num_before[i + 1]]
        np.add(own.ids, first[i], out=own_part, dtype=ids.dtype, casting="unsafe")
    return ids


def _with_runs(table: TraceTable) -> TraceTable:
    if table.runs is not None:
        return table
    none = np.empty(0, dtype=np.int64)
    offsets = np.zeros(table.num_requests + 1, dtype=np.int64)
    runs = PromptRuns(ids=none.astype(np.int32), offsets=offsets, tokens=none)
    return replace(table, runs=runs, output_run=None)


def _runs_of(table: TraceTable) -> PromptRuns:
    assert table.runs is not None
    return table.runs


def _ids_in_use(table: TraceTable) -> IdArray:
    """Ids of runs and of reused outputs (-1 where there is none)."""
    ids = _runs_of(table).ids
    if table.output_run is None:
        return ids
    return np.append(ids.astype(np.int64), table.output_run)


def _with_small_ids(table: TraceTable) -> TraceTable:
    """The table with ids of runs that leave room for those of others."""
    used = _ids_in_use(table)
    if not len(used) or int(used.max()) < MAX_OWN_ID:
        return table
    names = np.unique(used[used >= 0])
    runs = replace(_runs_of(table), ids=np.searchsorted(names, _runs_of(table).ids))
    output_run = table.output_run
    if output_run is not None:
        output_run = np.where(output_run < 0, -1, np.searchsorted(names, output_run))
    return replace(table, runs=runs, output_run=output_run)


def _tokens_of_runs(table: TraceTable) -> IntArray:
    """Tokens of every run, also where all but the last of a prompt are blocks of equal size."""
    runs = _runs_of(table)
    if runs.tokens is not None:
        return runs.tokens
    assert runs.block_tokens is not None
    tokens = np.full(len(runs.ids), runs.block_tokens, dtype=np.int64)
    num_blocks = np.diff(runs.offsets)
    has_blocks = num_blocks > 0
    rest = table.prompt_tokens - (num_blocks - 1) * runs.block_tokens
    tokens[(runs.offsets[1:] - 1)[has_blocks]] = np.minimum(rest, runs.block_tokens)[has_blocks]
    return tokens
